"""Where a topology's executors are: at the start, after a loss of workers, after a change of it.

Every change replaces what is in one `CurrentTopology`, at which the coordinator, the totals and the
pinned spouts look.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fulmen.checkpoint import Manifest, Store, new_tag, save
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.checkpoints.kept_components import due, without_components
from fulmen.engine.driver.checkpoints.layout import Layout, as_before, layout_of
from fulmen.engine.driver.checkpoints.migration import Migration, migrate
from fulmen.engine.driver.checkpoints.renames import Renaming, renaming_of
from fulmen.engine.driver.checkpoints.rescale import rescaled
from fulmen.engine.driver.edits.changes import (
    Author,
    StateChange,
    now_as_text,
    renamed_changes,
)
from fulmen.engine.protocol.jobs import Jobs
from fulmen.engine.protocol.limits import LIMITS, EngineLimits
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology, UnusedState
from fulmen.engine.protocol.read_ahead import AheadOrder, Links
from fulmen.engine.protocol.sampling import Sampling
from fulmen.engine.state.entries.disk_journals import is_on_disk
from fulmen.engine.tasks.transactional.spout_parts import has_partitions
from fulmen.engine.totals.kept_state import CURE, kept_sentences
from fulmen.engine.totals.waits import utc
from fulmen.errors import CheckpointMismatch
from fulmen.plan import Plan, make_plan
from fulmen.topology.resource.spec import Topology
from fulmen.topology.validation.check import Runnable, with_committers


def place(
    runnable: Runnable,
    checkpoint: str,
    topology: Topology,
    plan: Plan,
    origins: Mapping[str, int],
    workers: Sequence[int],
    limits: EngineLimits = LIMITS,
) -> PlacedTopology:
    """A topology and its plan, as workers get them.

    Args:
        runnable: The topology's streams and code folder.
        checkpoint: The URI of the store.
        topology: The resource.
        plan: Where its executors are.
        origins: The number in root ids of each task at which trees begin, by task key.
        workers: The numbers of the workers that are there.
        limits: Sizes and pauses of the engine.
    """
    return PlacedTopology(
        run=secrets.token_hex(8),
        # the code is where `code_folder` says; a stage's function must stay small
        topology=topology.model_copy(
            update={"spec": topology.spec.model_copy(update={"code": None})}
        ),
        plan=plan,
        streams=runnable.streams,
        origins=origins,
        checkpoint=checkpoint,
        code_folder=runnable.code_folder,
        workers=tuple(workers),
        limits=limits,
        in_any_order=runnable.in_any_order,
        by_clock=runnable.by_clock,
    )


@dataclass
class Planner:
    """Decides where executors are, and has the jobs follow.

    Making one prepares the checkpoint for the topology and starts the jobs.

    Attributes:
        runnable: What to run.
        checkpoint: The URI of the store, for workers.
        store: The store itself.
        jobs: What runs the stages.
        committer: Writes to the checkpoint.
        note: Is told what a person should know.
        limits: Sizes and pauses of the engine.
        sampling: Which trees are traced; None: none.
        keeps_tasks: Go on with the numbers of tasks that there are, if the topology's can't be.
        refused: Why it does so; "": it does not.
        topology: What runs: that of `runnable`, until there is a change of it.
        current: The topology and its plan, at which all others look.
        hosting: The numbers of the workers that batches run on.
        migration: What the next commit has to change in the checkpoint's shape.
        wanted: The topology to become, with other numbers of tasks; None: `topology` is it.
    """

    runnable: Runnable
    checkpoint: str
    store: Store
    jobs: Jobs
    committer: CommitWriter
    note: Callable[[str], None]
    limits: EngineLimits
    sampling: Sampling | None
    keeps_tasks: bool = False
    refused: str = field(init=False, default="")
    topology: Topology = field(init=False)
    current: CurrentTopology = field(init=False)
    hosting: Sequence[int] = field(init=False)
    migration: Migration = field(init=False)
    wanted: Topology | None = field(init=False, default=None)
    _forgotten: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.topology = self.runnable.topology
        if (known := self._named(self.topology)[0]) is not None:
            try:
                self.check_tasks(self.topology)
            except CheckpointMismatch as error:
                if not self.keeps_tasks:
                    raise
                self.refused = str(error)
                self.note(f"the topology goes on with as many tasks as before: {error}")
            # trees of before have to end first: see `RunningTopology`
            self.topology = as_before(known, self.topology)
            if not self.refused and self.topology.tasks != self.runnable.topology.tasks:
                self.wanted = self.runnable.topology
        plan = self._plan()
        self.migration = self._migrate(plan)
        origins = self.migration.layout.all_origins
        self.current = CurrentTopology(self._placed(plan, origins, range(plan.workers)))
        self.start_jobs()

    def _named(self, topology: Topology) -> tuple[Layout | None, Manifest, Renaming | None]:
        """The checkpoint with the names that its components have in a topology."""
        manifest = self.committer.log.manifest
        known, renaming = layout_of(manifest), None
        if known is not None:
            renaming = renaming_of(known, topology, manifest, self.store.uri)
        if renaming is not None:
            return renaming.layout, renaming.after(manifest), renaming
        return known, manifest, None

    def check_tasks(self, topology: Topology) -> None:
        """See whether components may have the numbers of tasks that a topology gives them.

        Raises:
            CheckpointMismatch: One of them may not. Nothing was changed.
        """
        known, manifest, _ = self._named(topology)
        if known is not None:
            folder = self.runnable.code_folder
            rescaled(known, topology, manifest, self.store, folder, is_over=False)

    def order_ahead(self, topology: Topology, number: int) -> AheadOrder | None:
        """What workers may read for other numbers of tasks before they change; None: nothing.

        Args:
            topology: The one to come, whose numbers are possible.
            number: Of the round.
        """
        known, manifest, _ = self._named(topology)
        if known is None:
            return None
        folder = self.runnable.code_folder
        change = rescaled(known, topology, manifest, self.store, folder, is_over=False)
        spec = topology.spec
        numbers = {
            one.name: change.tasks[one.name]
            for one in spec.bolts
            if one.name in change.tasks and spec.keeps_on_disk(one)
        }
        plan = make_plan(topology, pinned=self.runnable.pinned)
        workers = list(self._present(plan))
        plan = make_plan(topology, pinned=self.runnable.pinned, workers=workers)
        tasks: dict[int, dict[str, Links]] = defaultdict(dict)
        for task in (task for name in numbers for task in plan.tasks(name)):
            own = change.links.get(key := plan.key_of(task), {})
            if of_state := {j: refs for j, refs in own.items() if is_on_disk(j)}:
                tasks[plan.worker_of(task)][key] = of_state
        if not tasks:
            return None
        return AheadOrder(number, manifest.number, known.identity, numbers, dict(tasks))

    def _present(self, plan: Plan) -> Sequence[int]:
        """The workers of a plan to come that are there already."""
        present = self.current.placed.workers
        return [w for w in present if w < plan.workers] or range(plan.workers)

    def _plan(self, workers: Sequence[int] | None = None, previous: Plan | None = None) -> Plan:
        return make_plan(
            self.topology, pinned=self.runnable.pinned, workers=workers, previous=previous
        )

    def _placed(
        self, plan: Plan, origins: Mapping[str, int], workers: Sequence[int]
    ) -> PlacedTopology:
        placed = place(
            self.runnable, self.checkpoint, self.topology, plan, origins, workers, self.limits
        )
        kept = self._kept(self.migration.layout)
        known_as = self.migration.layout.known_as
        return replace(placed, sampling=self.sampling, kept=kept, known_as=known_as)

    def _migrate(self, plan: Plan) -> Migration:
        """Prepare the checkpoint for the topology: what can't be undone waits for a batch."""
        manifest = self.committer.log.manifest
        known, looked_at, renaming = self._named(self.topology)
        folder, sources = self.runnable.code_folder, self.topology.spec.transactional
        migration = migrate(
            known,
            plan,
            self.topology,
            looked_at,
            self.store,
            partitioned=[source.name for source in sources if has_partitions(source, folder)],
            identity=new_tag()[:8],
            code_folder=folder,
            now=self.committer.clocks.wall(),
        )
        if renaming is not None:  # nothing else is refused any more
            self._rename(renaming)
        if dropped := migration.dropped:
            self.note(
                "a transactional spout of before is not in the topology any more: what it had in"
                " transactions that were begun is dropped"
                f" (txids {dropped.start} to {dropped[-1]})."
                " If it comes back, it begins them anew"
            )
        self._tell_kept(migration.layout)
        if (first := migration.first) is not None:
            tag = new_tag()
            draft = self.committer.log.draft(
                tag=tag,
                clock=manifest.clock,
                updates={
                    key: {
                        journal: save(self.store, manifest.number + 1, tag, key, journal, data, at)
                        for journal, (data, _, at) in journals.items()
                    }
                    for key, journals in first.updates.items()
                },
                links=first.links,
                sections=first.sections,
                transient=manifest.transient,
                removed_tasks=first.removed_tasks,
            )
            self.committer.make(draft)
        return migration

    def _rename(self, renaming: Renaming) -> None:
        for old, new in renaming.moves.items():
            self.note(f"component {old!r} is {new!r} now, and goes on with its state")
        log = self.committer.log
        draft = log.draft(
            tag=new_tag(),
            clock=log.manifest.clock,
            links=renaming.links,
            sections={**renaming.sections, **renamed_changes(log.manifest, renaming.moves)},
            transient=renaming.transient,
            removed_tasks=list(renaming.removed_tasks),
        )
        self.committer.make(draft)

    def _tell_kept(self, layout: Layout) -> None:
        for told in kept_sentences(self._kept(layout)):
            self.note(f"{told}. {CURE}")

    def _kept(self, layout: Layout) -> dict[str, UnusedState]:
        limit = self.topology.spec.forget_removed_seconds
        return {
            name: UnusedState(kept.tasks, "" if limit is None else utc(kept.since + limit))
            for name, kept in layout.kept.items()
        }

    def forget_due(self) -> Sequence[StateChange]:
        """Have the next commit remove what is kept of components whose time is over.

        Returns:
            What the log of changes is to say of it.
        """
        migration, manifest = self.migration, self.committer.log.manifest
        limit, now = self.topology.spec.forget_removed_seconds, self.committer.clocks.wall()
        if migration.rest is not None or not (names := due(migration.layout, manifest, limit, now)):
            return ()
        change = without_components(migration.layout, manifest, names)
        self.migration = replace(migration, layout=change.layout, rest=change)
        self._forgotten = names
        because = f"not in the topology for {self.topology.spec.forget_removed_after}"
        author = Author("spec.forgetRemovedAfter", because, at=now_as_text(now))
        count = len(change.removed_tasks)
        change_of = StateChange("forget", ", ".join(names), count=count)
        return (change_of.by(author, manifest.number + 1),)

    def migrated(self) -> None:
        """Note that a commit has changed the checkpoint's shape."""
        self.migration = Migration(self.migration.layout)
        for name in self._forgotten:
            after = self.topology.spec.forget_removed_after
            self.note(
                f"the state of component {name!r} is removed: it has not been in the topology for"
                f" {after} (spec.forgetRemovedAfter)"
            )
        if self._forgotten:
            self._forgotten = []
            kept = self._kept(self.migration.layout)
            self.replace(replace(self.current.placed, kept=kept))

    @property
    def is_whole(self) -> bool:
        """Whether all workers of the plan are there, and batches run on all of them."""
        placed = self.current.placed
        return len(placed.workers) == len(self.hosting) == placed.plan.workers

    def with_committers(self, topology: Topology) -> Topology:
        """A changed topology with the committers that classes name: its classes are the same."""
        return with_committers(topology, [b.name for b in self.topology.spec.bolts if b.committer])

    def planned_for(self, topology: Topology) -> PlacedTopology:
        """Prepare the checkpoint for another topology, which `replace` then puts in force.

        Raises:
            CheckpointError: The checkpoint does not fit it.
        """
        before, (self.topology, self.wanted) = (self.topology, self.wanted), (topology, None)
        plan = self._plan()
        try:
            self.migration = self._migrate(plan)
        except CheckpointMismatch:  # nothing was changed
            self.topology, self.wanted = before
            raise
        # New workers come later, and those that are too many go, when the jobs start.
        workers = self._present(plan)
        return self._placed(
            self._plan(workers=list(workers)), self.migration.layout.all_origins, workers
        )

    def replan(self, alive: Sequence[int]) -> None:
        """Give executors of workers that are gone to those that are left, or back to their own.

        Args:
            alive: The numbers of the workers that are there. None: the next batch fails, and waits.
        """
        before = self.current.placed
        if not alive or set(alive) == set(before.workers) == set(self.hosting):
            return
        gone = sorted(set(range(before.plan.workers)) - set(alive))
        # when all are there, executors are where they would be if nothing had happened
        plan = self._plan(workers=list(alive), previous=before.plan if gone else None)
        who = f"workers {gone} are not there" if gone else "all workers are there"
        self.note(f"{who}: planned anew")
        self.replace(self._placed(plan, before.origins, alive))
        self.start_jobs()

    def replace(self, placed: PlacedTopology) -> None:
        """Put another topology or plan in force, for all who look at `current`."""
        self.current.placed = placed

    def start_jobs(self) -> None:
        """Have the jobs go on with what is in force."""
        self.hosting = self.jobs.start(self.current.placed)
