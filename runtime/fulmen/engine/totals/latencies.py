"""How long things took, and how busy executors were, as the driver adds it up. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from itertools import accumulate

from fulmen.engine.protocol.figures.statistics import (
    BOUNDS,
    EXECUTE,
    PROCESS,
    ChunkTimes,
    CountKey,
)

_PER_DECADE = 200


class Latencies:
    """A histogram of milliseconds in steps of about 1 %."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0

    def add(self, milliseconds: float, n: int = 1) -> None:
        """Count `n` events that took this long."""
        self._counts[round(_PER_DECADE * math.log10(max(milliseconds, 0.01)))] += n
        self.count += n

    def quantile(self, q: float) -> float | None:
        """The time that the share `q` of all events stayed within; None if there were none."""
        seen = 0
        for step in sorted(self._counts):
            seen += self._counts[step]
            if seen >= q * self.count:
                return round(10 ** (step / _PER_DECADE), 2)
        return None

    def since(self, earlier: Latencies) -> Latencies:
        """The events that were not counted `earlier` yet."""
        new = Latencies()
        new._counts = self._counts - earlier._counts
        new.count = self.count - earlier.count
        return new

    def copy(self) -> Latencies:
        """Copy it: the copy does not change with this."""
        same = Latencies()
        same._counts, same.count = self._counts.copy(), self.count
        return same


class TimeHistogram:
    """How many events took how long.

    Attributes:
        counts: Number of a bucket -> events. Bucket i ends at `BOUNDS[i]`; the last has no end.
        seconds: The seconds of all events together.
    """

    __slots__ = ("counts", "seconds")

    def __init__(self, counts: Mapping[int, int] | None = None, seconds: float = 0.0) -> None:
        self.counts = Counter(counts)
        self.seconds = seconds

    def add(self, each: float, n: int = 1) -> None:
        """Count `n` events that took `each` seconds."""
        if n:
            self.put(bisect_left(BOUNDS, each), n, each * n)

    def put(self, bucket: int, n: int, seconds: float) -> None:
        """Count `n` events of one bucket that took `seconds` together."""
        self.counts[bucket] += n
        self.seconds += seconds

    def merge(self, other: TimeHistogram) -> None:
        """Add the events of `other`."""
        self.counts.update(other.counts)
        self.seconds += other.seconds

    def copy(self) -> TimeHistogram:
        """Copy it: the copy does not change with this."""
        return TimeHistogram(self.counts, self.seconds)

    def since(self, earlier: TimeHistogram) -> TimeHistogram:
        """The events that were not counted `earlier` yet."""
        return TimeHistogram(self.counts - earlier.counts, self.seconds - earlier.seconds)

    @property
    def count(self) -> int:
        """How many events there were."""
        return self.counts.total()

    @property
    def millis(self) -> float | None:
        """Milliseconds of an event, in the mean; None if there were none."""
        return 1000 * self.seconds / self.count if self.counts else None

    def buckets(self) -> list[tuple[str, float]]:
        """Each bound, as Prometheus writes it, with the events that stayed within it."""
        bounds = [*map(str, BOUNDS), "+Inf"]
        counts = map(self.counts.__getitem__, range(len(bounds)))
        return list(zip(bounds, map(float, accumulate(counts)), strict=True))


class Times(dict[CountKey, TimeHistogram]):
    """Histograms by key, made as they are needed."""

    def __missing__(self, key: CountKey) -> TimeHistogram:
        histogram = self[key] = TimeHistogram()
        return histogram

    def add_chunks(self, times: ChunkTimes) -> None:
        """Add what a worker has sent."""
        for (component, source, bucket), numbers in times.items():
            executed, acked, execute_seconds, process_seconds = numbers
            if executed:
                self[component, EXECUTE, source].put(bucket, int(executed), execute_seconds)
            if acked:
                self[component, PROCESS, source].put(bucket, int(acked), process_seconds)

    def copy(self) -> Times:
        """Copy it: the copy does not change with this."""
        return Times((key, histogram.copy()) for key, histogram in self.items())


class RollingWindow:
    """Sums of the last so many seconds, by key: Storm's rolling buckets."""

    def __init__(self, seconds: float, parts: int, now: float) -> None:
        """Start at nothing.

        Args:
            seconds: How far it reaches back.
            parts: What is older is forgotten in so many steps.
            now: Seconds of any steady clock, as in all methods.
        """
        self._step = seconds / parts
        self._parts: deque[tuple[float, dict[int, float]]] = deque([(now, {})], parts)

    def add(self, amounts: Mapping[int, float], now: float) -> None:
        """Add to the sums."""
        self._forget(now)
        newest = self._parts[-1][1]
        for key, amount in amounts.items():
            newest[key] = newest.get(key, 0.0) + amount

    def _forget(self, now: float) -> None:
        start = self._parts[-1][0]
        steps = int((now - start) / self._step)
        for i in range(max(0, steps - (self._parts.maxlen or 0)), steps):
            self._parts.append((start + (i + 1) * self._step, {}))

    def shares(self, now: float) -> dict[int, float]:
        """The sum of each key, divided by the seconds that it is of."""
        self._forget(now)
        seconds = max(now - self._parts[0][0], 1e-9)
        sums: dict[int, float] = {}
        for _, part in self._parts:
            for key, amount in part.items():
                sums[key] = sums.get(key, 0.0) + amount
        return {key: amount / seconds for key, amount in sums.items()}
