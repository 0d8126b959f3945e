"""What a topology has done so far: exact counts, latencies, errors.

Only batches that counted are in it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.engine.batches.done import Done
from fulmen.engine.batches.pace.next_timers import NextTimers
from fulmen.engine.batches.summaries import slowest_seconds
from fulmen.engine.batches.transactions import Outcome, Transactions
from fulmen.engine.protocol.callbacks.processes import Process
from fulmen.engine.protocol.figures.failure_reasons import FailureCount, kind_of
from fulmen.engine.protocol.figures.statistics import (
    ACKED,
    BATCH,
    COMPLETE,
    DEAD_LETTERED,
    DROPPED,
    EMITTED,
    EXECUTED,
    FAILED,
    REPLAYED,
    TASK_SECONDS,
    TRANSFERRED,
    CountKey,
    RollingWindow,
    Times,
)
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Resting, Summary
from fulmen.engine.time.watermarks import Watermarks
from fulmen.engine.totals.author_metrics import AuthorMetrics
from fulmen.engine.totals.errors import REPEAT_SECONDS, Errors
from fulmen.engine.totals.event_time import ComponentTime, times_of
from fulmen.engine.totals.failures import Failures, is_error
from fulmen.engine.totals.latencies import Latencies
from fulmen.engine.totals.transaction_totals import TransactionTotals
from fulmen.engine.totals.unread import unread_errors
from fulmen.engine.totals.waits import Waits
from fulmen.plan import task_of_key

STATISTICS = (EMITTED, TRANSFERRED, EXECUTED, ACKED, FAILED)
_CAPACITY_SECONDS, _CAPACITY_PARTS = 600.0, 20  # as in Storm
_LOAD_SECONDS, _LOAD_PARTS = 10.0, 10


@dataclass
class TreeCounts:
    """How the tuple trees of tracked messages, and of results of bolts, ended.

    Attributes:
        acked: Ended well.
        failed: Ended otherwise, but not by a timeout.
        timed_out: Were not acked within messageTimeoutSeconds.
        pending: Have not ended.
        replayed: Emits of a message that had failed before.
        dead_lettered: Messages that went to the dead letters after `maxReplays` failures.
        dropped: Tuples that were dropped because they kill their workers.
    """

    acked: int = 0
    failed: int = 0
    timed_out: int = 0
    pending: int = 0
    replayed: int = 0
    dead_lettered: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class BatchTimes:
    """What a batch took.

    Attributes:
        run: Seconds that its jobs took.
        commit: Seconds that its commit took; None: there was nothing to commit.
        wait: Seconds since the batch before; attempts that failed are in it.
        commit_bytes: Of all commits since the driver started.
    """

    run: float = 0.0
    commit: float | None = None
    wait: float = 0.0
    commit_bytes: int = 0


class StageSeconds(NamedTuple):
    """What one stage took in all batches of a plan.

    Attributes:
        slowest: Seconds of each batch's slowest worker, added up: what batches took for the stage.
        workers: Seconds of all workers, added up.
        runs: How many times a worker ran the stage.
        cpu: Seconds of processors that the workers' processes used for it, added up.
        run_delay: Seconds that they were ready to run and had no processor, added up.
    """

    slowest: float = 0.0
    workers: float = 0.0
    runs: int = 0
    cpu: float = 0.0
    run_delay: float = 0.0


@dataclass
class Totals:
    """Everything since this driver started. See `docs/cli.md` for the report that is made of it.

    The driver's thread adds to it. Any other one that reads takes `lock`: then it sees whole
    batches.

    Attributes:
        current: The topology, whose plan may change.
        header: Of the newest batch.
        latencies: How long trees took; in a transactional topology, transactions.
        transactions: What became of them; None: the topology has none.
        times: Of tuples, trees and batches.
        executors: First task of an executor -> seconds in the author's code: for the capacity.
        workers: Worker -> seconds at work. -1 is the driver, which hosts pinned spouts and does the
            ackers' work in light batches.
        run_delays: Worker -> seconds that it was ready to run and had no processor.
        failures: Why tuples failed, by component.
        resting: Task -> its messages, or results, that have failed and come again after a pause.
        pending_trees: Of each acker task.
        pending_messages: Of each spout task: not acked or failed, or the spout was not told yet.
            The same of results of each bolt task that has kept some.
        restored_tasks: Of each component: how many times a task's state was read.
        tasks: Of each task, since the plan is in force: a row as in `TaskSums`.
        stages: Of each stage, since the plan is in force.
        last_processes: Worker -> the process that served it in the last batch.
        metrics: Those of authors.
        waits: What holds up batches or spouts at the moment.
        watermarks: How far event time has come.
        timers: Those of bolts.
        wall: When the last batch was committed, in seconds of time.time().
    """

    current: CurrentTopology
    steady: Callable[[], float] = time.monotonic
    batches: int = 0
    failed_attempts: int = 0
    seconds: float = 0.0
    trees: TreeCounts = field(default_factory=TreeCounts)
    latencies: Latencies = field(default_factory=Latencies)
    transactions: TransactionTotals | None = None
    counts: Counter[CountKey] = field(default_factory=Counter)
    failures: Failures = field(default_factory=Failures)
    resting: dict[int, Resting] = field(default_factory=dict)
    errors: Errors = field(default_factory=Errors)
    restored: int = 0
    processes: dict[int, set[int]] = field(default_factory=dict)
    last_failure: str = ""
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)
    header: Header | None = None
    times: Times = field(default_factory=Times)
    executors: RollingWindow = field(init=False)
    workers: RollingWindow = field(init=False)
    run_delays: RollingWindow = field(init=False)
    pending_trees: dict[int, int] = field(default_factory=dict)
    pending_messages: dict[int, int] = field(default_factory=dict)
    restored_tasks: Counter[str] = field(default_factory=Counter)
    state_bytes: int = 0
    state_seconds: float = 0.0
    commit_bytes: int = 0
    tasks: npt.NDArray[np.float64] = field(init=False)
    stages: dict[int, StageSeconds] = field(init=False)
    last_processes: dict[int, Process] = field(init=False)
    metrics: AuthorMetrics = field(default_factory=AuthorMetrics)
    waits: Waits = field(default_factory=Waits)
    watermarks: Watermarks = field(default_factory=Watermarks)
    timers: NextTimers = field(default_factory=NextTimers)
    wall: float = 0.0
    _run: str = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.steady()
        self._begin_plan()

    @property
    def placed(self) -> PlacedTopology:
        """The topology and its plan."""
        return self.current.placed

    @contextmanager
    def renumbering(self) -> Iterator[None]:
        """Go on with other tasks, which come into force in the block.

        What was kept by their numbers means others then.
        """
        with self.lock:
            yield
            self._begin_plan()
            self.pending_trees, self.pending_messages, self.resting = {}, {}, {}
            self.timers = NextTimers()
            self.metrics.renumber()
            self.waits.renumber()

    def _begin_plan(self) -> None:
        now = self.steady()
        self.executors = RollingWindow(_CAPACITY_SECONDS, _CAPACITY_PARTS, now)
        self.workers = RollingWindow(_LOAD_SECONDS, _LOAD_PARTS, now)
        self.run_delays = RollingWindow(_LOAD_SECONDS, _LOAD_PARTS, now)
        self.tasks = np.zeros((self.placed.plan.task_count + 1, TASK_SECONDS + 1))
        self._begin_run()

    def _begin_run(self) -> None:
        """Stages have other numbers from now on, and workers may be gone."""
        self._run, self.stages, self.last_processes = self.placed.run, {}, {}

    def attempt_failed(self, reason: str) -> None:
        """Count an attempt that came to nothing."""
        with self.lock:
            self.failed_attempts += 1
            self.last_failure = reason
            if self.transactions is not None:
                self.transactions.nothing(reason, self.steady())

    def begin(self, transactions: Transactions, lags: Mapping[str, int]) -> None:
        """A batch of a transactional topology begins.

        Args:
            transactions: All that there are.
            lags: How many messages of each source are in none of them, where that is known.
        """
        with self.lock:
            if self.transactions is None:
                self.transactions = TransactionTotals()
            self.transactions.begin(transactions.ledger, transactions.active, lags, self.steady())

    def add(
        self, done: Done, pending: int, wall_clock: float, spent: BatchTimes | None = None
    ) -> list[ErrorReport]:
        """Count a batch that was committed, or had nothing to commit.

        Args:
            done: The batch.
            pending: Trees pending after it, or transactions.
            wall_clock: When its commit was done, in seconds of time.time().
            spent: What it took.

        Returns:
            Errors to be logged: at most 5 of a component in 10 seconds, as in Storm, and the same
            one once in a minute, with a count.
        """
        with self.lock:
            self._measure(done, spent or BatchTimes())
            return self._add(done, pending, wall_clock)

    def note(self, errors: Iterable[ErrorReport], wall_clock: float) -> list[ErrorReport]:
        """Count errors that are no part of a batch. Returns those to be logged."""
        with self.lock:
            return self.errors.add_all(errors, wall_clock)

    def _measure(self, done: Done, spent: BatchTimes) -> None:
        now = self.steady()
        if self.placed.run != self._run:
            self._begin_run()
        self.header = done.header
        self.commit_bytes = spent.commit_bytes
        phases = (("run", spent.run), ("commit", spent.commit), ("wait", spent.wait))
        for phase, seconds in phases:
            if seconds is not None:
                self.times["", BATCH, phase].add(seconds)
        for stage, seconds in slowest_seconds(done.summaries).items():
            old = self.stages.get(stage, StageSeconds())
            self.stages[stage] = StageSeconds(old.slowest + seconds, *old[1:])
        for summary in done.summaries:
            self._measure_stage(summary, now)

    def _measure_stage(self, summary: Summary, now: float) -> None:
        self.times.add_chunks(summary.times)
        self.executors.add(summary.busy, now)
        self.workers.add({summary.partition: summary.seconds}, now)
        self.run_delays.add({summary.partition: summary.run_delay}, now)
        self.pending_trees.update(summary.pending)
        self.pending_messages |= summary.spout_pending | summary.result_pending
        self.restored_tasks.update(task_of_key(key)[0] for key in summary.restored)
        self.state_bytes += summary.state_bytes
        self.state_seconds += summary.state_seconds
        if summary.tasks:
            self.tasks[list(summary.tasks)] += list(summary.tasks.values())
        old = self.stages[summary.stage]
        self.stages[summary.stage] = StageSeconds(
            old.slowest,
            old.workers + summary.seconds,
            old.runs + 1,
            old.cpu + summary.cpu_seconds,
            old.run_delay + summary.run_delay,
        )
        self.last_processes[summary.partition] = summary.process

    def _add(self, done: Done, pending: int, wall_clock: float) -> list[ErrorReport]:
        self.batches += 1
        trees = self.trees
        if done.transactions is None:
            trees.pending = pending
        else:
            self._add_transactions(done.transactions)
        logged: list[ErrorReport] = []
        for summary in done.summaries:
            self.counts.update(summary.counts)
            trees.acked += sum(int((r[:, 1] - r[:, 0]).sum()) for r in summary.acked.values())
            trees.failed += len(summary.failed) - summary.timed_out
            trees.timed_out += summary.timed_out
            self.restored += len(summary.restored)
            self.processes.setdefault(summary.process.worker, set()).add(summary.process.pid)
            for born, n, origin in summary.born:
                seconds = max(0.0, wall_clock - born)
                self.latencies.add(seconds * 1000, n)
                self.times[self.placed.component_of_origin(origin), COMPLETE, ""].add(seconds, n)
            logged += self.errors.add_all([*summary.errors, *self.count(summary)], wall_clock)
            logged += self._failed(summary, wall_clock)
            for task in (*summary.spout_pending, *summary.result_pending):
                self.resting.pop(task, None)
            self.resting |= summary.resting
        self.waits.add(done.summaries, done.after.holds)
        self.waits.look_for_full(self.placed, self.pending_messages, done, self.steady())
        if done.transactions is not None:
            errors = [error for summary in done.summaries for error in summary.errors]
            self.waits.attempts_ended(done.transactions, errors, wall_clock, self.steady())
        self.watermarks = done.after.watermarks
        self.timers.committed(self.placed.run, done.summaries)
        self.wall = wall_clock
        trees.replayed = self._sum(REPLAYED)
        trees.dead_lettered = self._sum(DEAD_LETTERED)
        trees.dropped = self._sum(DROPPED)
        return logged

    def _failed(self, summary: Summary, wall_clock: float) -> Iterator[ErrorReport]:
        """Count why tuples failed; gives what is to be logged: each kind of reason once a minute.

        What an exception has failed is an error, too, and logged as such.
        """
        attempts = [
            FailureCount(a.component, kind_of(a.reason), 1, a.reason, a.task)
            for a in summary.failed_attempts
        ]
        for found in [*summary.failures, *attempts]:
            reason = self.failures.add(found, wall_clock)
            known = is_error(found.component, reason, self.errors.get(found.component, ()))
            if known or wall_clock - reason.logged < REPEAT_SECONDS:
                continue
            times = f" ({reason.count:,} times)" if reason.logged else ""
            reason.logged = wall_clock
            message = f"{found.example}{times}"
            yield ErrorReport(found.component, found.task, message, is_failure=True)

    def count(self, summary: Summary) -> Iterator[ErrorReport]:
        """Add what authors have counted; under `lock`. Gives what is wrong with their metrics."""
        plan = self.placed.plan
        for task, samples in summary.samples.items():
            component = plan.component_of(task)
            index = task - plan.tasks(component).start
            for reason in self.metrics.add(component, index, samples):
                yield ErrorReport(component, task, reason)

    def _add_transactions(self, outcome: Outcome) -> None:
        if self.transactions is None:
            self.transactions = TransactionTotals()
        for seconds in self.transactions.add(outcome, self.steady()):
            self.latencies.add(seconds * 1000)
            for source in self.placed.emitters:
                self.times[source, COMPLETE, ""].add(seconds)

    def _sum(self, what: str) -> int:
        return sum(n for (_, kind, _), n in self.counts.items() if kind == what)

    def event_times(self) -> dict[str, ComponentTime]:
        """The event times of components that have one, or timers; under `lock`."""
        clock = 0.0 if self.header is None else self.header.clock
        timers = dict(self.timers.by_task())
        return times_of(self.placed, self.watermarks, timers, self.counts, clock)

    def component(self, name: str) -> dict[str, int]:
        """The statistics of one component, over all its streams."""
        return {
            what.value: sum(
                n
                for (component, kind, _), n in self.counts.items()
                if (component, kind) == (name, what)
            )
            for what in STATISTICS
        }

    def report(self) -> dict[str, Any]:
        """The report as plain values."""
        transactions = self.transactions
        return {
            "topology": self.placed.topology.metadata.name,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "trees": dict(vars(self.trees)),
            **({} if transactions is None else {"transactions": transactions.report()}),
            "latency_ms": {
                "p50": self.latencies.quantile(0.5),
                "p99": self.latencies.quantile(0.99),
            },
            "components": {name: self._component_report(name) for name in self._names()},
            "failed_attempts": self.failed_attempts,
            "restored_tasks": self.restored,
            "kept_state": dict(self.placed.kept),
        }

    def _names(self) -> Iterable[str]:
        return self.placed.plan.component_tasks

    def _component_report(self, name: str) -> dict[str, Any]:
        shown = ("task", "message", "count")
        errors = [{key: e[key] for key in shown} for e in self.errors.get(name, ())]
        failures = [
            {"task": reason.task, "reason": reason.example, "count": reason.count}
            for reason in self.failures.get(name, {}).values()
        ]
        return {
            **self.component(name),
            "tasks": len(self.placed.plan.tasks(name)),
            "metrics": self.metrics.of_component(name),
            "errors": errors,
            "unread_errors": unread_errors(self.placed, self.counts).get(name, 0),
            "failures": failures,
        }
