"""From what the checkpoint holds to the shape of the topology that goes on with it.

Slots of spout tasks are given out once and for ever, because root ids contain them. A task that is
no longer there takes its state with it. When the number of ackers has changed, pending trees are
divided among them anew.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fulmen.checkpoint import Manifest, Store, Update, load_many
from fulmen.engine.ackers import Trees, acker_index, sequence_ranges
from fulmen.engine.acking import columns, restore
from fulmen.engine.protocol import DELIVERIES, Deliveries, pack_deliveries, unpack_deliveries
from fulmen.errors import CheckpointError
from fulmen.plan import Plan
from fulmen.topology.spec import ACKER, Topology

ACKERS_OFF = "acking was turned off"


@dataclass(frozen=True)
class Layout:
    """What a checkpoint belongs to.

    Attributes:
        tasks: The number of tasks of each component; fixed for the topology's life.
        slots: Task key of a spout task -> its slot in root ids.
        next_slot: The first that was never given out.
    """

    tasks: Mapping[str, int] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    next_slot: int = 1

    @staticmethod
    def of_slots(slots: Mapping[str, int]) -> Layout:
        """A layout of which only the slots matter."""
        return Layout(slots=slots)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"tasks": dict(self.tasks), "slots": dict(self.slots), "next_slot": self.next_slot}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Layout:
        """What `to_json` gave."""
        return Layout(content["tasks"], content["slots"], content["next_slot"])


@dataclass(frozen=True)
class Change:
    """What a commit must do to the checkpoint."""

    updates: dict[str, dict[str, Update]]
    removed_tasks: list[str]
    transient: Mapping[str, bytes]


def migrate(
    known: Layout | None, plan: Plan, topology: Topology, manifest: Manifest, store: Store
) -> tuple[Layout, Change | None]:
    """The layout of this topology, and what its checkpoint needs for it; None if nothing."""
    before = known or Layout()
    keys = {plan.key_of(task) for ids in plan.component_tasks.values() for task in ids}
    # a spout that comes back after it was removed counts from 0 again: in a slot of its own
    slots = {key: slot for key, slot in before.slots.items() if key in keys}
    next_slot = before.next_slot
    for spout in sorted(s.name for s in topology.spec.spouts):
        for task in plan.tasks(spout):
            if plan.key_of(task) not in slots:
                slots[plan.key_of(task)] = next_slot
                next_slot += 1
    tasks = {name: len(ids) for name, ids in plan.component_tasks.items()}
    _check_tasks(before.tasks, tasks, store.uri)
    layout = Layout(tasks, slots, next_slot)
    if known == layout:
        return layout, None
    ackers = [key for key in manifest.tasks if key.split("/")[0] == ACKER]
    updates: dict[str, dict[str, Update]] = {}
    transient: dict[str, bytes] = {}
    if ackers and before.tasks.get(ACKER) != tasks.get(ACKER):
        found = load_many(store, manifest, ackers)
        trees = [restore(slots_of.get("trees", ())) for slots_of in found.values()]
        updates, transient = _divide(trees, tasks.get(ACKER, 0), manifest)
    return layout, Change(updates, [key for key in manifest.tasks if key not in keys], transient)


def _check_tasks(before: Mapping[str, int], tasks: Mapping[str, int], where: str) -> None:
    for name, n in tasks.items():
        old = before.get(name, n)
        if n != old and name != ACKER:
            raise CheckpointError(
                f"checkpoint {where}: component {name!r} has {old} tasks there, and {n} in this"
                " topology, whose state would be lost or in the wrong places. numTasks is fixed for"
                f" a topology's life: set it to {old}, or give the component another name"
            )


def _divide(
    parts: list[Trees], ackers: int, manifest: Manifest
) -> tuple[dict[str, dict[str, Update]], dict[str, bytes]]:
    """Pending trees for another number of ackers; without ackers they fail."""
    trees = Trees(
        *(
            np.concatenate([getattr(t, c) for t in parts])
            for c in ("roots", "values", "since", "born")
        )
    )
    trees = trees.take(np.argsort(trees.roots, kind="stable"))
    if ackers:
        to = acker_index(trees.roots, ackers)
        records = {k: pickle.dumps((columns(trees.take(to == k)), None), 5) for k in range(ackers)}
        number = manifest.number + 1
        return {
            f"{ACKER}/{k}": {"trees": Update(data, None, number)} for k, data in records.items()
        }, {}
    deliveries = (
        dict(unpack_deliveries(manifest.transient[DELIVERIES]))
        if DELIVERIES in manifest.transient
        else {}
    )
    for slot, ranges in sequence_ranges(trees.roots).items():
        failed = tuple((s, ACKERS_OFF) for a, b in ranges.tolist() for s in range(a, b))
        old = deliveries.get(slot, Deliveries(np.empty((0, 2), np.int64)))
        deliveries[slot] = Deliveries(old.acked, old.failed + failed)
    return {}, {DELIVERIES: pack_deliveries(deliveries)}
