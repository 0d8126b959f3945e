"""Event time as Prometheus metrics: watermarks, what holds them, timers, and what was late."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fulmen.engine.protocol.figures.statistics import AHEAD, UNTIMED, UNUSABLE
from fulmen.metrics.snapshot import Snapshot


def time_families(now: Snapshot) -> Iterator[Metric]:
    """How far event time has come, of each component that declares or receives it."""
    labels = ("topology", "component")
    text = "The component's watermark, in seconds since 1970."
    marks = GaugeMetricFamily("fulmen_watermark_timestamp_seconds", text, labels=labels)
    text = "How long the part that holds the component's watermark has had no tuple."
    silent = GaugeMetricFamily("fulmen_watermark_silent_seconds", text, labels=(*labels, "part"))
    timers = GaugeMetricFamily("fulmen_timers", "Timers that are set.", labels=labels)
    for name, found in now.event_times.items():
        if found.watermark is not None:
            marks.add_metric((now.name, name), found.watermark / 1000)
        held = found.held_by
        if held is not None and held.component == name and held.part is not None:
            silent.add_metric((now.name, name, held.part), held.silent_seconds)
        if name not in now.placed.sources:
            timers.add_metric((now.name, name), found.timers)
    yield from (marks, silent, timers)
    text = "Tuples that went to the late stream, as they have no usable event time, and why."
    untimed = CounterMetricFamily("fulmen_untimed", text, labels=(*labels, "reason"))
    for name in now.placed.event_times:
        for reason in (UNUSABLE, AHEAD):
            untimed.add_metric((now.name, name, reason), now.counts[name, UNTIMED, reason])
    yield untimed
