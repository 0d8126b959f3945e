"""What a running topology does at the moment, from what the driver counts. Nothing is shown here.

The driver's thread adds batches, another one asks for figures: both in little time, whatever the
topology's size. Rates and latencies are of the last seconds, sums since the start.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from fulmen.api import Stream
from fulmen.cli.display.run.transaction_lines import TransactionFigures
from fulmen.cli.display.run.wait_lines import WaitFigures
from fulmen.engine.batches.done import Done
from fulmen.engine.protocol.figures.statistics import EXECUTED, Figure, Of, Shown, shown
from fulmen.engine.totals.counted import TreeCounts
from fulmen.engine.totals.latencies import Latencies
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.transaction_totals import AttemptOutcome
from fulmen.metrics.snapshot import Snapshot
from fulmen.topology.resource.spec import ACKER, Topology

Streams = Mapping[str, Mapping[str, Stream]]
"""The output streams of each component, by name."""
WINDOW_SECONDS = 10.0
SAMPLE_SECONDS = 0.25


@dataclass(frozen=True)
class ComponentFigures:
    """One line of the table: numbers are of all tasks together.

    Attributes:
        emits: Whether it has streams to emit on.
        executes: Whether it receives tuples.
    """

    name: str
    tasks: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    executed_per_second: float = 0.0
    emits: bool = True
    executes: bool = True

    def has(self, figure: Figure) -> bool:
        """Whether it can have a figure."""
        return {Of.STREAM: self.emits, Of.INPUT: self.executes}.get(figure.of, True)


@dataclass(frozen=True)
class Figures:
    """A topology at one moment.

    Attributes:
        seconds: Since the first batch could have begun.
        batches: That counted.
        batch_millis: The mean of the last ones; None if there were none.
        tuples_per_second: That bolts executed, system bolts left out.
        acked_per_second: Trees.
        trees: How they ended.
        transactions: In a transactional topology, which has no trees.
        p50: The median complete latency in milliseconds; None if no tree was acked lately, and no
            transaction committed.
        p99: The same.
        components: Spouts, bolts and `__acker`, in the topology's order.
        waits: What the topology waits for.
    """

    seconds: float = 0.0
    batches: int = 0
    batch_millis: float | None = None
    tuples_per_second: float = 0.0
    acked_per_second: float = 0.0
    trees: TreeCounts = field(default_factory=TreeCounts)
    transactions: TransactionFigures | None = None
    p50: float | None = None
    p99: float | None = None
    components: tuple[ComponentFigures, ...] = ()
    waits: WaitFigures = field(default_factory=WaitFigures)


@dataclass(frozen=True)
class _Sample:
    """What was counted at one moment; None: nothing yet."""

    at: float
    busy_seconds: float = 0.0
    counted: Snapshot | None = None


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
        self._trees = TreeCounts()
        self._transactions = TransactionFigures() if topology.spec.transactional else None
        self._batches = 0
        self.start()

    def start(self, totals: Totals | None = None) -> None:
        """The first batch could begin now: time counts from here.

        Args:
            totals: What the driver counts, to be asked what the topology waits for.
        """
        with self._lock:
            self._totals = totals
            self._started = self._clock()
            self._samples = deque([_Sample(self._started)])

    def batch(self, totals: Totals, done: Done) -> None:
        """A batch counted.

        Args:
            totals: The totals of all batches, this one included.
            done: This one.
        """
        now = self._clock()
        with self._lock:
            self._busy_seconds += done.seconds
            self._batches, self._trees = totals.batches, totals.trees
            if totals.transactions is not None:
                self._transactions = TransactionFigures.of(totals.transactions)
            if now - self._samples[-1].at >= SAMPLE_SECONDS:
                self._samples.append(_Sample(now, self._busy_seconds, Snapshot.of(totals)))
                while len(self._samples) > 2 and now - self._samples[1].at > WINDOW_SECONDS:
                    self._samples.popleft()

    def figures(self) -> Figures:
        """The figures of this moment."""
        with self._lock:
            now, started = self._clock(), self._started
            first, last = self._samples[0], self._samples[-1]
            batches, trees, transactions = self._batches, self._trees, self._transactions
            totals = self._totals
        figures = Figures(
            seconds=now - started,
            batches=batches,
            trees=trees,
            transactions=transactions,
            components=self._lines,
            waits=WaitFigures() if totals is None else WaitFigures.of(totals),
        )
        if last.counted is None:
            return figures
        return self._with_rates(figures, first, last, last.counted, now)

    def _with_rates(
        self, figures: Figures, first: _Sample, last: _Sample, counted: Snapshot, now: float
    ) -> Figures:
        """The figures, with those of the time since the first sample, and of each component."""
        seconds, before = max(now - first.at, 1e-9), first.counted
        executed_before = before.sums if before else Counter[tuple[str, str]]()
        rates = {
            line.name: (counted.sums[line.name, EXECUTED] - executed_before[line.name, EXECUTED])
            / seconds
            for line in self._lines
        }
        batches = counted.batches - (before.batches if before else 0)
        millis = 1000 * (last.busy_seconds - first.busy_seconds) / batches if batches else None
        latencies = counted.latencies.since(before.latencies if before else Latencies())
        if now - last.at > WINDOW_SECONDS:  # nothing has ended since
            latencies = Latencies()
        return replace(
            figures,
            batch_millis=millis,
            tuples_per_second=sum(rates[name] for name in self._bolts),
            acked_per_second=(counted.trees.acked - (before.trees.acked if before else 0))
            / seconds,
            transactions=_with_rate(figures.transactions, counted, before, seconds),
            p50=latencies.quantile(0.5),
            p99=latencies.quantile(0.99),
            components=tuple(
                replace(line, executed_per_second=rates[line.name])
                for line in component_figures(counted, self._lines)
            ),
        )


def _with_rate(
    figures: TransactionFigures | None, counted: Snapshot, before: Snapshot | None, seconds: float
) -> TransactionFigures | None:
    """The figures of transactions, with the rate of commits."""
    if figures is None:
        return None
    committed, earlier = (
        s.transactions.attempts[AttemptOutcome.COMMITTED] if s and s.transactions else 0
        for s in (counted, before)
    )
    return replace(figures, committed_per_second=(committed - earlier) / seconds)


def lines_of(topology: Topology, streams: Streams | None) -> tuple[ComponentFigures, ...]:
    """The lines of the table, with nothing counted yet."""
    spec = topology.spec
    spouts = [ComponentFigures(s.name, s.tasks, executes=False) for s in spec.sources]
    bolts = [
        ComponentFigures(b.name, b.tasks, emits=streams is None or bool(streams.get(b.name)))
        for b in spec.bolts
    ]
    ackers = [ComponentFigures(ACKER, spec.acker_tasks)] if spec.acker_tasks else []
    return (*spouts, *bolts, *ackers)


def component_figures(
    counted: Snapshot, lines: Sequence[ComponentFigures]
) -> tuple[ComponentFigures, ...]:
    """The lines of the table, without rates."""
    return tuple(
        replace(
            line,
            counts={f: counted.sums[line.name, f] for figures in shown(Shown.RUN) for f in figures},
        )
        for line in lines
    )
