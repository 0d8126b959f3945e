"""From what the checkpoint holds to the shape of the topology that goes on with it.

An origin is given out once and for ever, because root ids contain it: to spout tasks, and to bolt
tasks whose results have trees. The state of a component that is no longer there is kept: it may
have been renamed by mistake, and comes back. When the number of ackers has changed, pending trees
are divided among them anew. A txid is given out once and for ever, because stores know it: a
transactional spout that takes the place of another begins with nothing, and with the next txid.

What can't be taken back waits for the first batch of the new shape, and is committed with it: until
then the checkpoint is still one that the shape before can go on with, and find everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fulmen.checkpoint import Manifest, Store, Update, load_many
from fulmen.engine.acking.acker_task import TREES, record, restore
from fulmen.engine.acking.messages import acker_index
from fulmen.engine.acking.root_ids import ORIGINS, sequence_ranges
from fulmen.engine.acking.trees import Trees
from fulmen.engine.batches.ledger import Ledger, ledger_of
from fulmen.engine.driver.checkpoints.layout import CheckpointChange, KeptComponent, Layout
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.state.journals import ROWS
from fulmen.errors import CheckpointMismatch
from fulmen.plan import Plan, task_key, task_of_key
from fulmen.topology.resource.spec import ACKER, Topology

ACKERS_OFF = "acking was turned off"


@dataclass(frozen=True)
class Migration:
    """How a checkpoint gets the shape of a topology.

    Attributes:
        layout: Of the topology.
        first: To be committed before its first batch: the shape before can undo it. None: nothing.
        rest: To be committed with its first batch. None: nothing.
        deliveries: How trees end by it. The first batch commits this, and the second tells spouts.
        ledger: What transactions go on from.
        dropped: Transactions that spouts which are gone had begun.
    """

    layout: Layout
    first: CheckpointChange | None = None
    rest: CheckpointChange | None = None
    deliveries: Mapping[int, Deliveries] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    dropped: range = range(0)

    def ended_after(self, owed: Mapping[int, Deliveries]) -> dict[int, Deliveries]:
        """Add the trees that end by it to what spout tasks are owed."""
        return {
            origin: owed[origin].plus(ended) if origin in owed else ended
            for origin, ended in self.deliveries.items()
        }


def migrate(
    known: Layout | None,
    plan: Plan,
    topology: Topology,
    manifest: Manifest,
    store: Store,
    *,
    partitioned: Collection[str] = (),
    identity: str = "",
) -> Migration:
    """Plan the changes that the checkpoint needs for this topology.

    Args:
        known: What the checkpoint belongs to.
        plan: The topology's.
        topology: What is to go on with it.
        manifest: The last commit.
        store: The checkpoint's.
        partitioned: The topology's transactional spouts that divide their sources.
        identity: What a checkpoint gets that has none.

    Raises:
        CheckpointMismatch: A component is another kind of source there, or has another number of
            tasks.
    """
    before = known or Layout()
    layout = _layout(before, plan, topology, partitioned)
    kept = _kept(before, layout, manifest)
    layout = replace(layout, identity=before.identity or identity, kept=kept)
    _check_tasks(before, layout.tasks, store.uri)
    _check_sources(before, layout, topology, store.uri)
    ledger, dropped = ledger_of(manifest.transient), range(0)
    gone = before.emitters.keys() - layout.emitters.keys()
    if gone:
        dropped = range(ledger.head, ledger.last + 1)
        ledger = ledger.without(gone)
    goes_on = bool(before.emitters.keys() & layout.emitters.keys())
    if not goes_on:
        layout = replace(layout, last_txid=max(before.last_txid, ledger.last))
    if not goes_on or ledger.last < layout.last_txid:
        ledger = ledger.begun_anew(layout.last_txid)
    migration = _reshaped(known, layout, plan, manifest, store)
    return replace(migration, ledger=ledger, dropped=dropped)


def _layout(before: Layout, plan: Plan, topology: Topology, partitioned: Collection[str]) -> Layout:
    next_origin, spouts = before.next_origin, sorted(s.name for s in topology.spec.spouts)
    origins, next_origin = _given(before.origins, keys_of(plan, spouts), next_origin)
    bolts = sorted(_bolts_with_results(topology) | {_component(key) for key in before.results})
    bolts = [name for name in bolts if name in plan.component_tasks and name not in spouts]
    results, next_origin = _given(before.results, keys_of(plan, bolts), next_origin)
    if next_origin > ORIGINS:
        raise CheckpointMismatch(
            f"the checkpoint has given out all {ORIGINS:,} numbers for tasks of spouts, and of"
            " bolts that emit: those of tasks that are gone are not used again. Begin with another"
            " checkpoint"
        )
    tasks = {name: len(ids) for name, ids in plan.component_tasks.items()}
    emitters = {one.name: one.name in partitioned for one in topology.spec.transactional}
    return Layout(tasks, origins, next_origin, emitters, before.last_txid, results)


def _kept(before: Layout, layout: Layout, manifest: Manifest) -> dict[str, KeptComponent]:
    """The components that are gone and have state, but not transactional spouts."""
    spouts = {_component(key) for key in before.origins}
    known = {name: KeptComponent(n, name in spouts) for name, n in before.tasks.items()}
    gone = {**before.kept, **known}.items() - {(ACKER, known.get(ACKER))}
    have_state = {_component(key) for key in manifest.tasks} - {*layout.tasks, *before.emitters}
    return {name: kept for name, kept in sorted(gone) if name in have_state}


def keys_of(plan: Plan, components: Iterable[str]) -> list[str]:
    """The keys of all tasks of these components."""
    return [plan.key_of(task) for name in components for task in plan.tasks(name)]


def _given(
    before: Mapping[str, int], keys: Sequence[str], next_origin: int
) -> tuple[dict[str, int], int]:
    """The origins of tasks, and the next that is to be given out.

    A component that comes back after it was removed counts from 0 again: with origins of its own.
    """
    given = {key: origin for key, origin in before.items() if key in keys}
    for key in keys:
        if key not in given:
            given[key] = next_origin
            next_origin += 1
    return given, next_origin


def _bolts_with_results(topology: Topology) -> set[str]:
    """The bolts whose results have trees: somebody receives what they emit."""
    spec = topology.spec
    if spec.transactional:  # there they belong to their transaction
        return set()
    sources = {wanted.from_ for bolt in spec.bolts for wanted in bolt.inputs}
    return {bolt.name for bolt in spec.bolts if bolt.track_results and bolt.name in sources}


def _reshaped(
    known: Layout | None, layout: Layout, plan: Plan, manifest: Manifest, store: Store
) -> Migration:
    """Plan what happens to tasks that are gone, and to pending trees."""
    if known == layout:
        return Migration(layout)
    if known is None:
        return Migration(layout, first=CheckpointChange(layout))
    tasks = layout.tasks
    keys = {plan.key_of(task) for ids in plan.component_tasks.values() for task in ids}
    gone = [key for key in manifest.tasks if key not in keys]
    _check_written(gone, manifest, store.uri)
    removed = [key for key in gone if _component(key) not in layout.kept]
    ackers = [key for key in manifest.tasks if _component(key) == ACKER]
    if not ackers or known.tasks.get(ACKER) == tasks.get(ACKER):
        return Migration(layout, rest=CheckpointChange(layout, removed))
    loaded = load_many(store, manifest, ackers)
    trees = Trees.joined(restore(journals_of.get(TREES, ())) for journals_of in loaded.values())
    if not tasks.get(ACKER):
        return Migration(layout, None, CheckpointChange(layout, removed), _ended(trees))
    first = CheckpointChange(
        replace(known, tasks={**known.tasks, ACKER: tasks[ACKER]}),
        [key for key in removed if _component(key) == ACKER],
        _divided(trees, tasks[ACKER], manifest.number + 1),
    )
    if first.layout == layout:
        return Migration(layout, first)
    # what can't be taken back waits for the first batch: until then the shape before can go on
    rest = CheckpointChange(layout, [key for key in removed if _component(key) != ACKER])
    return Migration(layout, first, rest)


def _component(key: str) -> str:
    return task_of_key(key)[0]


def _check_tasks(before: Layout, tasks: Mapping[str, int], where: str) -> None:
    known = {**{name: kept.tasks for name, kept in before.kept.items()}, **before.tasks}
    for name, n in tasks.items():
        old = known.get(name, n)
        if n != old and name != ACKER:
            raise CheckpointMismatch(
                f"checkpoint {where}: component {name!r} has {old} tasks there, and {n} in this"
                " topology, whose state would be lost or in the wrong places. numTasks is fixed for"
                f" a topology's life: set it to {old}, or give the component another name"
            )


def _check_written(removed: Sequence[str], manifest: Manifest, where: str) -> None:
    """Refuse to drop a sink with committed rows that its store may not have."""
    unwritten = sorted({_component(key) for key in removed if manifest.tasks[key].get(ROWS)})
    if unwritten:
        raise CheckpointMismatch(
            f"checkpoint {where}: sink {unwritten[0]!r} is not in this topology any more, but has"
            " rows there that are committed, and perhaps not written yet. Start the topology with"
            " it once more until they are written, and remove it while the topology runs, or after"
            " it was suspended"
        )


def _check_sources(before: Layout, layout: Layout, topology: Topology, where: str) -> None:
    """Refuse a source of another kind: it can't read what is kept, and would begin anew."""
    was = {name: "a spout" if kept.is_spout else "a bolt" for name, kept in before.kept.items()}
    was |= {_component(key): "a spout" for key in before.origins}
    was |= {name: _kind_of_transactional(has) for name, has in before.emitters.items()}
    now = {bolt.name: "a bolt" for bolt in topology.spec.bolts if bolt.name in before.kept}
    now |= {spout.name: "a spout" for spout in topology.spec.spouts}
    now |= {name: _kind_of_transactional(has) for name, has in layout.emitters.items()}
    for name, kind in now.items():
        if name in was and was[name] != kind:
            raise CheckpointMismatch(
                f"checkpoint {where}: component {name!r} is {was[name]} there, and {kind} in this"
                " topology, which can't go on from what is kept there. Give it another name: then"
                " it begins with nothing"
            )


def _kind_of_transactional(has_partitions: bool) -> str:
    partitions = "with" if has_partitions else "without"
    return f"a transactional spout {partitions} partitions"


def _divided(trees: Trees, ackers: int, number: int) -> dict[str, dict[str, Update]]:
    """Pending trees for another number of ackers."""
    to = acker_index(trees.roots, ackers)
    records = {k: record(trees.take(to == k)) for k in range(ackers)}
    return {task_key(ACKER, k): {TREES: Update(data, None, number)} for k, data in records.items()}


def _ended(trees: Trees) -> dict[int, Deliveries]:
    """Fail trees that have no ackers any more."""
    none = np.empty((0, 2), np.int64)
    return {
        origin: Deliveries(
            none, tuple((s, ACKERS_OFF) for a, b in ranges.tolist() for s in range(a, b))
        )
        for origin, ranges in sequence_ranges(trees.roots).items()
    }
