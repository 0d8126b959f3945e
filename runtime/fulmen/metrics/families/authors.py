"""Metrics of authors, as Prometheus has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from fulmen.api.signals import Family, Value
from fulmen.engine.totals.author_metrics import cumulative
from fulmen.metrics.snapshot import Snapshot

PREFIX = "fulmen_user_"
"""The prefix of the names of authors' metrics."""


def author_families(now: Snapshot) -> Iterator[Metric]:
    """Yield all metrics of authors, by name."""
    for name in sorted(now.metrics.families):
        yield _author_family(now, now.metrics.families[name])


def _author_family(now: Snapshot, family: Family) -> Metric:
    name, labels = f"{PREFIX}{family.name}", ("topology", "component", "task", *family.labels)
    counter = CounterMetricFamily(name, family.help, labels=labels)
    gauge = GaugeMetricFamily(name, family.help, labels=labels)
    histogram = HistogramMetricFamily(name, family.help, labels=labels)
    for values, value in _series(now, family):
        if isinstance(value, tuple):
            buckets = [(bound, float(n)) for bound, n in cumulative(family, value)]
            histogram.add_metric(values, buckets, value[1])
        elif family.kind == "counter":
            counter.add_metric(values, value)
        else:
            gauge.add_metric(values, value)
    return {"counter": counter, "gauge": gauge, "histogram": histogram}[family.kind]


def _series(now: Snapshot, family: Family) -> Iterator[tuple[Sequence[str], Value]]:
    """The values of all labels, and the value. Tasks that are no more are left out."""
    tasks_of = now.placed.plan.component_tasks
    for component, index, own, value in now.metrics.of_tasks(family.name):
        tasks = tasks_of.get(component, range(0))
        if index < len(tasks):
            yield (now.name, component, str(tasks[index]), *own), value
