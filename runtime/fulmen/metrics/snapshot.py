"""The driver's counts at one moment between two batches. Made for each scrape."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fulmen.api.signals import Lag
from fulmen.engine.protocol.figures.statistics import (
    AHEAD,
    EMITTED,
    EXECUTED,
    PENDING_MESSAGES,
    PENDING_RESULTS,
    PENDING_TREES,
    STEP_FIGURES,
    STEP_ROWS,
    UNTIMED,
    UNUSABLE,
    Figure,
    Of,
    is_one_acker,
)
from fulmen.engine.totals.counted import Counted
from fulmen.engine.totals.derived_waits import waiting
from fulmen.engine.totals.event_time import ComponentTime
from fulmen.engine.totals.latencies import TimeHistogram
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.transaction_totals import AttemptOutcome
from fulmen.engine.totals.waits import Away, Wait, lag_of
from fulmen.plan import Executor
from fulmen.plan.model import DRIVER
from fulmen.topology.resource.spec import ACKER

ACKER_INPUTS = ("__ack_init", "__ack_ack", "__ack_fail", "__ack_reset_timeout")
ACKER_OUTPUTS = ("__ack_ack", "__ack_fail")
LATE_COUNTER, ENDED = "late", "ended"
"""The counter of what came after its windows had ended, as the classes of `fulmen.windows` name it,
and the name of that reason."""


@dataclass(kw_only=True)
class Snapshot(Counted):
    """Copies of a driver's totals, and what follows from them.

    Attributes:
        moment: Now, in seconds of the driver's steady clock.
        executors: First task of an executor -> its capacity, 0 to about 1.
        workers: Worker -> share of the last seconds that it was at work.
        run_delays: Worker -> share of them that it was ready to run, and had no processor.
    """

    moment: float
    executors: Mapping[int, float]
    workers: Mapping[int, float]
    run_delays: Mapping[int, float]

    @staticmethod
    def of(totals: Totals) -> Snapshot:
        """Copy them. The driver waits for it if it has just finished a batch, so it is quick."""
        with totals.lock:
            now = totals.steady()
            return Snapshot(
                **dict(totals.copied()),
                moment=now,
                executors=totals.executors.shares(now),
                # more than all of the time, if a batch is longer than what is looked at
                workers={w: min(1.0, x) for w, x in totals.workers.shares(now).items()},
                run_delays={w: min(1.0, x) for w, x in totals.run_delays.shares(now).items()},
            )

    @property
    def uptime(self) -> float:
        """Seconds since the driver started."""
        return self.moment - self.started

    def per_second(self, before: Snapshot, what: Callable[[Snapshot], float]) -> float:
        """The growth per second since another moment."""
        return (what(self) - what(before)) / max(self.moment - before.moment, 1e-9)

    @property
    def executed(self) -> int:
        """Tuples that bolts have executed, system bolts left out."""
        return sum(self.sums[bolt.name, EXECUTED] for bolt in self.placed.topology.spec.bolts)

    @property
    def committed(self) -> int:
        """Attempts of transactions that were committed."""
        ended = self.transactions
        return 0 if ended is None else ended.attempts[AttemptOutcome.COMMITTED]

    @property
    def name(self) -> str:
        """The topology's."""
        return self.placed.topology.name

    @cached_property
    def components(self) -> Sequence[str]:
        """Spouts and bolts as they are declared, then `__acker` if there is one."""
        names = [component.name for component in self.placed.topology.spec.components]
        return [*names, *([ACKER] if self.placed.acking else [])]

    @property
    def spouts(self) -> Sequence[str]:
        """Spouts in the order of their declaration."""
        return [spout.name for spout in self.placed.topology.spec.spouts]

    @cached_property
    def result_bolts(self) -> Sequence[str]:
        """Bolts that have kept results, in the order of their declaration."""
        tasks = (task for figure, task in self.levels if figure == PENDING_RESULTS)
        keep = set(map(self.placed.plan.component_of, tasks))
        return [b.name for b in self.placed.topology.spec.bolts if b.name in keep]

    def components_with(self, of: Of) -> Sequence[str]:
        """The components that have a figure."""
        match of:
            case Of.SPOUT:
                return self.spouts
            case Of.RESULT_BOLT:
                return self.result_bolts
            case Of.SOURCE:
                return [*self.spouts, *self.result_bolts]
            case Of.DECLARES_TIME:
                return list(self.placed.event_times)
            case Of.AUTHORS_COMPONENT:
                return [name for name in self.components if name != ACKER]
        return self.components

    def has(self, figure: Figure, component: str) -> bool:
        """Whether a component may have a figure."""
        if figure.of in (Of.INPUT, Of.INPUT_OR_TREES):
            return component not in self.placed.sources
        is_source = figure.of is Of.SOURCE and component in self.placed.sources
        return is_source or component in self.components_with(figure.of)

    def pending(self, component: str) -> int | None:
        """Messages of a spout, or results of a bolt, that are on their way; None: it has none."""
        if component in self.result_bolts:
            return self.level(PENDING_RESULTS, component)
        return self.level(PENDING_MESSAGES, component) if component in self.spouts else None

    def pending_of(self, task: int) -> int | None:
        """Messages, results or trees that a task has; None: it has none of its own."""
        figures = (PENDING_MESSAGES, PENDING_RESULTS, PENDING_TREES)
        return next((self.levels[of, task] for of in figures if (of, task) in self.levels), None)

    def level(self, figure: Figure, component: str) -> int:
        """Add up the last values that the tasks of a component have told."""
        tasks = self.placed.plan.tasks(component)
        return sum(self.levels.get((figure, task), 0) for task in tasks)

    @property
    def is_active(self) -> bool:
        """Whether spouts may emit."""
        return self.header is not None and self.header.active

    @property
    def ackers(self) -> range:
        """The acker tasks."""
        return self.placed.ackers

    @cached_property
    def streams(self) -> Sequence[tuple[str, str]]:
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
        return list(dict.fromkeys(declared + sorted(emitted)))

    @cached_property
    def inputs(self) -> Sequence[tuple[str, str]]:
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
        return list(dict.fromkeys(declared + sorted(executed)))

    @cached_property
    def steps(self) -> Sequence[tuple[str, str]]:
        """Each step of a pipeline that has run, as (component, step), as they follow each other."""
        return [(c, step) for c, what, step in self.counts if what == STEP_ROWS]

    def of_step(self, component: str, step: str) -> Mapping[str, int]:
        """What a step has counted, by the names of `STEP_FIGURES`."""
        return {name: self.counts[component, of, step] for name, of in STEP_FIGURES.items()}

    @cached_property
    def sums(self) -> Counter[tuple[str, str]]:
        """(component, what) -> number, over all streams; of a level, over all tasks."""
        sums: Counter[tuple[str, str]] = Counter()
        for (component, what, _), n in self.counts.items():
            sums[component, what] += n
        for (what, task), n in self.levels.items():
            sums[self.placed.plan.component_of(task), what] += n
        return sums

    @cached_property
    def summed_times(self) -> Mapping[tuple[str, str], TimeHistogram]:
        """(component, what) -> histogram, over all inputs."""
        sums: defaultdict[tuple[str, str], TimeHistogram] = defaultdict(TimeHistogram)
        for (component, what, _), histogram in self.times.items():
            sums[component, what].merge(histogram)
        return sums

    @cached_property
    def component_times(self) -> Mapping[str, ComponentTime]:
        """Event time of the components that have one, or timers."""
        return self.event_times()

    @cached_property
    def waiting(self) -> Sequence[Wait]:
        """All that holds up batches or spouts."""
        return waiting(self, self.moment)

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
        """Add up the lag of a spout's tasks; None: none of them has said it."""
        return lag_of(self.waits.lags, self.placed.plan.tasks(component))

    def behind(self, component: str) -> float | None:
        """Seconds that a watermark is behind the time of day; None: it is not known."""
        time = self.component_times.get(component)
        at = None if time is None else time.watermark
        return None if at is None or not self.wall else self.wall - at / 1000

    def late(self, component: str) -> Mapping[str, int]:
        """Count tuples that were late, or had no usable time, by reason, without zeros."""
        ended = self.metrics.of_component(component).get(LATE_COUNTER, 0)
        ended = int(ended) if isinstance(ended, int | float) else 0  # else an author's histogram
        counts = {reason: self.counts[component, UNTIMED, reason] for reason in (UNUSABLE, AHEAD)}
        return {reason: n for reason, n in {**counts, ENDED: ended}.items() if n}

    def away_seconds(self, away: Away) -> float:
        """Seconds since a service is away."""
        return max(0.0, self.moment - away.began)

    def slot_of(self, worker: int) -> int | None:
        """The worker's slot in its pod; None without pods, and of the driver."""
        process = self.processes.get(worker)
        if process is None or not process.pod or worker == DRIVER:
            return None
        return worker % self.placed.topology.spec.slots

    def permit(self, spout: str) -> int:
        """The number of tuples that all tasks of a spout might emit in the newest batch."""
        if self.header is None or not self.is_active:
            return 0
        return sum(map(self.header.permit, self.placed.plan.tasks(spout)))


def source_and_stream(of: str) -> tuple[str, str]:
    """The two parts of `component:stream`. The source of an acker's messages is not known: ""."""
    source, colon, stream = of.partition(":")
    return (source, stream) if colon else ("", of)
