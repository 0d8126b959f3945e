"""Runs a topology: one batch after another, each committed before the next begins.

Here are the store and the jobs (Spark's, or in process). What to do next is decided by the
coordinator, and done here.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fulmen.checkpoint import CommitLog, Manifest, Store, new_tag
from fulmen.engine.batches.coordinator import Coordinator
from fulmen.engine.batches.summaries import commit_work_seconds, fatal_error
from fulmen.engine.driver.attempt import AttemptResult, run_attempt
from fulmen.engine.driver.committer import Committer, Outage
from fulmen.engine.driver.migration import Layout, Migration, layout_of, migrate
from fulmen.engine.driver.observer import Observer, Silent
from fulmen.engine.driver.pinned_spouts import PinnedSpouts
from fulmen.engine.driver.stop import Stop as Stop  # most who start a driver stop it, too
from fulmen.engine.driver.totals import BatchTimes, Totals
from fulmen.engine.protocol.deliveries import DELIVERIES, Deliveries, unpack_deliveries
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.jobs import Cause, Failure, Jobs, read_rows
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.tasks.task_base import ComponentFailed, Unavailable
from fulmen.errors import CheckpointError, JobFailed, TopologyFailed, Unreachable
from fulmen.plan import Plan, is_placed_like, make_plan
from fulmen.topology.resource.spec import Topology
from fulmen.topology.validation.check import Runnable

COLLECT_EVERY = 16
"""Commits between two runs of the garbage collector of the checkpoint."""
OUTAGE_TOLD_SECONDS = 5.0
"""Most outages are over before."""
LOOK_SECONDS = 2.0
"""Between two looks for workers that were lost."""


@dataclass
class Driver:
    """One topology, from its claim of the checkpoint to its end.

    Call `start`, then `run` or `step`, then `close`.

    Attributes:
        runnable: What to run.
        jobs: What runs the stages.
        checkpoint: URI of the store, for workers too.
        observer: Is told what happens.
        store: What this driver uses instead of opening the URI.
        steady: A clock that only goes forward, in seconds.
        sleep: Waits so many seconds.
        topology: What runs: that of `runnable`, until there is a change of it.
        plan: Where executors are.
        placed: The topology and its plan, as workers get it.
        totals: What was done so far.
        is_started: Whether workers have the topology. From then on totals are counted.
        coordinator: Decides; from `start` on.
        log: The checkpoint's commits; from `start` on.
    """

    runnable: Runnable
    jobs: Jobs
    checkpoint: str
    observer: Observer = field(default_factory=Silent)
    store: Store | None = None
    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    topology: Topology = field(init=False)
    plan: Plan = field(init=False)
    placed: PlacedTopology = field(init=False)
    totals: Totals = field(init=False)
    is_started: bool = field(init=False, default=False)
    coordinator: Coordinator = field(init=False)
    log: CommitLog = field(init=False)
    _committer: Committer | None = field(init=False, default=None)
    _pinned_spouts: PinnedSpouts | None = field(init=False, default=None)
    _hosting: Sequence[int] = field(init=False, default=())
    _migration: Migration = field(init=False)
    _looked: float = field(init=False, default=0.0)
    _ended: float = field(init=False, default=0.0)
    _outages: int = field(init=False, default=0)
    _away: ErrorReport | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.topology = self.runnable.topology
        self.plan = make_plan(self.topology, pinned=self.runnable.pinned)
        self.placed = self._placed(Layout.of_origins({}), range(self.plan.workers))
        self.totals = Totals(self.placed, self.steady)

    def start(self) -> None:
        """Claim the checkpoint, plan, and begin.

        Raises:
            CheckpointError: The checkpoint can't be used.
        """
        store = self.store or Store.open(self.checkpoint)
        self._store = store
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        who = f"{socket.gethostname()}, process {os.getpid()}, since {since}"
        self.log = CommitLog.open(store, self.topology.metadata.name, who)
        self.log.claim()
        self._committer = Committer(
            self.log, self.observer.note, self.steady, self.sleep, time.time
        )
        self.placed = self._placed(self._migrate(), range(self.plan.workers))
        self._hosting = self.jobs.start(self.placed)
        self.coordinator = self._coordinator(self.log.manifest.clock)
        self.totals = Totals(self.placed, self.steady)
        self.is_started = True
        self._ended = self.steady()
        self._replan(self.jobs.alive() or self._hosting)  # not all may be there yet, or any more
        self.coordinator.stand_still(self.steady() - self._ended)

    @property
    def outage(self) -> Outage | None:
        """The checkpoint's, if it is waited for for seconds already. For any thread."""
        found = self._committer.outage if self._committer else None
        return found if found and time.time() - found.since >= OUTAGE_TOLD_SECONDS else None

    def _coordinator(self, clock: float) -> Coordinator:
        """One that goes on from the last commit. Time passes from now on."""
        manifest = self.log.manifest
        return Coordinator(
            self.placed,
            number=manifest.number,
            base=manifest.tag,
            clock=clock,
            new_tag=new_tag,
            now=self.steady(),
            deliveries=self._undelivered(manifest),
            active=self.topology.spec.state == "Active",
        )

    def _migrate(self) -> Layout:
        """Prepare the checkpoint for this topology: what can't be undone waits for a batch."""
        manifest = self.log.manifest
        migration = migrate(layout_of(manifest), self.plan, self.topology, manifest, self._store)
        if (first := migration.first) is not None:
            draft = self.log.draft(
                tag=new_tag(),
                clock=manifest.clock,
                updates=first.updates,
                sections=first.sections,
                transient=manifest.transient,
                removed_tasks=first.removed_tasks,
            )
            assert self._committer is not None
            self._committer.make(draft)
        self._migration = migration
        return migration.layout

    def _placed(self, layout: Layout, workers: Sequence[int]) -> PlacedTopology:
        return PlacedTopology(
            run=secrets.token_hex(8),
            # the code is where `code_folder` says; a stage's function must stay small
            topology=self.topology.model_copy(
                update={"spec": self.topology.spec.model_copy(update={"code": None})}
            ),
            plan=self.plan,
            streams=self.runnable.streams,
            origins=layout.origins,
            checkpoint=self.checkpoint,
            code_folder=self.runnable.code_folder,
            workers=tuple(workers),
        )

    def _undelivered(self, manifest: Manifest) -> Mapping[int, Any]:
        data = manifest.transient.get(DELIVERIES)
        return unpack_deliveries(data) if data else {}

    # Batches

    def run(self, stop: Stop) -> None:
        """Run batches until `stop` says so.

        Raises:
            Fenced: Another driver has taken over.
            TopologyFailed: The topology can't go on.
        """
        started = self.steady()
        try:
            while not stop.now and not self._is_drained(stop, started):
                self._look_for_workers()
                if self.step() and not stop.drain:
                    self._rest(self.coordinator.idle_seconds(), stop)
                elif stop.drain and self.coordinator.idle.batches > 1:
                    self._rest(min(0.05, self.coordinator.idle_seconds()), stop)
        finally:
            self.totals.seconds += self.steady() - started
        if not stop.now:
            self._end_tasks()

    def _is_drained(self, stop: Stop, started: float) -> bool:
        """Do what `stop` says before the next batch; returns whether there is to be none."""
        was_active = self.coordinator.active
        if stop.after_seconds is not None and self.steady() - started >= stop.after_seconds:
            stop.drain = True
        coordinator = self.coordinator
        if stop.when_drained and coordinator.has_nothing_more:
            coordinator.drain_bolts()  # they may hold tuples, whose trees have to end first
            stop.drain |= coordinator.settled
        if stop.drain:
            coordinator.active = False
            if self._away is not None:  # it would wait for as long as that is so
                raise self._fatal(self._away)
            if was_active:  # first spouts are told
                return False
            coordinator.drain_bolts()
            return coordinator.settled and coordinator.drained
        if stop.active is not None:
            self.coordinator.active = stop.active
        if stop.topology is not None:
            self._approach(stop, was_active)
        return False

    def _approach(self, stop: Stop, was_active: bool) -> None:
        """Become another topology: at once, or when spouts have stopped and no tree is pending."""
        wanted = stop.topology
        assert wanted is not None
        if is_placed_like(wanted, self.topology) or (self.coordinator.settled and not was_active):
            self._become(wanted)
            if stop.active is not None:
                self.coordinator.active = stop.active
            if stop.topology is wanted:  # else it is yet another one by now
                stop.topology = None
        else:
            self.coordinator.active = False

    def _become(self, topology: Topology) -> None:
        present = self.placed.workers
        self.topology = topology
        self.plan = make_plan(topology, pinned=self.runnable.pinned)
        layout = self._migrate()
        # New workers come later, and those that are too many go, when the jobs start.
        workers = [w for w in present if w < self.plan.workers] or range(self.plan.workers)
        self.plan = make_plan(topology, pinned=self.runnable.pinned, workers=list(workers))
        self.placed = self._placed(layout, workers)
        self._close_pinned()
        self._hosting = self.jobs.start(self.placed)
        self.coordinator = self._coordinator(self.coordinator.clock)
        self.totals.become(self.placed)
        self.observer.note(f"what was changed is taken over, with {self.plan.workers} workers")

    def _end_tasks(self) -> None:
        """Have all instances closed. Everything is committed: it does not matter if this fails."""
        header = replace(self.coordinator.begin(self.steady()), closes=True)
        try:
            rows = self._job(header)
        except JobFailed as e:
            self.observer.note(f"not all components could be closed: {e}")
        else:
            summaries, _, _ = read_rows(rows)
            self._tell([error for summary in summaries for error in summary.errors])
        self.coordinator.attempt = None

    def _tell(self, errors: Sequence[ErrorReport]) -> None:
        """Count and tell errors that are no part of a batch."""
        for error in self.totals.note(errors, time.time()):
            self.observer.error(error)

    def _rest(self, seconds: float, stop: Stop) -> None:
        if seconds > 0 and not stop.now:
            self.sleep(seconds)

    def step(self) -> bool:
        """One attempt of one batch. Returns whether it counted.

        Raises:
            Fenced: Another driver has taken over.
            CheckpointError: Parts of the checkpoint are missing or damaged.
            TopologyFailed: The topology can't go on.
        """
        started = self.steady()
        coordinator = self.coordinator
        header = coordinator.begin(started)
        taken: list[Summary] = []
        owed: Mapping[int, Deliveries] = {}
        try:
            if self.plan.pinned:
                header, taken, owed = self._pinned(header)
            ran = run_attempt(self._job, self.placed, self._store, header, coordinator.cuts(header))
        except Unavailable as e:
            self._unavailable(header, e.report)
            return False
        except JobFailed as e:
            self._failed(header, str(e), e.is_clusters, is_loss=True, traceback=e.traceback)
            return False
        except Unreachable as e:
            self._store_away(header, str(e))
            return False
        if (void := ran.void) is not None:
            if void.report is not None and void.report.fatal:
                raise self._fatal(void.report)
            if void.report is not None and void.cause is Cause.OUTAGE:
                self._unavailable(header, void.report)
                return False
            self._void(header, void)
            return False
        if ran.ackers_ran:
            coordinator.light.outlived()
        self._finish(replace(ran, summaries=[*ran.summaries, *taken]), owed, started)
        return True

    def _unavailable(self, header: Header, report: ErrorReport) -> None:
        """What a component's `open` or `prepare` connects to is away: try again, for ever."""
        self._away = report
        self._tell([report])
        self._failed(header, f"{self._who(report)}: {report.message}", is_outage=True)

    def _void(self, header: Header, void: Failure) -> None:
        match void.cause:
            case Cause.TUPLES:
                self._failed(header, void.reason, traceback=void.traceback)
            case Cause.OUTAGE:
                self._store_away(header, void.reason)
            case Cause.DENIED if self.totals.batches:  # workers had their rights before
                self._store_away(header, void.reason)
            case _:
                try:
                    self.log.check()  # of a driver that was superseded, much may be gone
                except Unreachable as e:
                    self._store_away(header, str(e))
                    return
                raise CheckpointError(void.reason)

    def _store_away(self, header: Header, reason: str) -> None:
        """The store did not do what a batch needs."""
        assert self._committer is not None
        self._failed(header, f"{reason} {self._committer.is_away(reason)}", is_outage=True)

    def _job(self, header: Header) -> Sequence[bytes]:
        return self.jobs.run(header, self.topology.spec.batch_timeout_seconds)

    def _pinned(self, header: Header) -> tuple[Header, list[Summary], Mapping[int, Deliveries]]:
        """Let pinned spouts have their turns, here in the driver."""
        try:
            if self._pinned_spouts is None:
                began = self.steady()
                self._pinned_spouts = PinnedSpouts(
                    self.placed, self._store, self.log.manifest.number
                )
                self.coordinator.stand_still(self.steady() - began)
            if header.deliveries is None:
                header = replace(header, deliveries=self.coordinator.deliveries)
            with_rows, summaries, owed = self._pinned_spouts.take(header)
        except Unavailable:
            raise
        except ComponentFailed as e:
            raise self._fatal(e.report) from e
        return with_rows, summaries, owed

    def _finish(self, ran: AttemptResult, owed: Mapping[int, Deliveries], started: float) -> None:
        ended = self.steady()
        owed = {**owed, **self._migration.ended_after(owed)}
        done = self.coordinator.finish(ran.summaries, ended - started, owed, ran.skipped)
        fatal = fatal_error(ran.summaries)
        if fatal is not None:
            raise self._fatal(fatal)
        assert self._committer is not None
        written = self.log.bytes_written
        if self._migration.rest is not None:
            done = replace(done, commits=True)
        outage = self._committer.commit(done, self._migration.rest)
        self._migration = Migration(self._migration.layout)
        self._outages, self._away = 0, None
        now = self.steady()
        written = self.log.bytes_written - written
        self.coordinator.committed(done, commit_work_seconds(now - ended - outage, written))
        self.coordinator.stand_still(outage)
        spent = BatchTimes(
            run=ended - started,
            commit=now - ended if done.commits else None,
            wait=started - self._ended,
            commit_bytes=self.log.bytes_written,
        )
        self._ended = now
        for error in self.totals.add(done, self.coordinator.pending, time.time(), spent):
            self.observer.error(error)
        self.observer.batch(self.totals, done)
        if done.commits and done.header.number % COLLECT_EVERY == 0:
            self._committer.collect()

    def _failed(
        self,
        header: Header,
        reason: str,
        is_outage: bool = False,
        is_loss: bool = False,
        traceback: str = "",
    ) -> None:
        """An attempt came to nothing: see which workers are left, and have it tried again.

        Args:
            header: Of the attempt.
            reason: Why, in one line.
            is_outage: No tuple can be to blame.
            is_loss: A worker was lost, or its batch cancelled: however often, that may pass.
            traceback: Of what failed in a worker, if there is one.

        Raises:
            TopologyFailed: It is neither, and happens without any tuple too.
        """
        self.totals.attempt_failed(reason)
        self.observer.attempt_failed(header.number, reason)
        alive = self.jobs.recover()
        while not alive:
            self.observer.note("no worker is left: waiting until one is back")
            alive = self.jobs.recover()
        is_hopeless = self.coordinator.hopeless
        if is_outage or is_hopeless:
            self.sleep(min(5.0, 0.1 * 2**self._outages))
            self._outages = min(self._outages + 1, 16)
        self.coordinator.failed(self.steady(), reason, is_outage, traceback)
        if self.coordinator.hopeless and not is_hopeless:
            failures = self.coordinator.crashes.failures
            what = (
                f"batch {header.number} failed {failures} times in a row, at last without any tuple"
                f" of a spout in it: {reason}"
            )
            if not is_loss:
                raise TopologyFailed(f"{what}. The last attempts are in the log")
            self.observer.note(
                f"{what}. Either workers are taken away again and again, or a component ends its"
                " process. The batch is tried until it succeeds"
            )
        self._replan(alive)

    def _look_for_workers(self) -> None:
        """While workers are missing, see now and then whether they are back."""
        if len(self.placed.workers) == len(self._hosting) == self.plan.workers:
            return
        now = self.steady()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._replan(self.jobs.alive())
            self.coordinator.stand_still(self.steady() - now)

    def _replan(self, alive: Sequence[int]) -> None:
        """Give executors of workers that are gone to those that are left, or back to their own."""
        if not alive or set(alive) == set(self.placed.workers) == set(self._hosting):
            return  # without any, the next batch fails, and waits
        gone = sorted(set(range(self.plan.workers)) - set(alive))
        # when all are there, executors are where they would be if nothing had happened
        before = self.plan if gone else None
        self.plan = make_plan(
            self.topology, pinned=self.runnable.pinned, workers=list(alive), previous=before
        )
        who = f"workers {gone} are not there" if gone else "all workers are there"
        self.observer.note(f"{who}: planned anew")
        self.placed = self._placed(Layout.of_origins(self.placed.origins), alive)
        self.coordinator.placed = self.placed
        self.totals.placed = self.placed
        if self._pinned_spouts is not None:
            self._pinned_spouts.placed = self.placed
        self._hosting = self.jobs.start(self.placed)

    def _fatal(self, report: ErrorReport) -> TopologyFailed:
        if report is not self._away:  # that one was counted when it came
            self.totals.note([report], time.time())  # who ends because of it tells it
        return TopologyFailed(f"{self._who(report)}: {report.message}", report.traceback)

    def _who(self, report: ErrorReport) -> str:
        kind = "spout" if report.component in self.placed.spouts else "bolt"
        return f"{kind} {report.component!r}, task {report.task}"

    def close(self) -> None:
        """Let go of everything. What is committed stays."""
        if self._committer is not None:
            self._committer.close()
        self._close_pinned()
        self.jobs.close()

    def _close_pinned(self) -> None:
        if self._pinned_spouts is not None:
            self._tell(self._pinned_spouts.close())
            self._pinned_spouts = None
