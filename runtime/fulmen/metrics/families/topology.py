"""The driver's figures as Prometheus metrics, read from its totals when they are scraped.

`docs/metrics.md` describes each of them; a test compares it with what is scraped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fulmen.engine.protocol.figures.statistics import FIGURES, Figure, FigureKind, Of
from fulmen.engine.totals.totals import Totals
from fulmen.metrics.families.authors import author_families
from fulmen.metrics.families.derived import INPUT, derived_families
from fulmen.metrics.snapshot import Snapshot, source_and_stream

Key = tuple[tuple[str, ...], str, str]
"""Values of labels, and of what in the totals they are: component and part."""


class TopologyCollector(Collector):
    """Makes the metrics of one topology. A scrape sees all of a batch or nothing of it."""

    def __init__(self, totals: Callable[[], Totals | None]) -> None:
        """`totals` gives those of the driver; None as long as it has not started."""
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        totals = self._totals()
        if totals is not None:
            yield from families(Snapshot.of(totals))

    def describe(self) -> Iterable[Metric]:
        """Give nothing: so that registering it asks for no scrape."""
        return ()


def families(now: Snapshot) -> Iterator[Metric]:
    """Every family, with the values of that moment."""
    for figure in FIGURES:
        if figure.help:
            yield _family(now, figure)
    yield from derived_families(now)
    yield from author_families(now)


def _family(now: Snapshot, figure: Figure) -> Metric:
    """The family of a figure that workers or the driver measure."""
    labels = ("topology", *_LABELS.get(figure.of, ("component",)))
    labels += (figure.label,) if figure.label else ()
    keys = [
        ((now.name, *values, *([part] if figure.label else [])), component, part or of)
        for values, component, of in _keys(now, figure.of)
        for part in (figure.parts if figure.of is not Of.STEP else [of])
    ]
    name = f"fulmen_{figure.metric}"
    match figure.kind:
        case FigureKind.SUM:
            counter = CounterMetricFamily(name, figure.help, labels=labels)
            for values, component, part in keys:
                counter.add_metric(values, now.counts[component, figure, part])
            return counter
        case FigureKind.LEVEL:
            gauge = GaugeMetricFamily(name, figure.help, labels=labels)
            for values, component, part in keys:
                level = now.levels.get((figure, int(part)), 0) if part else None
                gauge.add_metric(values, now.level(figure, component) if level is None else level)
            return gauge
        case FigureKind.TIMES:
            histogram = HistogramMetricFamily(f"{name}_seconds", figure.help, labels=labels)
            for values, component, part in keys:
                times = now.times[component, figure, part]
                histogram.add_metric(values, times.buckets(), times.seconds)
            return histogram


_LABELS = {
    Of.STREAM: ("component", "stream"),
    Of.INPUT: INPUT,
    Of.INPUT_OR_TREES: INPUT,
    Of.ACKER_TASK: ("task",),
    Of.TOPOLOGY: (),
}
"""All others have that of the component alone."""


def _keys(now: Snapshot, of: Of) -> Iterator[Key]:
    match of:
        case Of.STREAM:
            yield from (((c, stream), c, stream) for c, stream in now.streams)
        case Of.INPUT | Of.INPUT_OR_TREES:
            yield from (((c, *source_and_stream(of)), c, of) for c, of in now.inputs)
            if of is Of.INPUT_OR_TREES:
                yield from (((spout, "", ""), spout, "") for spout in now.spouts)
        case Of.STEP:
            yield from (((c,), c, step) for c, step in now.steps)
        case Of.ACKER_TASK:
            yield from (((str(task),), "", str(task)) for task in now.ackers)
        case Of.TOPOLOGY:
            yield (), "", ""
        case _:
            yield from (((name,), name, "") for name in now.components_with(of))
