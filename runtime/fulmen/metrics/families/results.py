"""Results as Prometheus metrics: what bolts emit by themselves, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fulmen.engine.protocol.figures.statistics import RESULTS_ACKED, RESULTS_FAILED, TIMED_OUT
from fulmen.engine.totals.failures import resting_by_component
from fulmen.metrics.snapshot import Snapshot

_LABELS = ("topology", "component")


def result_families(now: Snapshot) -> Iterator[Metric]:
    """Of each bolt that has kept results: how their trees ended, and how many are left."""
    text = "Tuple trees of results that have ended, and how: a result that failed has another one."
    ended = CounterMetricFamily("fulmen_result_trees", text, labels=(*_LABELS, "outcome"))
    text = "Results that are not acked or failed, or that the bolt's task was not told of yet."
    pending = GaugeMetricFamily("fulmen_result_pending", text, labels=_LABELS)
    text = "Results that have failed and come again after a pause."
    resting = GaugeMetricFamily("fulmen_result_resting", text, labels=_LABELS)
    rests = resting_by_component(now.resting, now.placed.plan)
    for bolt in now.result_bolts:
        late = now.counts[bolt, TIMED_OUT, ""]
        for outcome, n in (
            ("acked", now.counts[bolt, RESULTS_ACKED, ""]),
            ("failed", now.counts[bolt, RESULTS_FAILED, ""] - late),
            ("timed_out", late),
        ):
            ended.add_metric((now.name, bolt, outcome), n)
        pending.add_metric((now.name, bolt), now.pending(bolt))
        resting.add_metric((now.name, bolt), rests[bolt].messages if bolt in rests else 0)
    if now.result_bolts:
        yield from (ended, pending, resting)
