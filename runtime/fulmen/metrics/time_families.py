"""Event time as Prometheus metrics: watermarks, and tuples without a usable time."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fulmen.engine.protocol.statistics import UNTIMED
from fulmen.metrics.snapshot import Snapshot


def time_families(now: Snapshot) -> Iterator[Metric]:
    """How far event time has come, of each component that declares or receives it."""
    text = "The component's watermark, in seconds since 1970."
    marks = GaugeMetricFamily(
        "fulmen_watermark_timestamp_seconds", text, labels=("topology", "component")
    )
    found = {name: source.watermark for name, source in now.watermarks.sources.items()}
    for name, at in {**now.watermarks.passed, **found}.items():
        if at is not None:
            marks.add_metric((now.name, name), at / 1000)
    yield marks
    text = "Tuples that went to the late stream, as they have no usable event time."
    untimed = CounterMetricFamily("fulmen_untimed", text, labels=("topology", "component"))
    for name, declared in now.placed.event_times.items():
        untimed.add_metric((now.name, name), now.counts[name, UNTIMED, declared.stream])
    yield untimed
