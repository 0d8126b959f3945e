"""Signals of a task's code to the engine, besides tuples: metrics, lag, backpressure.

All of it is part of the batch in which it is told. A batch that comes to nothing takes it along:
its tasks are made anew, and count again. Uses only `errors` and `marks`; used by the context, which
authors have, and by the engine, which takes what was told.
"""

from fulmen.api.signals.families import BUCKETS, MOST_SERIES, Family, differs, family_of, too_many
from fulmen.api.signals.metrics import Counter, Gauge, Histogram, Metric, Sample, Value
from fulmen.api.signals.task_signals import Lag, Signals, StepRows

__all__ = [
    "BUCKETS",
    "MOST_SERIES",
    "Counter",
    "Family",
    "Gauge",
    "Histogram",
    "Lag",
    "Metric",
    "Sample",
    "Signals",
    "StepRows",
    "Value",
    "differs",
    "family_of",
    "too_many",
]
