"""Where a topology's executors are: at the start, after a loss of workers, after a change of it.

Every change replaces what is in one `CurrentTopology`, at which the coordinator, the totals and the
pinned spouts look.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fulmen.checkpoint import Store, new_tag
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.checkpoints.migration import Migration, migrate
from fulmen.engine.protocol.jobs import Jobs
from fulmen.engine.protocol.limits import LIMITS, EngineLimits
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.sampling import Sampling
from fulmen.engine.tasks.transactional.spout_parts import has_partitions
from fulmen.engine.totals.kept_state import CURE, kept_sentences, lost_source
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
        topology: What runs: that of `runnable`, until there is a change of it.
        current: The topology and its plan, at which all others look.
        hosting: The numbers of the workers that batches run on.
        migration: What the next commit has to change in the checkpoint's shape.
    """

    runnable: Runnable
    checkpoint: str
    store: Store
    jobs: Jobs
    committer: CommitWriter
    note: Callable[[str], None]
    limits: EngineLimits
    sampling: Sampling | None
    topology: Topology = field(init=False)
    current: CurrentTopology = field(init=False)
    hosting: Sequence[int] = field(init=False)
    migration: Migration = field(init=False)

    def __post_init__(self) -> None:
        self.topology = self.runnable.topology
        plan = self._plan()
        self.migration = self._migrate(plan)
        origins = self.migration.layout.all_origins
        self.current = CurrentTopology(self._placed(plan, origins, range(plan.workers)))
        self.start_jobs()

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
        kept = {name: one.tasks for name, one in self.migration.layout.kept.items()}
        return replace(placed, sampling=self.sampling, kept=kept)

    def _migrate(self, plan: Plan) -> Migration:
        """Prepare the checkpoint for the topology: what can't be undone waits for a batch."""
        manifest = self.committer.log.manifest
        folder, sources = self.runnable.code_folder, self.topology.spec.transactional
        migration = migrate(
            layout_of(manifest),
            plan,
            self.topology,
            manifest,
            self.store,
            partitioned=[source.name for source in sources if has_partitions(source, folder)],
            identity=new_tag()[:8],
        )
        if dropped := migration.dropped:
            self.note(
                "a transactional spout of before is not in the topology any more: what it had in"
                f" transactions that were begun is dropped (txids {dropped.start} to {dropped[-1]})"
            )
        for told in lost_source(manifest, self.topology):
            self.note(told)
        for told in kept_sentences({name: k.tasks for name, k in migration.layout.kept.items()}):
            self.note(f"{told}. {CURE}")
        if (first := migration.first) is not None:
            draft = self.committer.log.draft(
                tag=new_tag(),
                clock=manifest.clock,
                updates=first.updates,
                sections=first.sections,
                transient=manifest.transient,
                removed_tasks=first.removed_tasks,
            )
            self.committer.make(draft)
        return migration

    def migrated(self) -> None:
        """Note that a commit has changed the checkpoint's shape."""
        self.migration = Migration(self.migration.layout)

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
        present = self.current.placed.workers
        self.topology = topology
        plan = self._plan()
        self.migration = self._migrate(plan)
        # New workers come later, and those that are too many go, when the jobs start.
        workers = [w for w in present if w < plan.workers] or range(plan.workers)
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
