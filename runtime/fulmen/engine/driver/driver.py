"""Runs a topology: one batch after another, each committed before the next begins.

`Driver.start` begins, and returns all that there is of a running topology. The coordinator decides
what the next batch is. attempt.py runs an attempt of it and committer.py commits it; recovery.py
deals with an attempt that came to nothing, and replanning.py with changes of the plan.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fulmen.checkpoint import CommitLog, Store, new_tag
from fulmen.engine.batches.batch_clock import BatchClock
from fulmen.engine.batches.coordinator import Coordinator
from fulmen.engine.batches.summaries import commit_work_seconds, fatal_error
from fulmen.engine.driver.attempt import AttemptResult, run_attempt
from fulmen.engine.driver.checkpoints.committer import CommitWriter, last_batch
from fulmen.engine.driver.checkpoints.savepoints import SavepointKeeper, code_digest
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.edits.changes import now_as_text, with_changes
from fulmen.engine.driver.edits.restoring import begin_from, go_back_as_told
from fulmen.engine.driver.end_of_run import EndOfRun
from fulmen.engine.driver.failures.recovery import Recovery
from fulmen.engine.driver.hosts import PinnedHost, TransactionHost, transactions_of
from fulmen.engine.driver.observer import Moments, Observer, Silent, Tracer
from fulmen.engine.driver.read_ahead import StateAhead
from fulmen.engine.driver.replanning import Planner, place
from fulmen.engine.driver.stop import Stop as Stop  # most who start a driver stop it, too
from fulmen.engine.driver.taps.taps import Taps
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.jobs import Jobs, read_rows
from fulmen.engine.protocol.limits import LIMITS, EngineLimits
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.tasks.author.errors import Unavailable
from fulmen.engine.totals.totals import BatchTimes, Totals
from fulmen.engine.totals.transaction_totals import TransactionTotals
from fulmen.errors import CheckpointMismatch, JobFailed, Unreachable
from fulmen.plan import Plan, is_placed_like, make_plan
from fulmen.services.http.handover import HANDOVER
from fulmen.topology.resource.spec import Topology
from fulmen.topology.validation.check import Runnable


@dataclass
class Driver:
    """Runs a topology, batch by batch.

    Attributes:
        runnable: What to run.
        jobs: What runs the stages.
        checkpoint: The URI of the store, for workers too.
        observer: Is told what happens.
        store: What this driver uses instead of opening the URI.
        clocks: How time passes.
        generator: Makes random generators, for what the driver does of the workers' work.
        limits: Sizes and pauses of the engine.
        taps: Those who look at tuples, or ask something of tasks.
        tracer: Is told of traced trees; None: none is traced.
        keeps_tasks: Start with the numbers of tasks that the checkpoint has, if those of the
            topology can't be: `Planner.refused` then says why.
    """

    runnable: Runnable
    jobs: Jobs
    checkpoint: str
    observer: Observer = field(default_factory=Silent)
    store: Store | None = None
    clocks: Clocks = field(default_factory=Clocks)
    generator: Callable[[], np.random.Generator] = np.random.default_rng
    limits: EngineLimits = LIMITS
    taps: Taps = field(default_factory=Taps)
    tracer: Tracer | None = None
    keeps_tasks: bool = False

    def start(self) -> RunningTopology:
        """Claim the checkpoint, plan, and have the jobs start. If that fails, they are closed.

        Raises:
            CheckpointError: The checkpoint can't be used.
        """
        try:
            return self._start()
        except BaseException:
            self.jobs.close()
            raise

    def _start(self) -> RunningTopology:
        store = self.store or Store.open(self.checkpoint)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        who = f"{socket.gethostname()}, process {os.getpid()}, since {since}"
        topology, limits, note = self.runnable.topology, self.limits, self.observer.note
        taken = topology.spec.checkpoint.take_over
        begin_from(store, topology, who, note)
        log = CommitLog(store, topology.whole_name, who, limits=limits.log, takes_over=taken)
        log.claim()
        go_back_as_told(log, store, topology, note, self.clocks.wall())
        keeper = SavepointKeeper(
            store, note, self.clocks.wall, topology.spec.savepoints, self._code()
        )
        committer = CommitWriter(log, note, self.clocks, keeper, limits.check_seconds)
        planner = Planner(
            self.runnable,
            self.checkpoint,
            store,
            self.jobs,
            committer,
            note,
            limits,
            None if self.tracer is None else self.tracer.sampling,
            self.keeps_tasks,
        )
        return RunningTopology(self, store, committer, planner)

    def _code(self) -> bytes:
        """The digest of the author's code, if automatic savepoints are made before it changes."""
        spec = self.runnable.topology.spec
        if spec.savepoints is None:
            return b""
        classes = [one.class_ for one in spec.components if one.class_]
        return code_digest(classes, self.runnable.code_folder)

    def unstarted_totals(self) -> Totals:
        """The totals of a topology that has not started."""
        topology = self.runnable.topology
        plan = make_plan(topology, pinned=self.runnable.pinned)
        workers = range(plan.workers)
        placed = place(self.runnable, self.checkpoint, topology, plan, {}, workers)
        transactions = TransactionTotals() if placed.emitters else None
        return Totals(CurrentTopology(placed), steady=self.clocks.steady, transactions=transactions)


class RunningTopology:
    """One topology, from its claim of the checkpoint to its end.

    Call `run` or `step`, then `close`.

    Attributes:
        runnable: What runs.
        jobs: What runs the stages.
        store: The checkpoint's.
        log: The checkpoint's commits.
        committer: Writes them.
        planner: Knows where executors are, and which topology is in force.
        totals: What was done so far.
        recovery: Deals with failed attempts.
        coordinator: Decides about batches. After a change of the topology it is another one.
        observer: Is told what happens.
        clocks: How time passes.
        end: How the last run ended, or the one at hand will; None: there was none.
    """

    def __init__(
        self, driver: Driver, store: Store, committer: CommitWriter, planner: Planner
    ) -> None:
        """Begin once the planner has started the jobs: from now on time passes for the topology."""
        self.runnable, self.jobs = driver.runnable, driver.jobs
        self.store, self.committer, self.log = store, committer, committer.log
        self.planner = planner
        self.observer, self._tracer = driver.observer, driver.tracer
        self.clocks = driver.clocks
        self._rng = driver.generator()
        self._limits = driver.limits
        self._taps = driver.taps
        self._branch = new_tag()[:8]
        self.coordinator = self._new_coordinator(self.log.manifest.clock)
        self.totals = Totals(planner.current, steady=self.clocks.steady)
        self.recovery = Recovery(
            jobs=self.jobs,
            planner=planner,
            committer=committer,
            totals=self.totals,
            observer=self.observer,
            clocks=self.clocks,
        )
        self._transactions = TransactionHost(
            planner.current, self.totals, self.recovery, self.store, self.log, self.clocks
        )
        self._pinned = PinnedHost(planner.current, self.store, self.recovery, driver.generator)
        self.end: EndOfRun | None = None
        self._looked = 0.0
        self._looked_at = planner.wanted
        if self._looked_at is not None and self._is_over:  # nothing holds it up
            self.coordinator.active = False
        self._ahead = StateAhead(planner, driver.observer.note)
        self._ended = self.clocks.steady()
        self._transactions.count(self.coordinator)
        self._taps.begin(planner.current, self.topology.spec.tap, self.store)
        # not all may be there yet, or any more
        planner.replan(self.jobs.alive() or planner.hosting)
        self.coordinator.clock.stand_still(self.clocks.steady() - self._ended)

    @property
    def topology(self) -> Topology:
        """The resource that runs."""
        return self.planner.topology

    @property
    def placed(self) -> PlacedTopology:
        """The topology and its plan, as workers get it."""
        return self.planner.current.placed

    @property
    def plan(self) -> Plan:
        """The plan in force, which says where executors are."""
        return self.placed.plan

    def _new_coordinator(self, clock: float, before: Coordinator | None = None) -> Coordinator:
        """Make a coordinator that goes on from the last commit. Time passes from now on."""
        return Coordinator(
            self.planner.current,
            last_batch(self.log.manifest),
            BatchClock(clock, self.clocks.steady()),
            new_tag,
            transactions=transactions_of(
                self.placed,
                self.planner.migration.ledger,
                self.log.epoch,
                f"{self.planner.migration.layout.identity}-{self._branch}",
                before.transactions if before else None,
            ),
            active=self.topology.spec.state == "Active",
            more_may_come=before is not None and before.turns.more_may_come,
        )

    # Until it is to stop

    def run(self, stop: Stop) -> None:
        """Run batches until `stop` says so.

        Raises:
            Fenced: Another driver has taken over.
            TopologyFailed: The topology can't go on.
        """
        self.coordinator.turns.more_may_come = stop.when_drained and stop.more_may_come
        self.committer.patience = lambda: stop.patience
        self.end = EndOfRun(stop, self.recovery, self.committer, self.totals, self.clocks)
        with self.recovery.calls.watched(stop):
            try:
                self._run(stop, self.end)
            finally:
                self.totals.seconds += self.end.seconds
            if not stop.now:
                self._end_tasks()

    def _run(self, stop: Stop, end: EndOfRun) -> None:
        while not stop.now:
            if end.is_reached(self.coordinator, changes=self._wanted(stop) is not None):
                break
            if not stop.drain:
                self.follow(stop)
            end.give_up(self.coordinator)
            self.look_for_workers()
            if self.step() and not stop.drain:
                self._rest(self.coordinator.idle_seconds(), stop)
            elif stop.drain and self.coordinator.idle.batches > 1:
                self._rest(min(0.05, self.coordinator.idle_seconds()), stop)

    def _wanted(self, stop: Stop) -> Topology | None:
        """What it is to become: as `stop` says, or because the checkpoint has other numbers."""
        return stop.topology or self.planner.wanted

    @property
    def _is_over(self) -> bool:
        """Whether all trees have ended, and no result comes again."""
        return self.coordinator.settled and not self.coordinator.has_resting_results

    def follow(self, stop: Stop) -> None:
        """Have the next batch be as `stop` says: with spouts or without, of another topology."""
        was_active = self.coordinator.active
        if stop.active is not None:
            self.coordinator.active = stop.active
        if (wanted := self._wanted(stop)) is not None:
            self._approach(stop, wanted, was_active)
        else:
            self._ahead.forget()

    def _approach(self, stop: Stop, wanted: Topology, was_active: bool) -> None:
        """Become another topology: at once, or when spouts have stopped and no tree is pending.

        Spouts stop when workers have read what they need of it.
        """
        if (why := self._why_not(wanted)) is not None:
            self._refuse(stop, why)
            return
        target = self.planner.with_committers(wanted)
        if is_placed_like(target, self.topology) or (self._is_over and not was_active):
            try:
                self._become(target)
            except CheckpointMismatch as error:  # by what was written since it was looked at
                if stop.topology is not wanted:
                    raise
                self._refuse(stop, str(error))
                self.coordinator.active = self.topology.spec.state == "Active"
            if stop.active is not None:
                self.coordinator.active = stop.active
            if stop.topology is wanted:  # else it is yet another one by now
                stop.topology = None
        elif not was_active or self._ahead.is_over(wanted):
            HANDOVER.goes_on = True
            self.coordinator.active = False

    def _refuse(self, stop: Stop, why: str) -> None:
        self.observer.note(f"what was changed is not taken over: {why}")
        stop.topology, stop.refused = None, why
        HANDOVER.goes_on = False

    def _why_not(self, target: Topology) -> str | None:
        """Why the topology can't become another one while it runs; None: it can."""
        if target.tasks == self.topology.tasks or target is self._looked_at:
            return None
        self._looked_at = target
        try:
            self.planner.check_tasks(target)
        except CheckpointMismatch as error:
            return str(error)
        return None

    def _become(self, topology: Topology) -> None:
        placed = self.planner.planned_for(topology)
        self._close_hosted()
        self._ahead.forget()
        HANDOVER.goes_on = False
        with self.totals.renumbering():
            self.planner.replace(placed)
        self.planner.start_jobs()
        self.committer.savepoints.policy = topology.spec.savepoints
        self.coordinator = self._new_coordinator(self.coordinator.clock.seconds, self.coordinator)
        self.observer.note(f"what was changed is taken over, with {self.plan.workers} workers")

    def look_for_workers(self) -> None:
        """See now and then whether missing workers are back."""
        now = self.clocks.steady()
        if self.planner.is_whole or now - self._looked < self._limits.look_seconds:
            return
        self._looked = now
        self.planner.replan(self.jobs.alive())
        self.coordinator.clock.stand_still(self.clocks.steady() - now)

    def _rest(self, seconds: float, stop: Stop) -> None:
        """Rest, unless a pinned spout wants the next batch at once."""
        if seconds > 0 and not stop.now and not self._pinned.woken.is_set():
            self.clocks.rest(self._pinned.woken, seconds)
        self._pinned.woken.clear()

    # A batch

    def step(self) -> bool:
        """Run one attempt of one batch. Returns whether it counted.

        Raises:
            Fenced: Another driver has taken over.
            CheckpointError: Parts of the checkpoint are missing or damaged.
            TopologyFailed: The topology can't go on.
        """
        coordinator = self.coordinator
        self._transactions.open(coordinator)
        started = self.clocks.steady()
        wall = self.clocks.wall()
        header = coordinator.begin(started, wall)
        if self.placed.event_times:
            header = replace(header, wall=wall)
        header = self._ahead.asking(self._taps.asking(header))
        self._transactions.count(coordinator)
        taken: list[Summary] = []
        owed: Mapping[int, Deliveries] = {}
        try:
            if self.plan.pinned:
                began = self.clocks.steady()
                self._pinned.open(self.log.manifest.number)
                coordinator.clock.stand_still(self.clocks.steady() - began)
                if header.deliveries is None:
                    header = replace(header, deliveries=coordinator.last.deliveries)
                header, taken, owed = self._pinned.take(header)
            cuts = coordinator.cuts(header)
            ran = run_attempt(self._job, self.placed, self.store, header, cuts, self._rng)
        except (Unavailable, JobFailed, Unreachable) as e:
            self.recovery.after_error(coordinator, header, e)
            self._came_to_nothing(header)
            return False
        if ran.void is not None:
            self.recovery.after_void(coordinator, header, ran.void)
            self._came_to_nothing(header)
            return False
        self._finish(replace(ran, summaries=[*ran.summaries, *taken]), owed, started)
        self._transactions.check(self.coordinator)
        return True

    def _came_to_nothing(self, header: Header) -> None:
        self._transactions.check(self.coordinator)
        if self._tracer is not None:
            self._tracer.attempt_failed(header.number, self.recovery.reason, self.clocks.wall())

    def _job(self, header: Header) -> Sequence[bytes]:
        return self.jobs.run(header, self.topology.spec.batch_timeout_seconds)

    def _finish(self, ran: AttemptResult, owed: Mapping[int, Deliveries], started: float) -> None:
        """Commit an attempt that came to its end, and count it."""
        ended = self.clocks.steady()
        self._ahead.heard(ran.summaries)
        forgotten = self.planner.forget_due()
        migration = self.planner.migration
        is_asked = self.committer.savepoints.look(self.log.manifest, ended)
        done = self.coordinator.finish(
            ran.summaries,
            ended - started,
            {**owed, **migration.ended_after(owed)},
            ran.skipped,
            ackers_ran=ran.ackers_ran,
            must_commit=migration.rest is not None or is_asked,
        )
        fatal = fatal_error(ran.summaries)
        if fatal is not None:
            raise self.recovery.fatal(fatal)
        written = self.log.bytes_written
        at = now_as_text(self.clocks.wall())
        changes = [*forgotten, *self._taps.letters.changes(self.log.manifest, ran.summaries, at)]
        log = with_changes(self.log.manifest, changes) if changes else {}
        outage = self.committer.commit(done, migration.rest, log)
        self.planner.migrated()
        now, wall = self.clocks.steady(), self.clocks.wall()
        written = self.log.bytes_written - written
        self.coordinator.committed(done, commit_work_seconds(now - ended - outage, written))
        self.recovery.succeeded(self.coordinator)
        self.coordinator.clock.stand_still(outage)
        spent = BatchTimes(
            run=ended - started,
            commit=now - ended if done.commits else None,
            wait=started - self._ended,
            commit_bytes=self.log.bytes_written,
        )
        self._ended = now
        self._transactions.tell(done.transactions)
        self._pinned.give(done.summaries)
        self._taps.committed(done.summaries, done.header.number, wall)
        for error in self.totals.add(done, self.coordinator.pending, wall, spent):
            self.observer.error(error)
        self.observer.batch(self.totals, done)
        if self._tracer is not None:
            moments = Moments(wall - (now - started), wall - (now - ended), wall)
            self._tracer.batch(done, moments)
        if done.commits and done.header.number % self._limits.collect_every == 0:
            self.committer.collect()

    # The end

    def _end_tasks(self) -> None:
        """Have all instances closed. Everything is committed: it does not matter if this fails."""
        header = self.coordinator.begin_closing(self.clocks.steady())
        try:
            rows = self._job(header)
        except JobFailed as e:
            self.observer.note(f"not all components could be closed: {e}")
        else:
            summaries, _, _ = read_rows(rows)
            self.recovery.tell([error for summary in summaries for error in summary.errors])

    def close(self) -> None:
        """Let go of everything. What is committed stays."""
        self._taps.end()
        self.committer.close()
        HANDOVER.goes_on = False
        self._close_hosted()
        self.jobs.close()

    def _close_hosted(self) -> None:
        """Let go of the authors' objects in this process."""
        self._transactions.close()
        self._pinned.close()
