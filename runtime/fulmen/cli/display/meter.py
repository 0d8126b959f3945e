"""What a running topology does at the moment, from what the driver counts. Nothing is shown here.

The driver's thread adds batches, another one asks for figures: both in little time, whatever the
topology's size. Rates and latencies are of the last seconds, sums since the start.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import numpy.typing as npt

from fulmen.api import Stream
from fulmen.engine.batches.coordinator import Done
from fulmen.engine.driver.totals import Totals
from fulmen.engine.protocol.statistics import ACKED, EMITTED, EXECUTED, FAILED
from fulmen.topology.resource.spec import ACKER, Topology

Streams = Mapping[str, Mapping[str, Stream]]
"""The output streams of each component, by name."""
WINDOW_SECONDS = 10.0
SAMPLE_SECONDS = 0.25
_SPAN_SECONDS = 1.0
_PER_DECADE = 200  # steps of a latency: some 1 % each
_LEAST_MILLIS = 0.01
_STEPS = 9 * _PER_DECADE  # up to 11 days


@dataclass(frozen=True)
class ComponentFigures:
    """One line of the table: numbers are of all tasks together.

    Attributes:
        emits: Whether it has streams to emit on.
        executes: Whether it receives tuples.
    """

    name: str
    tasks: int = 0
    emitted: int = 0
    executed: int = 0
    acked: int = 0
    failed: int = 0
    errors: int = 0
    executed_per_second: float = 0.0
    emits: bool = True
    executes: bool = True


@dataclass(frozen=True)
class Figures:
    """A topology at one moment.

    Attributes:
        seconds: Since the first batch could have begun.
        batches: That counted.
        batch_millis: The mean of the last ones; None if there were none.
        tuples_per_second: That bolts executed, system bolts left out.
        acked_per_second: Trees.
        acked: Trees, as the next three.
        p50: The median complete latency in milliseconds; None if no tree was acked lately.
        p99: The same.
        components: Spouts, bolts and `__acker`, in the topology's order.
    """

    seconds: float = 0.0
    batches: int = 0
    batch_millis: float | None = None
    tuples_per_second: float = 0.0
    acked_per_second: float = 0.0
    acked: int = 0
    failed: int = 0
    timed_out: int = 0
    pending: int = 0
    p50: float | None = None
    p99: float | None = None
    components: tuple[ComponentFigures, ...] = ()


@dataclass(frozen=True)
class _Sample:
    """Sums at one moment."""

    at: float
    batches: int = 0
    busy_seconds: float = 0.0
    acked: int = 0
    executed: Mapping[str, int] = field(default_factory=dict)


class RecentLatencies:
    """How long trees took that ended in the last seconds: a histogram for each second."""

    def __init__(self) -> None:
        self._spans: deque[tuple[float, npt.NDArray[np.int64]]] = deque()

    def add(self, born: Sequence[tuple[float, int, int]], wall_clock: float, now: float) -> None:
        """Count trees that ended now.

        Args:
            born: As in a `Summary`: when they began in wall clock time, and how many.
            wall_clock: That time now.
            now: The steady time.
        """
        if not self._spans or now - self._spans[-1][0] >= _SPAN_SECONDS:
            self._spans.append((now, np.zeros(_STEPS, np.int64)))
            self._forget(now)
        table = np.array(born, np.float64)
        millis = np.maximum((wall_clock - table[:, 0]) * 1000, _LEAST_MILLIS)
        steps = np.rint(_PER_DECADE * np.log10(millis / _LEAST_MILLIS)).astype(np.int64)
        np.add.at(self._spans[-1][1], np.minimum(steps, _STEPS - 1), table[:, 1].astype(np.int64))

    def quantiles(self, now: float, *shares: float) -> list[float | None]:
        """The milliseconds that each of these shares of all trees stayed within."""
        self._forget(now)
        if not self._spans:
            return [None] * len(shares)
        seen = np.cumsum(sum(counts for _, counts in self._spans))
        steps = [int(np.searchsorted(seen, share * seen[-1])) for share in shares]
        return [_LEAST_MILLIS * 10 ** (step / _PER_DECADE) for step in steps]

    def _forget(self, now: float) -> None:
        while self._spans and now - self._spans[0][0] > WINDOW_SECONDS:
            self._spans.popleft()


class Meter:
    """Takes figures of batches, and gives those of the moment."""

    def __init__(
        self, topology: Topology, clock: Callable[[], float], streams: Streams | None = None
    ) -> None:
        """Start at nothing.

        Args:
            topology: The topology whose components are listed.
            clock: Steady, in seconds.
            streams: The output streams of each component, if known.
        """
        self._lines = lines_of(topology, streams)
        self._bolts = [bolt.name for bolt in topology.spec.bolts]
        self._clock = clock
        self._lock = Lock()
        self._busy_seconds = 0.0
        self._latencies = RecentLatencies()
        self._latest: tuple[ComponentFigures, ...] = ()
        self._trees = (0, 0, 0, 0)
        self._batches = 0
        self.start()

    def start(self) -> None:
        """The first batch could begin now: time counts from here."""
        with self._lock:
            self._started = self._clock()
            self._samples = deque([_Sample(self._started)])
            self._latest = self._lines

    def batch(self, totals: Totals, done: Done, wall_clock: float) -> None:
        """A batch counted.

        Args:
            totals: The totals of all batches, this one included.
            done: This one.
            wall_clock: When it was committed, in seconds as time.time() gives them.
        """
        now = self._clock()
        born = [pair for summary in done.summaries for pair in summary.born]
        with self._lock:
            self._busy_seconds += done.seconds
            self._batches = totals.batches
            trees = totals.trees
            self._trees = trees.acked, trees.failed, trees.timed_out, trees.pending
            if born:
                self._latencies.add(born, wall_clock, now)
            if now - self._samples[-1].at >= SAMPLE_SECONDS:
                self._sample(totals, now)

    def finish(self, totals: Totals) -> None:
        """No batch will come: the figures are the last ones."""
        with self._lock:
            self._sample(totals, self._clock())

    def _sample(self, totals: Totals, now: float) -> None:
        sums = sums_by_component(totals)
        executed = {line.name: sums[line.name, EXECUTED] for line in self._lines}
        self._samples.append(
            _Sample(now, totals.batches, self._busy_seconds, totals.trees.acked, executed)
        )
        while len(self._samples) > 2 and now - self._samples[1].at > WINDOW_SECONDS:
            self._samples.popleft()
        self._latest = component_figures(totals, self._lines, sums)

    def figures(self) -> Figures:
        """Those of the moment."""
        with self._lock:
            now = self._clock()
            first, last = self._samples[0], self._samples[-1]
            seconds = max(now - first.at, 1e-9)
            rates = {
                name: (n - first.executed.get(name, 0)) / seconds
                for name, n in last.executed.items()
            }
            batches = last.batches - first.batches
            millis = 1000 * (last.busy_seconds - first.busy_seconds) / batches if batches else None
            acked, failed, timed_out, pending = self._trees
            p50, p99 = self._latencies.quantiles(now, 0.5, 0.99)
            return Figures(
                seconds=now - self._started,
                batches=self._batches,
                batch_millis=millis,
                tuples_per_second=sum(rates.get(name, 0) for name in self._bolts),
                acked_per_second=(last.acked - first.acked) / seconds,
                acked=acked,
                failed=failed,
                timed_out=timed_out,
                pending=pending,
                p50=p50,
                p99=p99,
                components=tuple(
                    _with_rate(component, rates.get(component.name, 0.0))
                    for component in self._latest
                ),
            )


def sums_by_component(totals: Totals) -> Counter[tuple[str, str]]:
    """(component, what) -> number, over all streams; counted in one pass."""
    sums: Counter[tuple[str, str]] = Counter()
    for (component, what, _), n in totals.counts.items():
        sums[component, what] += n
    return sums


def lines_of(topology: Topology, streams: Streams | None) -> tuple[ComponentFigures, ...]:
    """The lines of the table, with nothing counted yet."""
    spec = topology.spec
    spouts = [ComponentFigures(s.name, s.tasks, executes=False) for s in spec.spouts]
    bolts = [
        ComponentFigures(b.name, b.tasks, emits=streams is None or bool(streams.get(b.name)))
        for b in spec.bolts
    ]
    ackers = [ComponentFigures(ACKER, spec.acker_tasks)] if spec.acker_tasks else []
    return (*spouts, *bolts, *ackers)


def component_figures(
    totals: Totals,
    lines: Sequence[ComponentFigures],
    sums: Mapping[tuple[str, str], int],
) -> tuple[ComponentFigures, ...]:
    """The lines of the table, without rates."""
    return tuple(
        replace(
            line,
            emitted=sums[line.name, EMITTED],
            executed=sums[line.name, EXECUTED],
            acked=sums[line.name, ACKED],
            failed=sums[line.name, FAILED],
            errors=totals.error_counts[line.name],
        )
        for line in lines
    )


def _with_rate(component: ComponentFigures, rate: float) -> ComponentFigures:
    return replace(component, executed_per_second=rate)
