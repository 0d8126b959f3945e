"""Takes out of a checkpoint what can't be read any more, so that its topology starts again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from fulmen.checkpoint import (
    Manifest,
    Store,
    load_many,
    read_layout,
    read_newest,
)
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.batches.ledger import Ledger, ledger_of
from fulmen.engine.driver.edits.changes import Author, StateChange
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.protocol.transaction_work import Parts
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.segment_format import Keeps, rewritten
from fulmen.engine.state.journals import (
    FAILED,
    FIELDS,
    PARTITIONS,
    PENDING,
    RESULTS,
    ROWS,
    STATE,
    TIMERS,
)
from fulmen.engine.state.key_finder import tasks_of
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.values import unreadable

_KEYED = {
    STATE: "state",
    TIMERS: "timers",
    PARTITIONS: "partitions",
}
"""Keyed state with keys or values of authors, and what it is called."""
_MESSAGES: Mapping[str, tuple[type[PendingMessages] | type[FailedMessages], str]] = {
    PENDING: (PendingMessages, "pending messages"),
    FAILED: (FailedMessages, "messages that failed"),
}
"""Logs of messages with their ids."""


class Removed(NamedTuple):
    """A key or value that can't be read.

    Attributes:
        task: Of the component, counted from 0.
        where: What it is: "state", "fields", "pending messages", "messages that failed", "timers",
            "results", "rows", "partitions", "transactions".
        key: The key, the name of the field, the message id, the number of the partition or of the
            transaction, as text.
        reason: Why not; of metadata also what follows if it is taken out.
    """

    task: int
    where: str
    key: str
    reason: str


def find_unreadable(store: Store, component: str) -> list[Removed]:
    """Find what a component keeps that can't be read with the classes of this process.

    Raises:
        CheckpointError: The checkpoint is damaged.
    """
    return _look(store, read_newest(store), component).removed


def unreadable_in(journals: Journals, task: int) -> list[Removed]:
    """Find what cannot be read of what a task has kept."""
    removed: list[Removed] = []
    _journals_of(journals, task, removed)
    return removed


def remove_unreadable(store: Store, component: str, author: Author) -> list[Removed]:
    """Take it out. A driver that runs is ended by that, and the next one goes on without it.

    Raises:
        CheckpointError: The checkpoint is damaged, or somebody else has committed meanwhile.
    """
    edit = Edit(store, author)
    found = _look(store, edit.manifest, component)
    if found.removed:
        for key, journals in found.changed.items():
            for journal, data in journals.items():
                edit.put(key, journal, data)
        keys = [one.key for one in found.removed]
        edit.commit(StateChange("remove", component, "unreadable", len(keys), keys), found.ledger)
    return found.removed


class _Found(NamedTuple):
    """The unreadable part of a component, and the rest.

    Attributes:
        removed: What can't.
        changed: Task key -> the journals without it.
        ledger: The transactions without it; None: they stay.
    """

    removed: list[Removed]
    changed: dict[str, dict[str, bytes]]
    ledger: Ledger | None


def _look(store: Store, manifest: Manifest, component: str) -> _Found:
    keys = tasks_of(manifest, component)
    removed: list[Removed] = []
    changed: dict[str, dict[str, bytes]] = {}
    for key, journals in load_many(store, manifest, keys).items():
        of_task = _journals_of(journals, keys[key], removed)
        if of_task:
            changed[key] = of_task
    ledger = None
    if component in (read_layout(manifest) or {}).get("emitters", {}):
        ledger = _readable(ledger_of(manifest.transient), component, removed)
    return _Found(removed, changed, ledger)


def _readable(ledger: Ledger, source: str, removed: list[Removed]) -> Ledger | None:
    """The transactions for which the metadata of a source can be read; None: all.

    One that was begun after another was begun where that one ends, so it is begun anew as well.
    """
    metadata: dict[int, Parts] = {}
    is_anew = False
    for txid, parts in sorted(ledger.metadata.items()):
        data = parts.get(source)
        reason = None if data is None else unreadable.why_not(unreadable.loads(data))
        if reason is None and not is_anew:
            metadata[txid] = parts
            continue
        is_anew = txid > ledger.committed
        if not is_anew:
            metadata[txid] = {name: part for name, part in parts.items() if name != source}
        follows = "it is begun anew" if is_anew else "it stays committed"
        if txid == ledger.last == ledger.committed:
            follows += ", and the next one begins as the very first one did"
        why = reason or "one before it can't be read"
        removed.append(Removed(0, "transactions", str(txid), f"{why}; {follows}"))
    if metadata == ledger.metadata:
        return None
    last = max(metadata, default=ledger.committed)
    return replace(
        ledger,
        metadata=metadata,
        failures={txid: n for txid, n in ledger.failures.items() if txid <= last},
        reasons={txid: why for txid, why in ledger.reasons.items() if txid <= last},
    )


def _journals_of(journals: Journals, task: int, removed: list[Removed]) -> dict[str, bytes]:
    left = _Left(task, removed)
    new: dict[str, bytes | None] = {}
    for name, where in _KEYED.items():
        keeps = left.newest(left.ends if name == PARTITIONS else partial(left.items, where))
        new |= _keyed(journals, name, keeps)
    if records := journals.get(FIELDS):
        new[FIELDS] = _fields(records[-1], partial(left.items, "fields"))
    if records := journals.get(ROWS):
        new[ROWS] = _rows(records[-1], partial(left.numbered, "rows"))
    for name, (kind, where) in _MESSAGES.items():
        records = journals.get(name, ())
        new[name] = _messages(kind(), records, partial(left.msg_ids, where))
    records = journals.get(RESULTS, ())
    new[RESULTS] = _messages(PendingMessages(), records, partial(left.numbered, "results"))
    return _only_changed(new)


def _only_changed(journals: Mapping[str, bytes | None]) -> dict[str, bytes]:
    return {name: data for name, data in journals.items() if data is not None}


def _keyed(journals: Journals, name: str, keeps: Keeps) -> dict[str, bytes | None]:
    """The journals of a keyed state without some of its entries; None: as it is."""
    new: dict[str, bytes | None] = {}
    for journal in reversed(segment_journals(journals, name)):
        [data] = journals[journal]
        new[journal] = rewritten(journal, data, unreadable.loads, keeps)
    return new


@dataclass(frozen=True)
class _Left:
    """Says what can be read of one task, and notes the rest."""

    task: int
    removed: list[Removed]

    def items(self, where: str, items: Mapping[Any, Any]) -> dict[Any, Any]:
        return self._noted(where, unreadable.left_of(items))

    def newest(self, keeps: Keeps) -> Keeps:
        """Wrap `keeps` for calls from new to old: a key that one call takes out stays out.

        Otherwise an older value would take the place of one that was taken out.
        """
        gone: set[Any] = set()

        def kept(items: dict[Any, Any]) -> dict[Any, Any]:
            left = keeps({key: value for key, value in items.items() if key not in gone})
            gone.update(items.keys() - left.keys())
            return left

        return kept

    def ends(self, items: Mapping[int, Any]) -> dict[int, Any]:
        """Where transactions end in partitions, up to the first end that can't be read."""
        left: dict[int, Any] = {}
        for partition, ends in items.items():
            readable = tuple(takewhile(_is_readable, ends or ()))
            if ends is None or len(readable) == len(ends):  # None: of one that is deleted
                left[partition] = ends
                continue
            follows = "it is read from its beginning"
            if readable:
                follows = f"it goes on behind transaction {readable[-1][0]}"
                left[partition] = readable
            reason = f"{unreadable.why_not(ends[len(readable)])}; {follows}"
            self.removed.append(Removed(self.task, "partitions", str(partition), reason))
        return left

    def msg_ids(self, where: str, msg_ids: Mapping[int, Any]) -> dict[int, Any]:
        items = {number: unreadable.hashable(msg_id) for number, msg_id in msg_ids.items()}
        return self.numbered(where, items)

    def numbered(self, where: str, items: Mapping[int, Any]) -> dict[int, Any]:
        return self._noted(where, unreadable.left_of(items, lambda _, item: item))

    def _noted(self, where: str, left: unreadable.Left) -> dict[Any, Any]:
        self.removed.extend(Removed(self.task, where, *one) for one in left.removed)
        return left.items


def _is_readable(value: Any) -> bool:
    return unreadable.why_not(value) is None


def _fields(record: bytes, keeps: Keeps) -> bytes | None:
    fields, *digests = unreadable.loads(record)
    left = keeps(fields)
    return None if len(left) == len(fields) else dumps((left, *digests), {})


def _rows(record: bytes, keeps: Keeps) -> bytes | None:
    *commit, refused, items = unreadable.loads(record)
    left = keeps(dict(enumerate([*items, *refused])))
    if len(left) == len(items) + len(refused):
        return None
    those = [row for i, row in left.items() if i >= len(items)]
    return dumps((*commit, those, [row for i, row in left.items() if i < len(items)]), {})


def _messages(
    log: PendingMessages | FailedMessages,
    records: Sequence[bytes],
    keeps: Callable[[Mapping[int, Any]], Mapping[int, Any]],
) -> bytes | None:
    """A log of messages as one record, without some of them; None if all of them stay.

    What has ended since counts as well: whoever restores the log has to read it.
    """
    is_same = True
    for data in records:
        record = unreadable.loads(data)
        ids = log.ids_in(record)
        kept = keeps(ids)
        is_same = is_same and len(kept) == len(ids)
        log.replay(record, kept)
    return None if is_same else dumps(log.everything(), {})
