"""A person's decisions about a checkpoint: go on with a store that does not fit, or forget.

What a store has is not known here. So the checkpoint forgets what it takes the store to have, and
what is missing stays missing.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np

from fulmen.checkpoint import (
    Store,
    Update,
    Updates,
    load_many,
    read_layout,
)
from fulmen.engine.batches.ledger import ledger_of
from fulmen.engine.driver.checkpoints.kept_components import (
    with_unwritten_rows,
    without_components,
)
from fulmen.engine.driver.checkpoints.kept_sources import without_open
from fulmen.engine.driver.checkpoints.layout import Layout, layout_of
from fulmen.engine.driver.edits.changes import Author, StateChange
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.state.journals import ENGINE, MARK
from fulmen.engine.state.key_finder import tasks_of
from fulmen.engine.state.messages.unwritten_rows import new_id, packed_point
from fulmen.errors import CheckpointError


def accept_store(store: Store, component: str, above: int, author: Author) -> str:
    """Go on with what the store of a sink has, or the stores of a transactional topology.

    A sink's tasks get new ids, so that they have no mark in the store: what of them writes late by
    the old one is refused. Transactions get numbers above `above`, so that rows take them.

    Args:
        store: The checkpoint.
        component: The sink, or a transactional spout.
        above: The last transaction that a store has, if the checkpoint is older.
        author: Who does it.

    Returns:
        What was done.

    Raises:
        CheckpointError: The component has no mark in any store, or a driver goes on committing.
    """
    edit = Edit(store, author)
    manifest = edit.manifest
    sources = read_layout(manifest).get("emitters", {})
    is_source = component in sources
    marks: Updates = {} if is_source else _sink_marks(store, edit, component)
    if not is_source and not marks:
        raise CheckpointError(
            f"checkpoint {store.uri}: {component!r} is neither a sink that has written with"
            " guarantee: exactly-once nor a transactional spout, so no store has a mark of it."
            " Name the component that the message has named."
        )
    change = StateChange("accept-store", component, count=len(marks))
    if is_source:
        ledger = ledger_of(edit.manifest.transient)
        if above > ledger.committed:
            _drop_open(edit, store, sources, ledger.committed)
        ledger = ledger.accepting(above)
        edit.commit(change, ledger)
        return f"the next transaction is {ledger.committed + 1}, and stores may have any before it"
    edit.updates = marks
    edit.commit(change)
    return f"{len(edit.updates)} tasks of {component!r} go on with what the store has"


def forget(store: Store, component: str, author: Author) -> int:
    """Remove all state of a component: if there still is one of that name, it begins anew.

    Returns:
        How many tasks had state.

    Raises:
        CheckpointError: It has rows to write, or a driver goes on committing.
    """
    edit = Edit(store, author)
    layout = layout_of(edit.manifest) or Layout()
    if any(with_unwritten_rows(edit.manifest, [component])):
        raise CheckpointError(
            f"checkpoint {store.uri}: sink {component!r} has rows that are committed, and perhaps"
            " not written yet. Nothing was removed. Start the topology with it once more until they"
            " are written."
        )
    ledger = None
    if component in layout.emitters:
        ledger = ledger_of(edit.manifest.transient).without([component])
    shape = without_components(layout, edit.manifest, [component])
    count = len(shape.removed_tasks)
    edit.commit(StateChange("forget", component, count=count), ledger, shape)
    return count


def _sink_marks(store: Store, edit: Edit, component: str) -> Updates:
    """New ids of a sink's tasks that have one."""
    number, rng = edit.number, np.random.default_rng()
    keys = tasks_of(edit.manifest, component)
    loaded = load_many(store, edit.manifest, keys, lambda j: j == ENGINE)
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
    for source in sources:
        for key, journal, left in without_open(store, edit.manifest, source, committed):
            edit.put(key, journal, left)
