"""The last minutes of a topology, a point for each second: for rates, and for the page's charts."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fulmen.engine.driver.totals import Totals
from fulmen.engine.protocol.statistics import EXECUTED
from fulmen.metrics.snapshot import Snapshot

SECONDS_KEPT = 300
RATE_SECONDS = 10
"""Rates are means over so many seconds."""


@dataclass(frozen=True)
class Point:
    """One second.

    Attributes:
        number: Points are numbered from 0.
        uptime: When it ended, in seconds since the driver started.
        executed: Tuples that bolts executed, per second.
        acked: Trees that were acked, per second.
        failed: Trees that failed or timed out, per second.
        pending: Trees that were pending at its end.
        p50: Of the complete latency, in milliseconds; None if no tree was acked.
        p99: The same.
    """

    number: int
    uptime: float
    executed: float
    acked: float
    failed: float
    pending: int
    p50: float | None
    p99: float | None


class History:
    """Looks at the totals once a second, in a thread of its own, from `start` to `stop`."""

    def __init__(self, totals: Callable[[], Totals | None], interval: float = 1.0) -> None:
        """`totals` gives those of the driver; None as long as it has not started."""
        self._totals = totals
        self._interval = interval
        self._points: deque[Point] = deque(maxlen=SECONDS_KEPT)
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
        while not self._stopped.wait(self._interval):
            self.look()

    def look(self) -> None:
        """Add a point, if the driver has started."""
        totals = self._totals()
        if totals is None:
            return
        new = Snapshot.of(totals)
        with self._lock:
            if self._snapshots:
                number = self._points[-1].number + 1 if self._points else 0
                self._points.append(point(number, self._snapshots[-1], new))
            self._snapshots.append(new)

    def before(self) -> Snapshot | None:
        """The look some seconds ago; None if there was none yet."""
        with self._lock:
            return self._snapshots[0] if self._snapshots else None

    def points(self, since: int) -> Sequence[Point]:
        """Those from number `since` on that are kept, in their order."""
        with self._lock:
            return [point for point in self._points if point.number >= since]


def point(number: int, before: Snapshot, after: Snapshot) -> Point:
    """What happened from one look to the next."""
    seconds = max(after.uptime - before.uptime, 1e-9)
    latencies = after.latencies.since(before.latencies)
    return Point(
        number=number,
        uptime=after.uptime,
        executed=(_executed(after) - _executed(before)) / seconds,
        acked=(after.trees.acked - before.trees.acked) / seconds,
        failed=(_failed(after) - _failed(before)) / seconds,
        pending=after.trees.pending,
        p50=latencies.quantile(0.5),
        p99=latencies.quantile(0.99),
    )


def _executed(now: Snapshot) -> int:
    """By bolts, system bolts left out."""
    return sum(now.sums[bolt.name, EXECUTED] for bolt in now.placed.topology.spec.bolts)


def _failed(now: Snapshot) -> int:
    return now.trees.failed + now.trees.timed_out
