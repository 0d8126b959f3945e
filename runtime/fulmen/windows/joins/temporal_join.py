"""Joins events with a table as it was at their times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.windows.joins.join import LEFT, Join, Key, Row
from fulmen.windows.joins.options import TemporalJoinOptions

Version = tuple[int, Row]
"""From when on a row is valid, and the row."""
VERSIONS, ROWS = "versions", "rows"
GRID = 1000
"""Left rows whose times are in the same second are kept, and forgotten, together."""
EMIT, FORGET = "emit", "forget"
"""Begin the keys of timers."""


class TemporalJoin(Join):
    """Emits each left tuple with the right row that was valid at its time.

    That is the row with its key that has the latest time not after its own. A left tuple waits
    until the watermark is past its time. A right row is kept until the watermark is past one that
    follows it; the last one of each key is kept for good.

    A left tuple that is late goes to the stream `late`. A right row that is late counts for what
    comes after it, and changes nothing that was emitted; the metric `late` counts it.
    """

    # State: (ROWS, due, n) -> key, time and row of the left tuples of a batch that are forgotten at
    # `due`; (key, VERSIONS) -> the right rows by their times. Timers: (EMIT, at), which tells as
    # well that those of that time were not emitted yet; (FORGET, due); (key, VERSIONS).
    # Older checkpoints have (key, n) -> time and row of a left tuple, and a timer with that key.

    config_model = TemporalJoinOptions
    transient = (*Join.transient, "_waiting", "_brought", "_written", "_changed", "_next")

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        self._waiting: dict[int, list[tuple[Key, Row]]] = {}
        """The left tuples, by when they are emitted."""
        self._brought: dict[int, list[tuple[Key, int, Row]]] = {}
        self._written: dict[int, list[Any]] = {}
        """The keys of the state, by when they are forgotten."""
        self._changed: set[Key] = set()
        """The keys whose right rows have changed in this batch."""
        self._next = 0
        for place in sorted((p for p in self.state if p[0] == ROWS), key=lambda place: place[2]):
            _, due, n = place
            self._written.setdefault(due, []).append(place)
            self._next = n + 1
            for key, time, row in self.state[place]:
                if context.timers.get((EMIT, time + 1)) is not None:
                    self._waiting.setdefault(time + 1, []).append((key, row))

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        is_late = self.is_late(time)
        if side != LEFT:
            if is_late:
                self._late.inc()
            self._add_version(key, time, row)
            return True
        if is_late:
            return False
        timers, at = self._context.timers, time + 1
        waiting = self._waiting.get(at)
        if waiting is None:
            waiting = self._waiting[at] = []
            timers.set((EMIT, at), at)
        waiting.append((key, row))
        due = at + -at % GRID
        if due not in self._brought:
            self._brought[due] = []
            timers.set((FORGET, due), due)
        self._brought[due].append((key, time, row))
        return True

    def _add_version(self, key: Key, time: int, row: Row) -> None:
        versions: list[Version] | None = self.state.get((key, VERSIONS))
        if versions is None:
            versions = self.state[key, VERSIONS] = []
        at = bisect_left(versions, time, key=_time)
        is_there = at < len(versions) and versions[at][0] == time
        versions[at : at + is_there] = [(time, row)]
        self._changed.add(key)

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        watermark = self._context.batch.watermark
        for key in self._changed:
            self._keep(key, self.state[key, VERSIONS], watermark)
        self._changed = set()
        for due, rows in self._brought.items():
            place = ROWS, due, self._next
            self._next += 1
            self.state[place] = rows
            self._written.setdefault(due, []).append(place)
        self._brought = {}

    def _keep(self, key: Key, versions: list[Version], watermark: int | None) -> None:
        """Keep what is valid before the watermark and later.

        The timer is that of the row in the middle, so that thousands of rows, all of which event
        time passes at once, are forgotten in a few steps.
        """
        first = 0
        if watermark is not None:
            first = max(0, bisect_right(versions, watermark - 1, key=_time) - 1)
        versions = self.state[key, VERSIONS] = versions[first:]
        if len(versions) > 1:
            self._context.timers.set((key, VERSIONS), versions[len(versions) // 2][0] + 1)
        else:
            self._context.timers.cancel((key, VERSIONS))

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        what, of = key
        if of == VERSIONS:
            self._keep(what, self.state.get((what, VERSIONS), []), int(at))
        elif what == EMIT:
            for of_key, row in self._waiting.pop(of, ()):
                self._emit(of_key, of - 1, row, collector)
        elif what == FORGET:
            self._brought.pop(of, None)
            for place in self._written.pop(of, ()):
                del self.state[place]
        else:
            time, row = self.state.pop(key)
            self._emit(what, time, row, collector)

    def _emit(self, key: Key, time: int, row: Row, collector: BasicOutputCollector) -> None:
        """Emit a left row with the right one of its time."""
        versions: list[Version] = self.state.get((key, VERSIONS), [])
        found = bisect_right(versions, time, key=_time)
        if found:
            self.matched(LEFT, row, versions[found - 1][1], collector)
        else:
            self.unmatched(LEFT, key, row, collector)


def _time(version: Version) -> int:
    return version[0]
