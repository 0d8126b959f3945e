"""Takes out of a checkpoint what can't be read any more, so that its topology starts again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fulmen.checkpoint import (
    CommitLog,
    Manifest,
    Store,
    Updates,
    load_many,
    new_tag,
    read_newest,
    save,
)
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.state import unreadable
from fulmen.engine.state.committed_state import tasks_of
from fulmen.engine.state.failed_messages import FailedMessages
from fulmen.engine.state.journals import (
    FAILED,
    FAILURES,
    FIELDS,
    PENDING,
    RESULTS,
    ROWS,
    STATE,
    TIMERS,
)
from fulmen.engine.state.keyed_state import replayed, segment_journals
from fulmen.engine.state.pending_messages import PendingMessages
from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.segment_format import Keeps, rewritten

_KEYED = {STATE: "state", FAILURES: "messages that failed", TIMERS: "timers"}
"""Keyed state that has keys of authors, and what it is called."""
_MESSAGES: Mapping[str, tuple[type[PendingMessages] | type[FailedMessages], str]] = {
    PENDING: (PendingMessages, "pending messages"),
    FAILED: (FailedMessages, "messages that failed"),
}
"""Logs of messages with their ids."""


class Removed(NamedTuple):
    """Something that can't be read.

    Attributes:
        task: Of the component, counted from 0.
        where: What it is: "state", "fields", "pending messages", "messages that failed", "timers",
            "results", "rows".
        key: The key, the name of the field or the message id, as text.
        reason: Why not.
    """

    task: int
    where: str
    key: str
    reason: str


def find_unreadable(store: Store, component: str) -> list[Removed]:
    """What a component keeps that can't be read with the classes of this process.

    Raises:
        CheckpointError: The checkpoint is damaged.
    """
    return _look(store, read_newest(store), component)[0]


def remove_unreadable(store: Store, component: str, driver: str) -> list[Removed]:
    """Take it out. A driver that runs is ended by that, and the next one goes on without it.

    Args:
        store: The checkpoint.
        component: Whose state it is.
        driver: Who does it, for the message of a driver that runs.

    Raises:
        CheckpointError: The checkpoint is damaged, or a driver goes on committing.
    """
    manifest = read_newest(store)
    if not _look(store, manifest, component)[0]:
        return []
    log = CommitLog.open(store, manifest.topology, driver)
    log.claim()
    manifest, tag = log.manifest, new_tag()
    removed, found = _look(store, manifest, component)
    number = manifest.number + 1
    updates: Updates = {
        key: {
            journal: save(store, number, tag, key, journal, data, number)
            for journal, data in journals.items()
        }
        for key, journals in found.items()
    }
    # what was to be delivered to spouts is valid for one commit: it still is to be delivered
    transient = dict(manifest.transient)
    log.commit(log.draft(tag=tag, clock=manifest.clock, updates=updates, transient=transient))
    return removed


def _look(
    store: Store, manifest: Manifest, component: str
) -> tuple[list[Removed], dict[str, dict[str, bytes]]]:
    """What can't be read, and the journals without it."""
    keys = tasks_of(manifest, component)
    removed: list[Removed] = []
    changed: dict[str, dict[str, bytes]] = {}
    for key, journals in load_many(store, manifest, keys, _is_looked_at).items():
        found = _journals_of(journals, keys[key], removed)
        if found:
            changed[key] = found
    return removed, changed


def _is_looked_at(journal: str) -> bool:
    whole = {FIELDS, RESULTS, ROWS, *_MESSAGES}
    return journal in whole or journal.partition(".")[0] in _KEYED


def _journals_of(journals: Journals, task: int, removed: list[Removed]) -> dict[str, bytes]:
    left = _Left(task, removed)
    found: dict[str, bytes | None] = {}
    for name, where in _KEYED.items():
        keeps = partial(left.items, where)
        for journal in segment_journals(journals, name):
            [data] = journals[journal]
            found[journal] = rewritten(journal, data, unreadable.loads, keeps)
        if records := journals.get(name):
            found[name] = _in_the_format_of_before(records, keeps)
    if records := journals.get(FIELDS):
        found[FIELDS] = _fields(records[-1], partial(left.items, "fields"))
    if records := journals.get(ROWS):
        found[ROWS] = _rows(records[-1], left.rows)
    for name, (kind, where) in _MESSAGES.items():
        records = journals.get(name, ())
        found[name] = _messages(kind(), records, partial(left.msg_ids, where))
    records = journals.get(RESULTS, ())
    found[RESULTS] = _messages(PendingMessages(), records, left.results)
    return {name: data for name, data in found.items() if data is not None}


class _Left(NamedTuple):
    """Says what can be read of one task, and notes the rest."""

    task: int
    removed: list[Removed]

    def items(self, where: str, items: Mapping[Any, Any]) -> dict[Any, Any]:
        return self._noted(where, unreadable.left_of(items))

    def msg_ids(self, where: str, msg_ids: Mapping[int, Any]) -> dict[int, Any]:
        items = {number: unreadable.hashable(msg_id) for number, msg_id in msg_ids.items()}
        return self._noted(where, unreadable.left_of(items, lambda _, msg_id: msg_id))

    def results(self, results: Mapping[int, Any]) -> dict[int, Any]:
        return self._noted("results", unreadable.left_of(results, lambda _, result: result))

    def rows(self, rows: Mapping[int, Any]) -> dict[int, Any]:
        return self._noted("rows", unreadable.left_of(rows, lambda _, row: row))

    def _noted(self, where: str, left: unreadable.Left) -> dict[Any, Any]:
        self.removed.extend(Removed(self.task, where, *one) for one in left.removed)
        return left.items


def _in_the_format_of_before(records: Sequence[bytes], keeps: Keeps) -> bytes | None:
    items = replayed(records, unreadable.loads)
    left = keeps(items)
    return None if len(left) == len(items) else pickle.dumps((left, []), 5)


def _fields(record: bytes, keeps: Keeps) -> bytes | None:
    fields, *digests = unreadable.loads(record)
    left = keeps(fields)
    return None if len(left) == len(fields) else dumps((left, *digests), {})


def _rows(record: bytes, keeps: Keeps) -> bytes | None:
    *commit, items = unreadable.loads(record)
    left = keeps(dict(enumerate(items)))
    return None if len(left) == len(items) else dumps((*commit, list(left.values())), {})


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
