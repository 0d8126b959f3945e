"""Takes out of a checkpoint what can't be read any more, so that its topology starts again."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
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
from fulmen.engine.state.journals import FIELDS, STATE
from fulmen.engine.state.keyed_state import replayed, segment_journals
from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.segment_format import rewritten


class Removed(NamedTuple):
    """Something that can't be read.

    Attributes:
        task: Of the component, counted from 0.
        where: "state" or "fields".
        key: The key or the name of the field, as text.
        reason: Why not.
    """

    task: int
    where: str
    key: str
    reason: str


def find_unreadable(store: Store, component: str) -> list[Removed]:
    """What of a component's keyed state and fields can't be read with the classes of this process.

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
    return journal == FIELDS or journal.partition(".")[0] == STATE


def _journals_of(journals: Journals, task: int, removed: list[Removed]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}

    def kept(where: str, items: Mapping[Any, Any]) -> dict[Any, Any]:
        left = unreadable.left_of(items)
        removed.extend(Removed(task, where, key, reason) for key, reason in left.removed)
        return left.items

    for journal in segment_journals(journals, STATE):
        [data] = journals[journal]
        new = rewritten(journal, data, unreadable.loads, lambda items: kept(STATE, items))
        if new is not None:
            found[journal] = new
    if records := journals.get(STATE):  # the format of before
        items = replayed(records, unreadable.loads)
        left = kept(STATE, items)
        if len(left) < len(items):
            found[STATE] = pickle.dumps((left, []), 5)
    if records := journals.get(FIELDS):
        fields, *digests = unreadable.loads(records[-1])
        left = kept(FIELDS, fields)
        if len(left) < len(fields):
            found[FIELDS] = dumps((left, *digests), {})
    return found
