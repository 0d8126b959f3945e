"""A person's decisions about a checkpoint: go on with a store that does not fit, or forget.

What a store has is not known here. So the checkpoint forgets what it takes the store to have, and
what is missing stays missing.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fulmen.checkpoint import (
    Manifest,
    Store,
    Update,
    Updates,
    load_many,
    read_layout,
    read_newest,
)
from fulmen.engine.batches.ledger import ledger_of
from fulmen.engine.driver.checkpoints.layout import CheckpointChange, Layout, layout_of
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.state.committed_state import tasks_of
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.segment_format import rewritten
from fulmen.engine.state.journals import ENGINE, MARK, PARTITIONS
from fulmen.engine.state.messages.unwritten_rows import new_id, packed_point
from fulmen.errors import CheckpointError
from fulmen.plan import task_of_key


def accept_store(store: Store, component: str, above: int, driver: str) -> str:
    """Go on with what the store of a sink has, or the stores of a transactional topology.

    A sink's tasks get new ids, so that they have no mark in the store: what of them writes late by
    the old one is refused. Transactions get numbers above `above`, so that rows take them.

    Args:
        store: The checkpoint.
        component: The sink, or a transactional spout.
        above: The last transaction that a store has, if the checkpoint is older.
        driver: Who does it, for the message of a driver that runs.

    Returns:
        What was done.

    Raises:
        CheckpointError: The component has no mark in any store, or a driver goes on committing.
    """
    manifest = read_newest(store)
    sources = read_layout(manifest).get("emitters", {})
    is_source = component in sources
    if not is_source and not _sink_marks(store, manifest, component):
        raise CheckpointError(
            f"checkpoint {store.uri}: {component!r} is neither a sink that has written with"
            " guarantee: exactly-once nor a transactional spout, so no store has a mark of it."
            " Name the component that the message has named."
        )
    edit = Edit(store, driver)
    if is_source:
        ledger = ledger_of(edit.manifest.transient)
        if above > ledger.committed:
            _drop_open(edit, store, sources, ledger.committed)
        ledger = ledger.accepting(above)
        edit.commit(ledger)
        return f"the next transaction is {ledger.committed + 1}, and stores may have any before it"
    edit.updates = _sink_marks(store, edit.manifest, component)
    edit.commit()
    return f"{len(edit.updates)} tasks of {component!r} go on with what the store has"


def forget(store: Store, component: str, driver: str) -> int:
    """Remove the state of a component that is not in the topology any more.

    Returns:
        How many tasks had state.

    Raises:
        CheckpointError: The component is in the topology, or a driver goes on committing.
    """
    layout = layout_of(read_newest(store)) or Layout()
    if component not in layout.kept:
        names = ", ".join(map(repr, layout.kept)) or "none"
        raise CheckpointError(
            f"checkpoint {store.uri}: {component!r} was in the topology that ran last, so its state"
            " is not removed. Run the topology without it first. Components whose state is kept"
            f" though they are gone: {names}."
        )
    edit = Edit(store, driver)
    removed = [key for key in edit.manifest.tasks if task_of_key(key)[0] == component]
    kept = {name: one for name, one in layout.kept.items() if name != component}
    edit.commit(change=CheckpointChange(replace(layout, kept=kept), removed))
    return len(removed)


def _sink_marks(store: Store, manifest: Manifest, component: str) -> Updates:
    """New ids of a sink's tasks that have one."""
    number, rng = manifest.number + 1, np.random.default_rng()
    loaded = load_many(store, manifest, tasks_of(manifest, component), lambda j: j == ENGINE)
    updates: Updates = {}
    for key, journals in loaded.items():
        engine: dict[str, Any] = pickle.loads(journals[ENGINE][-1]) if journals else {}
        if "sink" in engine:
            data = pickle.dumps(engine | {"sink": new_id(rng)}, 5)
            mark = Update(packed_point(None), None, number)
            updates[key] = {ENGINE: Update(data, None, number), MARK: mark}
    return updates


def _drop_open(edit: Edit, store: Store, sources: Iterable[str], committed: int) -> None:
    """Forget where transactions end in partitions that are not committed."""

    def committed_ends(items: Mapping[int, Any]) -> dict[int, Any]:
        return {
            partition: ends and tuple(end for end in ends if end[0] <= committed)
            for partition, ends in items.items()
        }

    keys = [key for source in sources for key in tasks_of(edit.manifest, source)]
    for key, journals in load_many(store, edit.manifest, keys).items():
        for journal in segment_journals(journals, PARTITIONS):
            [data] = journals[journal]
            left = rewritten(journal, data, pickle.loads, committed_ends)
            if left is not None:
                edit.put(key, journal, left)
