"""Counters, gauges and histograms of an author's: one series of one task each."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

from typing_extensions import override

from fulmen.api.signals.families import Family, Kind
from fulmen.errors import MetricError

Value = float | tuple[tuple[int, ...], float]
"""An increment, the value of a gauge, or of a histogram: new events by bucket, and their sum."""


class Sample(NamedTuple):
    """The change of one series by one task.

    Attributes:
        family: Its metric.
        labels: The values of its labels, in the order of `Family.labels`.
        value: What is added; of a gauge, what it is now.
    """

    family: Family
    labels: tuple[str, ...]
    value: Value


class Metric(ABC):
    """One series of one task. Any thread may use it.

    Keep it in a field. The field is not durable: what was counted is with the driver already.
    """

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        self._family = family
        self._labels = labels
        self._lock = threading.Lock()

    @property
    def series(self) -> tuple[Family, tuple[str, ...]]:
        """Its metric, and the values of its labels."""
        return self._family, self._labels

    def __repr__(self) -> str:
        return f"<{self._family.kind} {self._family.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"metric {self._family.name!r} can't be pickled: keep it in a field of the component"
        )

    def _number(self, value: float) -> float:
        if not math.isfinite(value):
            raise MetricError(f"metric {self._family.name!r}: {value!r} is not a finite number")
        return value if type(value) is int else float(value)  # NumPy has numbers of its own

    @abstractmethod
    def take(self) -> Value | None:
        """Take what is new since the last call; None: nothing."""


class Counter(Metric):
    """Counts events. Each is counted once, however often its batch is run."""

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        super().__init__(family, labels)
        self._amount: float = 0

    def inc(self, amount: float = 1) -> None:
        """Count `amount` more.

        Raises:
            MetricError: It is negative, or not finite.
        """
        amount = self._number(amount)
        if amount < 0:
            raise MetricError(
                f"counter {self._family.name!r} can't be lowered by {-amount!r}: use a gauge"
            )
        with self._lock:
            self._amount += amount

    @override
    def take(self) -> Value | None:
        with self._lock:
            amount, self._amount = self._amount, 0
        return amount or None


class Gauge(Metric):
    """A value that rises and falls, such as the length of a buffer."""

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        super().__init__(family, labels)
        self._value: float | None = None

    def set(self, value: float) -> None:
        """Say what it is now. After its process was lost, the old value stays until the next call.

        Raises:
            MetricError: It is not finite.
        """
        value = self._number(value)
        with self._lock:
            self._value = value

    @override
    def take(self) -> Value | None:
        with self._lock:
            value, self._value = self._value, None
        return value


class Histogram(Metric):
    """How often values were within which bounds, such as the seconds or bytes of a request."""

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        super().__init__(family, labels)
        self._clear()

    def _clear(self) -> None:
        self._counts = [0] * (len(self._family.buckets) + 1)
        self._sum = 0.0
        self._is_new = False

    def observe(self, value: float) -> None:
        """Count one event with that value.

        Raises:
            MetricError: It is not finite.
        """
        value = self._number(value)
        bucket = bisect_left(self._family.buckets, value)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += value
            self._is_new = True

    @override
    def take(self) -> Value | None:
        with self._lock:
            if not self._is_new:
                return None
            taken = tuple(self._counts), self._sum
            self._clear()
        return taken


KINDS: Mapping[Kind, type[Metric]] = {
    "counter": Counter,
    "gauge": Gauge,
    "histogram": Histogram,
}
