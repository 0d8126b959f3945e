"""The recent history of a topology: for rates, and for the page's charts.

There are points for each second, and coarser ones that reach further back. Of each step the same
number of points is kept, so memory does not grow with time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fulmen.engine.totals.totals import Totals
from fulmen.metrics.snapshot import Snapshot

POINTS_KEPT = 300
"""So many of each step."""
STEPS = (1, 12, 72, 288)
"""Looks from one point to the next. A look takes place each second, so points reach 5 minutes,
1 hour, 6 hours and 24 hours back."""
RATE_SECONDS = 10
"""Rates are means over so many seconds."""


@dataclass(frozen=True)
class HistoryPoint:
    """Rates and levels of one step.

    Attributes:
        number: Points of a step are numbered from 0.
        uptime: When it ended, in seconds since the driver started.
        executed: Tuples that bolts executed, per second.
        acked: Trees that were acked, per second.
        committed: Transactions that were committed, per second.
        failed: Trees that failed or timed out, per second.
        pending: Trees that were pending at its end.
        p50: Of the complete latency, in milliseconds; None if no tree was acked, and no transaction
            committed.
        p99: The same.
        behind: Component -> how many seconds its watermark was behind the time of day at its end.
    """

    number: int
    uptime: float
    executed: float
    acked: float
    committed: float
    failed: float
    pending: int
    p50: float | None
    p99: float | None
    behind: Mapping[str, float] = field(default_factory=dict)


class Series:
    """The last points of one step."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._looks = 0
        self._last: Snapshot | None = None
        self._number = 0
        self.points: deque[HistoryPoint] = deque(maxlen=POINTS_KEPT)

    def look(self, new: Snapshot) -> None:
        """Take notice of a look; the first one, and each that ends a step, is remembered."""
        if self._looks % self._step == 0:
            if self._last is not None:
                self.points.append(point(self._number, self._last, new))
                self._number += 1
            self._last = new
        self._looks += 1


class History:
    """Looks at the totals once a second, in a thread of its own, from `start` to `stop`."""

    def __init__(self, totals: Callable[[], Totals | None]) -> None:
        """`totals` gives those of the driver; None as long as it has not started."""
        self._totals = totals
        self._series = {step: Series(step) for step in STEPS}
        self._snapshots: deque[Snapshot] = deque(maxlen=RATE_SECONDS + 1)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fulmen-history", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        self.look()
        while not self._stopped.wait(1.0):
            self.look()

    def look(self) -> None:
        """Take a look, if the driver has started."""
        totals = self._totals()
        if totals is None:
            return
        new = Snapshot.of(totals)
        with self._lock:
            self._snapshots.append(new)
            for series in self._series.values():
                series.look(new)

    def before(self) -> Snapshot | None:
        """The look some seconds ago; None if there was none yet."""
        with self._lock:
            return self._snapshots[0] if self._snapshots else None

    def points(self, since: int, step: int = STEPS[0]) -> Sequence[HistoryPoint]:
        """The points that are kept, in their order.

        Args:
            since: The number of the first point that is wanted.
            step: One of `STEPS`.
        """
        with self._lock:
            return [point for point in self._series[step].points if point.number >= since]


def point(number: int, before: Snapshot, after: Snapshot) -> HistoryPoint:
    """The point between two snapshots."""
    latencies = after.latencies.since(before.latencies)
    behind = ((name, after.behind(name)) for name in after.component_times)
    return HistoryPoint(
        number=number,
        uptime=after.uptime,
        executed=after.per_second(before, lambda look: look.executed),
        acked=after.per_second(before, lambda look: look.trees.acked),
        committed=after.per_second(before, lambda look: look.committed),
        failed=after.per_second(before, lambda look: look.trees.failed + look.trees.timed_out),
        pending=after.trees.pending,
        p50=latencies.quantile(0.5),
        p99=latencies.quantile(0.99),
        behind={name: round(seconds, 1) for name, seconds in behind if seconds is not None},
    )
