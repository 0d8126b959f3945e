"""From a savepoint: back to an older state, or a topology of its own.

Going back is one later commit, which links what the savepoint keeps. Commit numbers never go back,
so a branch begins with it. The state before it gets a savepoint, so that it can be undone.

A copy, in a checkpoint of its own, must never touch what the original writes to: it has another
identity and other ids of sinks, and rows that the original had not written yet are left out.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fulmen.checkpoint import (
    Commit,
    CommitLog,
    Manifest,
    Store,
    Update,
    Updates,
    load_many,
    new_tag,
)
from fulmen.checkpoint.names import commit_key
from fulmen.checkpoint.payloads import newest_number, read_newest
from fulmen.checkpoint.record import encode
from fulmen.checkpoint.savepoints.exports import Savepoint, copy_objects, opened
from fulmen.checkpoint.savepoints.history import HISTORY, Branch, branches_of, history_section
from fulmen.checkpoint.savepoints.pins import (
    PINS,
    Pin,
    pin_named,
    pins_in,
    pins_section,
    read_pinned,
)
from fulmen.engine.driver.checkpoints.layout import CheckpointChange, layout_of
from fulmen.engine.driver.edits.changes import StateChange, with_changes
from fulmen.engine.driver.edits.sink_ids import kept_ids, with_sinks
from fulmen.engine.state.journals import ENGINE, MARK, ROWS
from fulmen.engine.state.messages.unwritten_rows import new_id, packed_point
from fulmen.errors import AlreadyExists, CheckpointError
from fulmen.topology.resource.spec import Topology
from fulmen.topology.resource.spec.savepoints import RestoreFrom

RESTORED = "restored"
"""The section with what `spec.restoreFrom` named when it was done last."""
UNDO = "before-restore-"
"""What the names of savepoints begin with that going back makes of the state before it."""


def begin_from(store: Store, topology: Topology, who: str, note: Callable[[str], None]) -> None:
    """Fill an empty checkpoint if `spec.restoreFrom` names a savepoint that is elsewhere.

    Raises:
        CheckpointError: The checkpoint is not empty, or the savepoint can't be read.
    """
    wanted = topology.spec.restore_from
    if wanted is None or not wanted.is_elsewhere or _is_done(store, wanted):
        return
    with opened(wanted.savepoint) as savepoint:
        for text in copied(savepoint, store, topology.whole_name, who, wanted):
            note(text)


def _is_done(store: Store, wanted: RestoreFrom) -> bool:
    if newest_number(store) == 0:
        return False
    try:
        manifest = read_newest(store)
    except CheckpointError:  # a copy that was not finished goes on; anything else is refused there
        return False
    return _restored(manifest) == wanted.savepoint


def go_back_as_told(
    log: CommitLog, store: Store, topology: Topology, note: Callable[[str], None], now: float
) -> None:
    """Go back if `spec.restoreFrom` names a savepoint of this checkpoint, once.

    Args:
        log: The commits; it has claimed them.
        store: The checkpoint.
        topology: With the spec.
        note: Is told what was done.
        now: In seconds since 1970.

    Raises:
        CheckpointError: There is no such savepoint.
    """
    wanted, done = topology.spec.restore_from, _restored(log.manifest)
    if wanted is None:
        if done:  # it is done once more if it is named once more
            _commit(log, sections={RESTORED: None})
        return
    if wanted.savepoint == done:
        note(f"savepoint {done!r} was restored before: what came after it stays")
    elif not wanted.is_elsewhere:
        note(go_back(log, store, wanted.savepoint, now, wanted))


def go_back(
    log: CommitLog,
    store: Store,
    name: str,
    now: float,
    wanted: RestoreFrom | None = None,
    change: StateChange | None = None,
) -> str:
    """Make a commit with the content of a savepoint. Returns what was done.

    Args:
        log: The commits; it has claimed them.
        store: The checkpoint.
        name: Of the savepoint.
        now: In seconds since 1970.
        wanted: The field of the spec that says so, if it does.
        change: For the log of changes.

    Raises:
        CheckpointError: There is no such savepoint, or it is damaged.
    """
    manifest, number = log.manifest, log.manifest.number + 1
    pin = pin_named(store, manifest, name)
    before = read_pinned(store, name, pin)
    tag, undo = new_tag(), f"{UNDO}{manifest.number}"
    pins = pins_in(manifest.sections.get(PINS))
    pins[undo] = Pin(number, now, f"before going back to {name!r}", manifest.driver)
    branches = [*branches_of(manifest), Branch(pin.number, number)]
    sections: dict[str, bytes | None] = dict.fromkeys(manifest.sections)
    sections |= before.sections
    sections |= {PINS: pins_section(pins), HISTORY: history_section(branches)}
    # What the spec named stays done, or its next start would go back there once more.
    done = manifest.sections.get(RESTORED)
    sections[RESTORED] = done if wanted is None else json.dumps(wanted.savepoint).encode()
    if change is not None:
        sections |= with_changes(before, [change])
    updates = kept_ids(store, before, manifest, number)
    then, current = layout_of(before), layout_of(manifest)
    if then is not None and current is not None:  # an origin is given once
        origin = max(then.next_origin, current.next_origin)
        layout = replace(with_sinks(then, current, updates, now), next_origin=origin)
        sections |= CheckpointChange(layout).sections
    draft = log.draft(
        tag=tag,
        clock=before.clock,
        updates=updates,
        sections=sections,
        transient=before.transient,
        removed_tasks=list(manifest.tasks),
        links=before.tasks,
        lender=before,
        full=True,
    )
    log.commit(draft)
    return (
        f"went back to savepoint {name!r}, the state of commit {pin.number}, with commit {number}."
        f" The state before is savepoint {undo!r}"
    )


def _commit(log: CommitLog, sections: dict[str, bytes | None]) -> None:
    manifest = log.manifest
    draft = log.draft(
        tag=new_tag(),
        clock=manifest.clock,
        sections=sections,
        transient=dict(manifest.transient),
    )
    log.commit(draft)


def copied(
    savepoint: Savepoint, store: Store, owner: str, who: str, wanted: RestoreFrom | None = None
) -> list[str]:
    """Have an empty checkpoint begin with a copy of a savepoint's state. Returns what was done.

    Args:
        savepoint: Of any checkpoint, or an export.
        store: The empty checkpoint.
        owner: The namespace and name of the topology that it is for.
        who: Who does it, for messages.
        wanted: The field of the spec that says so, if it does.

    Raises:
        CheckpointError: The checkpoint is not empty, or the savepoint is damaged.
    """
    copy_objects(savepoint, store)
    manifest, number, tag = savepoint.manifest, savepoint.pin.commit, new_tag()
    updates, unwritten = _without_rows(store, manifest, number)
    sections: dict[str, bytes | None] = {PINS: None}
    branches = [*branches_of(manifest), Branch(savepoint.pin.number, number)]
    sections |= {HISTORY: history_section(branches)}
    if wanted is not None:
        sections[RESTORED] = json.dumps(wanted.savepoint).encode()
    if (layout := layout_of(manifest)) is not None:
        sections |= CheckpointChange(replace(layout, identity=new_tag())).sections
    commit = Commit(
        number=number,
        tag=tag,
        epoch=manifest.epoch,
        driver=who,
        clock=manifest.clock,
        topology=owner,
        base=number,
        updates=updates,
        sections=sections,
        transient=manifest.transient,
        manifest=replace(manifest, claims=[]),
    )
    try:
        store.put(commit_key(number), encode(commit))
    except AlreadyExists:
        return ["another driver has restored the savepoint at the same time"]
    told = [
        f"restored savepoint {savepoint.uri} of topology {manifest.topology!r}, the state of commit"
        f" {manifest.number}"
    ]
    if unwritten:
        told.append(
            f"rows that sinks of {manifest.topology!r} had still to write are left out:"
            f" {', '.join(unwritten)}"
        )
    return told


def _without_rows(store: Store, manifest: Manifest, number: int) -> tuple[Updates, list[str]]:
    """New ids for sinks, and no rows to write. Returns also the tasks that had rows."""
    updates: Updates = {}
    rng, loaded = np.random.default_rng(), load_many(store, manifest, manifest.tasks, _is_of_engine)
    for key, journals in loaded.items():
        engine: dict[str, Any] = pickle.loads(journals[ENGINE][-1]) if journals else {}
        if "sink" in engine:
            data = pickle.dumps(engine | {"sink": new_id(rng)}, 5)
            no_mark = Update(packed_point(None), None, number)
            updates[key] = {ENGINE: Update(data, None, number), MARK: no_mark}
    unwritten = [key for key, journals in manifest.tasks.items() if ROWS in journals]
    for key in unwritten:
        updates.setdefault(key, {})[ROWS] = Update(None, None, number)
    return updates, unwritten


def _is_of_engine(journal: str) -> bool:
    return journal == ENGINE


def _restored(manifest: Manifest) -> str:
    restored: str = json.loads(manifest.sections.get(RESTORED, b'""'))
    return restored
