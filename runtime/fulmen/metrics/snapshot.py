"""What the driver has counted, at one moment between two batches. Made for each scrape."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.api.signals import Lag
from fulmen.engine.protocol.callbacks.processes import Process
from fulmen.engine.protocol.figures.statistics import (
    AHEAD,
    EMITTED,
    EXECUTED,
    UNTIMED,
    UNUSABLE,
    CountKey,
    TimeHistogram,
    Times,
    is_one_acker,
)
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import Resting
from fulmen.engine.totals.author_metrics import AuthorMetrics
from fulmen.engine.totals.event_time import ComponentTime
from fulmen.engine.totals.failures import FailureReason
from fulmen.engine.totals.latencies import Latencies
from fulmen.engine.totals.totals import StageSeconds, Totals, TreeCounts
from fulmen.engine.totals.transaction_totals import TransactionTotals
from fulmen.engine.totals.waiting import waiting
from fulmen.engine.totals.waits import Away, Wait, Waits, lag_of
from fulmen.plan import Executor
from fulmen.plan.model import DRIVER
from fulmen.topology.resource.spec import ACKER

ACKER_INPUTS = ("__ack_init", "__ack_ack", "__ack_fail", "__ack_reset_timeout")
ACKER_OUTPUTS = ("__ack_ack", "__ack_fail")
LATE_COUNTER, ENDED = "late", "ended"
"""The counter of what came after its windows had ended, as the classes of `fulmen.windows` name it,
and the name of that reason."""


@dataclass(frozen=True)
class Snapshot:
    """Copies of a driver's totals, and what follows from them.

    Attributes:
        placed: The topology and its plan.
        uptime: Seconds since the driver started.
        moment: Now, in seconds of the driver's steady clock.
        batches: That counted.
        failed_attempts: Attempts of batches that came to nothing.
        last_failure: Why the last one of these did; "" if there was none.
        trees: How tuple trees ended.
        transactions: What became of them; None: the topology has none.
        counts: (component, what, of which) -> number.
        times: Histograms.
        latencies: Complete latencies in fine steps, of trees or transactions.
        executors: First task of an executor -> its capacity, 0 to about 1.
        workers: Worker -> share of the last seconds that it was at work.
        run_delays: Worker -> share of them that it was ready to run, and had no processor.
        pending_trees: Of each acker task.
        pending_messages: Of each spout task, and each bolt task that has kept results.
        restored_tasks: Of each component: how many times a task's state was read.
        errors: Of each component: the last ones, each with task, message, traceback, count, and the
            times of the first and the last.
        error_counts: Of each component.
        header: Of the newest batch; None before the first.
        state_bytes: Written by workers to state files.
        state_seconds: That workers took to pickle and write state.
        commit_bytes: Written by the driver in commits.
        tasks: Of each task: a row as in `TaskSums`.
        stages: Of each stage: what it took.
        processes: Worker -> the process that served it last.
        metrics: Those of authors.
        failures: Why tuples failed: component -> kind of reason -> what is known of it.
        resting: Task -> its messages, or results, that have failed and come again.
        waits: What is known of sources and services.
        waiting: What holds up batches or spouts.
        event_times: How far event time has come, of components that have one, or timers.
        wall: When the last batch was committed, in seconds of time.time(); 0: there was none.
    """

    placed: PlacedTopology
    uptime: float
    moment: float
    batches: int
    failed_attempts: int
    last_failure: str
    trees: TreeCounts
    transactions: TransactionTotals | None
    counts: Counter[CountKey]
    times: Times
    latencies: Latencies
    executors: Mapping[int, float]
    workers: Mapping[int, float]
    run_delays: Mapping[int, float]
    pending_trees: Mapping[int, int]
    pending_messages: Mapping[int, int]
    restored_tasks: Counter[str]
    errors: Mapping[str, Sequence[Mapping[str, Any]]]
    error_counts: Counter[str]
    header: Header | None
    state_bytes: int
    state_seconds: float
    commit_bytes: int
    tasks: npt.NDArray[np.float64]
    stages: Mapping[int, StageSeconds]
    processes: Mapping[int, Process]
    metrics: AuthorMetrics
    waits: Waits
    waiting: Sequence[Wait] = ()
    failures: Mapping[str, Mapping[str, FailureReason]] = field(default_factory=dict)
    resting: Mapping[int, Resting] = field(default_factory=dict)
    event_times: Mapping[str, ComponentTime] = field(default_factory=dict)
    wall: float = 0.0

    @staticmethod
    def of(totals: Totals) -> Snapshot:
        """Copy them. The driver waits for it if it has just finished a batch, so it is quick."""
        with totals.lock:
            now = totals.steady()
            return Snapshot(
                placed=totals.placed,
                uptime=now - totals.started,
                moment=now,
                batches=totals.batches,
                failed_attempts=totals.failed_attempts,
                last_failure=totals.last_failure,
                trees=copy(totals.trees),
                transactions=totals.transactions and totals.transactions.copy(),
                counts=totals.counts.copy(),
                times=totals.times.copy(),
                latencies=totals.latencies.copy(),
                executors=totals.executors.shares(now),
                # more than all of the time, if a batch is longer than what is looked at
                workers={w: min(1.0, x) for w, x in totals.workers.shares(now).items()},
                run_delays={w: min(1.0, x) for w, x in totals.run_delays.shares(now).items()},
                pending_trees=dict(totals.pending_trees),
                pending_messages=dict(totals.pending_messages),
                restored_tasks=totals.restored_tasks.copy(),
                errors={name: tuple(map(dict, errors)) for name, errors in totals.errors.items()},
                error_counts=totals.errors.counts.copy(),
                header=totals.header,
                state_bytes=totals.state_bytes,
                state_seconds=totals.state_seconds,
                commit_bytes=totals.commit_bytes,
                tasks=totals.tasks.copy(),
                stages=dict(totals.stages),
                processes=dict(totals.last_processes),
                metrics=totals.metrics.copy(),
                waits=totals.waits.copy(),
                waiting=waiting(totals),
                failures={
                    c: {k: copy(r) for k, r in of.items()} for c, of in totals.failures.items()
                },
                resting=dict(totals.resting),
                event_times=totals.event_times(),
                wall=totals.wall,
            )

    @property
    def name(self) -> str:
        """The topology's."""
        return self.placed.topology.name

    @property
    def components(self) -> Iterator[str]:
        """Spouts and bolts as they are declared, then `__acker` if there is one."""
        for component in self.placed.topology.spec.components:
            yield component.name
        if self.placed.acking:
            yield ACKER

    @property
    def spouts(self) -> Iterator[str]:
        """In the order of their declaration."""
        for spout in self.placed.topology.spec.spouts:
            yield spout.name

    @property
    def result_bolts(self) -> list[str]:
        """Bolts that have kept results, in the order of their declaration."""
        keep = {self.placed.plan.component_of(task) for task in self.pending_messages}
        return [b.name for b in self.placed.topology.spec.bolts if b.name in keep]

    def pending(self, component: str) -> int:
        """Messages of a spout, or results of a bolt, that are on their way."""
        tasks = self.placed.plan.tasks(component)
        return sum(self.pending_messages.get(task, 0) for task in tasks)

    @property
    def ackers(self) -> range:
        """The acker tasks."""
        return self.placed.ackers

    def streams(self) -> Iterator[tuple[str, str]]:
        """Each stream that is declared or was emitted on, as (component, stream)."""
        declared = [
            (component, stream)
            for component, streams in self.placed.streams.items()
            for stream in streams
        ]
        if self.placed.acking:
            declared += [(ACKER, stream) for stream in ACKER_OUTPUTS]
        emitted = [
            (component, stream)
            for component, what, stream in self.counts
            if what == EMITTED and not is_one_acker(component)
        ]
        yield from dict.fromkeys(declared + sorted(emitted))

    def inputs(self) -> Iterator[tuple[str, str]]:
        """Each input of a bolt that is declared or was received, as (bolt, `component:stream`).

        Those of `__acker` are streams without a component.
        """
        declared = [(s.target, f"{s.source}:{s.stream}") for s in self.placed.subscriptions]
        if self.placed.acking:
            declared += [(ACKER, stream) for stream in ACKER_INPUTS]
        executed = [
            (component, source)
            for component, what, source in self.counts
            if what == EXECUTED and not is_one_acker(component)
        ]
        yield from dict.fromkeys(declared + sorted(executed))

    @cached_property
    def sums(self) -> Counter[tuple[str, str]]:
        """(component, what) -> number, over all streams."""
        sums: Counter[tuple[str, str]] = Counter()
        for (component, what, _), n in self.counts.items():
            sums[component, what] += n
        return sums

    @cached_property
    def summed_times(self) -> Mapping[tuple[str, str], TimeHistogram]:
        """(component, what) -> histogram, over all inputs."""
        sums: defaultdict[tuple[str, str], TimeHistogram] = defaultdict(TimeHistogram)
        for (component, what, _), histogram in self.times.items():
            sums[component, what].merge(histogram)
        return sums

    @cached_property
    def executors_of(self) -> Mapping[str, Sequence[Executor]]:
        """The executors of each component."""
        found: defaultdict[str, list[Executor]] = defaultdict(list)
        for executor in self.placed.plan.executors:
            found[executor.component].append(executor)
        return found

    def capacity(self, component: str) -> float:
        """The highest of the component's executors."""
        return max(self.executors.get(e.first, 0.0) for e in self.executors_of[component])

    @property
    def holding(self) -> Mapping[str, Sequence[int]]:
        """The tasks that hold the spouts, by their component."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for task in sorted(self.waits.holds):
            found[self.placed.plan.component_of(task)].append(task)
        return found

    def lag(self, component: str) -> Lag | None:
        """How far the tasks of a spout are behind together; None: none of them has said."""
        return lag_of(self.waits.lags, self.placed.plan.tasks(component))

    def behind(self, component: str) -> float | None:
        """How many seconds a watermark is behind the time of day; None: it is not known."""
        at = self.event_times[component].watermark if component in self.event_times else None
        return None if at is None or not self.wall else self.wall - at / 1000

    def late(self, component: str) -> Mapping[str, int]:
        """How many tuples were late, or had no usable time, by reason; those of which some were."""
        ended = self.metrics.of_component(component).get(LATE_COUNTER, 0)
        ended = int(ended) if isinstance(ended, int | float) else 0  # else an author's histogram
        counts = {reason: self.counts[component, UNTIMED, reason] for reason in (UNUSABLE, AHEAD)}
        return {reason: n for reason, n in {**counts, ENDED: ended}.items() if n}

    def away_seconds(self, away: Away) -> float:
        """For how long a service has been away."""
        return max(0.0, self.moment - away.began)

    def slot_of(self, worker: int) -> int | None:
        """The worker's slot in its pod; None without pods, and of the driver."""
        process = self.processes.get(worker)
        if process is None or not process.pod or worker == DRIVER:
            return None
        return worker % self.placed.topology.spec.slots

    def permit(self, spout: str) -> int:
        """How many tuples all tasks of a spout might emit in the newest batch."""
        header = self.header
        if header is None or not header.active:
            return 0
        return sum(header.permit(task) for task in self.placed.plan.tasks(spout))


def source_and_stream(of: str) -> tuple[str, str]:
    """The two parts of `component:stream`. The source of an acker's messages is not known: ""."""
    source, colon, stream = of.partition(":")
    return (source, stream) if colon else ("", of)
