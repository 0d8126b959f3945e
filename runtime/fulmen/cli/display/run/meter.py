"""Figures of a running topology at the moment, from the driver's counts. Nothing is shown here.

Rates and latencies are of the last seconds, sums since the start.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from fulmen.api import Stream
from fulmen.cli.display.run.transaction_lines import TransactionFigures
from fulmen.cli.display.run.wait_lines import WaitFigures
from fulmen.engine.protocol.figures.statistics import BATCH, EXECUTED, Figure, Of, Shown, shown
from fulmen.engine.totals.counted import TreeCounts
from fulmen.engine.totals.totals import Totals
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


class Meter:
    """Looks at what the driver counts whenever it is asked for figures."""

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
        self._none_yet = TransactionFigures() if topology.spec.transactional else None
        self._clock = clock
        self._lock = Lock()
        self._started = clock()
        self._totals: Totals | None = None
        self._looks: deque[Snapshot] = deque()

    def start(self, totals: Totals) -> None:
        """Count time from here: the first batch could begin now."""
        with self._lock:
            self._totals, self._started = totals, self._clock()
            self._looks = deque([Snapshot.of(totals)])

    def figures(self) -> Figures:
        """The figures of this moment. Rates are of the time since a look some seconds ago."""
        with self._lock:
            seconds = self._clock() - self._started
            if self._totals is None:
                return Figures(seconds, components=self._lines, transactions=self._none_yet)
            now, looks = Snapshot.of(self._totals), self._looks
            if now.moment - looks[-1].moment >= SAMPLE_SECONDS:
                looks.append(now)
            while len(looks) > 2 and now.moment - looks[1].moment > WINDOW_SECONDS:
                looks.popleft()
            before = looks[0]
            waits = WaitFigures.of(self._totals)
        return self._since(before, now, seconds, waits)

    def _since(
        self, before: Snapshot, now: Snapshot, seconds: float, waits: WaitFigures
    ) -> Figures:
        ran = now.times["", BATCH, "run"].since(before.times["", BATCH, "run"])
        latencies = now.latencies.since(before.latencies)
        transactions = self._none_yet
        if now.transactions is not None:
            committed = now.per_second(before, lambda look: look.committed)
            figures = TransactionFigures.of(now.transactions)
            transactions = replace(figures, committed_per_second=committed)
        return Figures(
            seconds=seconds,
            batches=now.batches,
            batch_millis=ran.millis,
            tuples_per_second=now.per_second(before, lambda look: look.executed),
            acked_per_second=now.per_second(before, lambda look: look.trees.acked),
            trees=now.trees,
            transactions=transactions,
            p50=latencies.quantile(0.5),
            p99=latencies.quantile(0.99),
            components=tuple(
                replace(line, executed_per_second=now.per_second(before, _executed_by(line.name)))
                for line in component_figures(now, self._lines)
            ),
            waits=waits,
        )


def _executed_by(component: str) -> Callable[[Snapshot], float]:
    return lambda look: look.sums[component, EXECUTED]


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
