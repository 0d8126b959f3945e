"""Latencies in fine steps, for quantiles."""

from __future__ import annotations

import math
from collections import Counter

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
        """One that does not change with this."""
        same = Latencies()
        same._counts, same.count = self._counts.copy(), self.count
        return same
