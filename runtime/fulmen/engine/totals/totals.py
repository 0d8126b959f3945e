"""Totals of a topology so far: batches that counted are added to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from fulmen.engine.batches.done import Done
from fulmen.engine.batches.pace.next_timers import NextTimers
from fulmen.engine.batches.summaries import slowest_seconds
from fulmen.engine.batches.transactions import Outcome, Transactions
from fulmen.engine.protocol.figures.failure_reasons import FailureCount, kind_of
from fulmen.engine.protocol.figures.statistics import (
    BATCH,
    BATCHES,
    CHECKPOINT_BYTES,
    CHECKPOINT_SECONDS,
    COMPLETE,
    ERRORS,
    FAILED_ATTEMPTS,
    PENDING_MESSAGES,
    PHASES,
    RESTORED,
    TASK_SECONDS,
    by_task,
)
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.totals.counted import Counted, StageSeconds
from fulmen.engine.totals.failures import REPEAT_SECONDS, is_error
from fulmen.engine.totals.latencies import RollingWindow
from fulmen.engine.totals.transaction_totals import TransactionTotals
from fulmen.plan import task_of_key

_CAPACITY_SECONDS, _CAPACITY_PARTS = 600.0, 20  # as in Storm
_LOAD_SECONDS, _LOAD_PARTS = 10.0, 10


@dataclass(frozen=True)
class BatchTimes:
    """The time of a batch.

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


@dataclass
class Totals(Counted):
    """Totals, to which batches are added. See `docs/cli.md` for the report that is made of it.

    The driver's thread adds to it. Any other one that reads takes `lock`: then it sees whole
    batches.

    Attributes:
        seconds: How long the driver has run batches.
        executors: First task of an executor -> seconds in the author's code: for the capacity.
        workers: Worker -> seconds at work. -1 is the driver, which hosts pinned spouts and does the
            ackers' work in light batches.
        run_delays: Worker -> seconds that it was ready to run and had no processor.
        pids: Worker -> the processes that have served it.
    """

    steady: Callable[[], float] = time.monotonic
    seconds: float = 0.0
    pids: dict[int, set[int]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)
    executors: RollingWindow = field(init=False)
    workers: RollingWindow = field(init=False)
    run_delays: RollingWindow = field(init=False)
    _run: str = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.steady()
        self._begin_plan()

    @contextmanager
    def renumbering(self) -> Iterator[None]:
        """Go on with other tasks, which come into force in the block.

        What was kept by their numbers means others then.
        """
        with self.lock:
            yield
            self._begin_plan()
            self.levels, self.resting = {}, {}
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
        self._run, self.stages, self.processes = self.placed.run, {}, {}

    def attempt_failed(self, reason: str) -> None:
        """Count an attempt that came to nothing."""
        with self.lock:
            self.counts["", FAILED_ATTEMPTS, ""] += 1
            self.last_failure = reason
            if self.transactions is not None:
                self.transactions.nothing(reason, self.steady())

    def begin(self, transactions: Transactions, lags: Mapping[str, int]) -> None:
        """Begin a batch of a transactional topology.

        Args:
            transactions: All of them.
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
            return list(self._note(errors, wall_clock))

    def _note(self, errors: Iterable[ErrorReport], wall_clock: float) -> Iterator[ErrorReport]:
        for error in errors:
            if error.is_warning:
                yield error
                continue
            self.counts[error.component, ERRORS, ""] += 1 + error.more
            if (logged := self.errors.add(error, wall_clock)) is not None:
                yield logged

    def _measure(self, done: Done, spent: BatchTimes) -> None:
        now = self.steady()
        if self.placed.run != self._run:
            self._begin_run()
        self.header = done.header
        self.counts["", CHECKPOINT_BYTES, "commit"] = spent.commit_bytes
        for phase, seconds in zip(PHASES, (spent.run, spent.commit, spent.wait), strict=True):
            if seconds is not None:
                self.times["", BATCH, phase].add(seconds)
        commits = self.times["", BATCH, "commit"].seconds
        self.counts["", CHECKPOINT_SECONDS, "commit"] = commits  # type: ignore[assignment]
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
        self.counts.update(summary.counts)
        self.counts.update((task_of_key(key)[0], RESTORED, "") for key in summary.restored)
        self.levels |= summary.levels
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
        self.processes[summary.partition] = summary.process
        self.pids.setdefault(summary.process.worker, set()).add(summary.process.pid)

    def _add(self, done: Done, pending: int, wall_clock: float) -> list[ErrorReport]:
        self.counts["", BATCHES, ""] += 1
        if done.transactions is None:
            self.pending_trees = pending
        else:
            self._add_transactions(done.transactions)
        logged: list[ErrorReport] = []
        for summary in done.summaries:
            for born, n, origin in summary.born:
                seconds = max(0.0, wall_clock - born)
                self.latencies.add(seconds * 1000, n)
                self.times[self.placed.component_of_origin(origin), COMPLETE, ""].add(seconds, n)
            logged += self._note([*summary.errors, *self.count(summary)], wall_clock)
            logged += self._failed(summary, wall_clock)
            for _, task in summary.levels:  # it has said all that it has
                self.resting.pop(task, None)
            self.resting |= summary.resting
        self.waits.add(done.summaries, done.after.holds)
        messages = by_task(self.levels, PENDING_MESSAGES)
        self.waits.look_for_full(self.placed, messages, done, self.steady())
        if done.transactions is not None:
            errors = [error for summary in done.summaries for error in summary.errors]
            self.waits.attempts_ended(done.transactions, errors, wall_clock, self.steady())
        self.watermarks = done.after.watermarks
        self.timers.committed(self.placed.run, done.summaries)
        self.wall = wall_clock
        return logged

    def _failed(self, summary: Summary, wall_clock: float) -> Iterator[ErrorReport]:
        """Count why tuples failed; gives what is to be logged: each kind of reason once a minute.

        What an exception has failed is an error, too, and logged as such.
        """
        attempts = [
            FailureCount(a.component, kind_of(a.reason), 1, a.reason, a.task)
            for a in summary.failed_attempts
        ]
        for failure in [*summary.failures, *attempts]:
            reason = self.failures.add(failure, wall_clock)
            known = is_error(failure.component, reason, self.errors.get(failure.component, ()))
            if known or wall_clock - reason.logged < REPEAT_SECONDS:
                continue
            times = f" ({reason.count:,} times)" if reason.logged else ""
            reason.logged = wall_clock
            message = f"{failure.example}{times}"
            yield ErrorReport(failure.component, failure.task, message, is_failure=True)

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

    def report(self) -> dict[str, Any]:
        """The report as plain values."""
        transactions = self.transactions
        return {
            "topology": self.placed.topology.metadata.name,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "trees": asdict(self.trees),
            **({} if transactions is None else {"transactions": transactions.report()}),
            "latency_ms": {
                "p50": self.latencies.quantile(0.5),
                "p99": self.latencies.quantile(0.99),
            },
            "components": {
                name: self._component_report(name) for name in self.placed.plan.component_tasks
            },
            "failed_attempts": self.failed_attempts,
            "restored_tasks": self.sum(RESTORED),
            "kept_state": {name: asdict(one) for name, one in self.placed.kept.items()},
        }

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
            "unread": self.unread().get(name, {}),
            "failures": failures,
        }
