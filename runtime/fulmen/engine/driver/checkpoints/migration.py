"""From what the checkpoint holds to the shape of the topology that goes on with it.

An origin is given out once and for ever, because root ids contain it: to spout tasks, and to bolt
tasks whose results have trees. A task that its component has no more keeps its own for the time
when it is back, and goes on with its sequence numbers. What another number of tasks means for what
they keep is in `rescale`. The state of a component that is no longer there is kept: it may
have been renamed by mistake, and comes back. When the number of ackers has changed, pending trees
are divided among them anew. A txid is given out once and for ever, because stores know it: a
transactional spout that takes the place of another begins with nothing, and with the next txid.

What can't be taken back waits for the first batch of the new shape, and is committed with it: until
then the checkpoint is still one that the shape before can go on with, and find everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fulmen.checkpoint import Manifest, Store, Update, load_many
from fulmen.engine.acking.acker_task import TREES, record, restore
from fulmen.engine.acking.messages import acker_index
from fulmen.engine.acking.root_ids import ORIGINS, sequence_ranges
from fulmen.engine.acking.trees import Trees
from fulmen.engine.batches.ledger import Ledger, ledger_of
from fulmen.engine.driver.checkpoints.kept_components import (
    BOLT,
    SPOUT,
    kept_components,
    kind_of_transactional,
    kinds_of,
    with_unwritten_rows,
)
from fulmen.engine.driver.checkpoints.kept_sources import dropped_ends, with_kept
from fulmen.engine.driver.checkpoints.layout import CheckpointChange, Layout
from fulmen.engine.driver.checkpoints.rescale import Rescaled, rescaled
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.time.watermarks import SECTION as TIME
from fulmen.engine.time.watermarks import Watermarks
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


def migrate(  # noqa: PLR0913 (all but the first by name)
    known: Layout | None,
    plan: Plan,
    topology: Topology,
    manifest: Manifest,
    store: Store,
    *,
    partitioned: Collection[str] = (),
    identity: str = "",
    code_folder: Path | None = None,
    now: float = 0.0,
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
        code_folder: Where the classes are.
        now: In wall clock seconds.

    Raises:
        CheckpointMismatch: A component is another kind of source there, or what it keeps can't be
            divided among so many tasks.
    """
    before = known or Layout()
    _check_sources(before, partitioned, topology, store.uri)
    change = rescaled(before, topology, manifest, store, code_folder)
    layout = _layout(before, plan, topology, partitioned, change)
    ledger, dropped = ledger_of(manifest.transient), range(0)
    kept = kept_components(before, layout, manifest, ledger, now)
    layout = replace(
        layout,
        identity=before.identity or identity,
        kept=kept,
        renamed=before.renamed,
        known_as=before.known_as,
    )
    gone = before.emitters.keys() - layout.emitters.keys()
    if gone:
        dropped = range(ledger.head, ledger.last + 1)
        ledger = ledger.without(gone)
    goes_on = bool(before.emitters.keys() & layout.emitters.keys())
    if not goes_on:
        layout = replace(layout, last_txid=max(before.last_txid, ledger.last))
    if not goes_on or ledger.last < layout.last_txid:
        ledger = ledger.begun_anew(layout.last_txid)
    migration = _reshaped(known, layout, plan, manifest, store, change)
    back = {name: one for name, one in before.kept.items() if name in layout.emitters}
    if ends := dropped_ends(store, manifest, back):
        migration = replace(migration, first=CheckpointChange(before, updates=ends))
    return replace(migration, ledger=with_kept(ledger, back), dropped=dropped)


def _layout(
    before: Layout,
    plan: Plan,
    topology: Topology,
    partitioned: Collection[str],
    change: Rescaled,
) -> Layout:
    next_origin, spouts = before.next_origin, sorted(s.name for s in topology.spec.spouts)
    again = {key: origin for key, (origin, _) in before.retired.items()}
    origins, next_origin = _given(again | {**before.origins}, keys_of(plan, spouts), next_origin)
    bolts = sorted(_bolts_with_results(topology) | {_component(key) for key in before.results})
    bolts = [name for name in bolts if name in plan.component_tasks and name not in spouts]
    results, next_origin = _given(again | {**before.results}, keys_of(plan, bolts), next_origin)
    if next_origin > ORIGINS:
        raise CheckpointMismatch(
            f"the checkpoint has given out all {ORIGINS:,} numbers for tasks of spouts, and of"
            " bolts that emit: those of tasks that are gone are not used again. Begin with another"
            " checkpoint"
        )
    tasks = {name: len(ids) for name, ids in plan.component_tasks.items()}
    emitters = {one.name: one.name in partitioned for one in topology.spec.transactional}
    retired = {**before.retired, **change.retired}
    retired = {key: one for key, one in retired.items() if key not in {*origins, *results}}
    return Layout(tasks, origins, next_origin, emitters, before.last_txid, results, retired=retired)


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
    known: Layout | None,
    layout: Layout,
    plan: Plan,
    manifest: Manifest,
    store: Store,
    change: Rescaled,
) -> Migration:
    """Plan what happens to tasks that are gone, and to pending trees."""
    if known == layout:
        return Migration(layout)
    if known is None:
        return Migration(layout, first=CheckpointChange(layout))
    migration = _without_rescale(known, layout, plan, manifest, store, change)
    if not change.tasks:
        return migration
    before = migration.first or CheckpointChange(known)
    times = manifest.sections.get(TIME)
    first = CheckpointChange(
        _with_tasks(before.layout, layout, change.tasks),
        [*before.removed_tasks, *change.removed],
        {**before.updates, **change.updates},
        change.links,
        times and Watermarks.decode(times).with_tasks(change.tasks).encode(),
    )
    rest = None if first.layout == layout else migration.rest
    return replace(migration, first=first, rest=rest)


def _with_tasks(known: Layout, layout: Layout, tasks: Mapping[str, int]) -> Layout:
    """The layout of before with these numbers of tasks, and the rest of what goes with that."""

    def of(before: Mapping[str, int], then: Mapping[str, int]) -> dict[str, int]:
        stays = {key: one for key, one in before.items() if _component(key) not in tasks}
        return stays | {key: one for key, one in then.items() if _component(key) in tasks}

    return replace(
        known,
        tasks={**known.tasks, **tasks},
        origins=of(known.origins, layout.origins),
        results=of(known.results, layout.results),
        next_origin=layout.next_origin,
        retired=layout.retired,
    )


def _without_rescale(
    known: Layout,
    layout: Layout,
    plan: Plan,
    manifest: Manifest,
    store: Store,
    change: Rescaled,
) -> Migration:
    tasks = layout.tasks
    keys = {plan.key_of(task) for ids in plan.component_tasks.values() for task in ids}
    gone = [k for k in manifest.tasks if k not in keys and _component(k) not in change.tasks]
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


def _check_written(removed: Sequence[str], manifest: Manifest, where: str) -> None:
    """Refuse to drop a sink with committed rows that its store may not have."""
    unwritten = sorted(set(with_unwritten_rows(manifest, map(_component, removed))))
    if unwritten:
        raise CheckpointMismatch(
            f"checkpoint {where}: sink {unwritten[0]!r} is not in this topology any more, but has"
            " rows there that are committed, and perhaps not written yet. Start the topology with"
            " it once more until they are written, and remove it while the topology runs, or after"
            " it was suspended"
        )


def _check_sources(
    before: Layout, partitioned: Collection[str], topology: Topology, where: str
) -> None:
    """Refuse a source of another kind: it can't read what is kept, and would begin anew."""
    was = {name: kept.kind for name, kept in before.kept.items()} | kinds_of(before)
    now = {bolt.name: BOLT for bolt in topology.spec.bolts if bolt.name in before.kept}
    now |= {spout.name: SPOUT for spout in topology.spec.spouts}
    emitters = {one.name: one.name in partitioned for one in topology.spec.transactional}
    now |= {name: kind_of_transactional(has) for name, has in emitters.items()}
    for name, kind in now.items():
        if name in was and was[name] != kind:
            raise CheckpointMismatch(
                f"checkpoint {where}: component {name!r} is {was[name]} there, and {kind} in this"
                " topology, which can't go on from what is kept there. Give it another name: then"
                " it begins with nothing"
            )


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
