"""Joins what is so much earlier or later."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.windows.joins.join import LEFT, RIGHT, Join, Key, Row
from fulmen.windows.joins.options import (
    IntervalJoinOptions,
    JoinOptions,
    signed_milliseconds,
)
from fulmen.windows.joins.row_log import RowGroup, RowLog

ROWS, MATCHED = "rows", "matched"
"""Begin the keys of the state."""
FORGET, ALONE = "forget", "alone"
"""Begin the keys of timers."""
LEAST_GRID = 1000
PARTS = 16
"""A row stays for so much of the time that it may be matched longer than it has to, or for
`LEAST_GRID` milliseconds: so rows can be forgotten together."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A row that may still be matched.

    Attributes:
        key: The key.
        time: The event time.
        number: A number of its own.
        row: The values to emit.
        has_ended: Whether it has had a match, or was emitted without one.
        due: The watermark at which it is forgotten.
    """

    key: Key
    time: int
    number: int
    row: Row
    has_ended: bool
    due: int


@dataclass(eq=False, slots=True)
class RowBucket(RowGroup):
    """Rows of a side that are forgotten together.

    Attributes:
        rows: All of them.
        ended: The numbers of those of earlier batches that have ended in this one.
    """

    rows: list[Waiting] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)


OfKey = tuple[list[tuple[int, int, Waiting]], list[tuple[int, int, Waiting]]]
"""Time, number and row, by their times, of the left and of the right side."""


class IntervalJoin(Join):
    """Emits each pair with equal keys and `left + lower <= right <= left + upper`, at once.

    A row is forgotten when no match of it can come any more, also none that is late, but for no
    more than `allowedLateness`. With `type` left, right or full, one that has had none is emitted
    then.
    """

    # State: (ROWS, side, due, n) -> what a batch has brought of a side that is forgotten at the
    # time `due`; (MATCHED, side, due, n) -> numbers of such rows that have had a match since then.
    # Memory: the same by key. Timers: (FORGET, side, due); (ALONE, side, time), when rows that
    # have had no match by then are emitted.

    config_model = IntervalJoinOptions
    transient = (
        *Join.transient,
        "_within",
        "_grids",
        "_log",
        "_by_key",
        "_buckets",
        "_alone",
        "_next",
        "_first",
    )

    @override
    def needs_event_time(self, options: JoinOptions) -> str | Warning | None:
        if super().needs_event_time(options) is None:
            return None
        return (
            "no row without a match is emitted"
            if any(options.outer)
            else Warning("no row is forgotten")
        )

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: IntervalJoinOptions = context.options
        lower, upper = signed_milliseconds(options.lower), signed_milliseconds(options.upper)
        self._within = (lower, upper), (-upper, -lower)
        self._grids = [max(LEAST_GRID, last // PARTS) for _, last in self._within]
        self._log = RowLog(self.state)
        self._by_key: dict[Key, OfKey] = {}
        self._buckets: dict[tuple[int, int], RowBucket] = {}
        self._alone: dict[tuple[int, int], list[Waiting]] = {}
        self._next = 0  # number of a row
        self._restore()
        self._first = self._next  # of those that are of this batch

    def _restore(self) -> None:
        ended = {
            number
            for place, numbers in self.state.items()
            if place[0] == MATCHED
            for number in numbers
        }
        for place, (what, side, due), value in self._log.restored(ROWS, MATCHED):
            bucket = self._buckets.setdefault((side, due), RowBucket((ROWS, side, due)))
            bucket.written.append(place)
            for number, key, time, row, has_ended in value if what == ROWS else ():
                one = Waiting(key, time, number, row, has_ended or number in ended, due)
                bucket.rows.append(one)
                self._keep(side, one)
                self._emit_alone_later(side, one)

    def _keep(self, side: int, one: Waiting) -> None:
        """Have a row in memory."""
        insort(self._by_key.setdefault(one.key, ([], []))[side], (one.time, one.number, one))
        self._next = max(self._next, one.number + 1)

    def _emit_alone_later(self, side: int, one: Waiting) -> None:
        """Have a row emitted that will have had no match, if that is wanted."""
        if not self._outer[side] or one.has_ended:
            return
        at = self._over(side, one.time)
        some = self._alone.setdefault((side, at), [])
        if not some:
            self._context.timers.set((ALONE, side, at), at)
        some.append(one)

    def _over(self, side: int, time: int) -> int:
        """The watermark from which on no match can come any more."""
        return time + self._within[side][1] + 1 + self._clock.lateness

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        if self.is_late(time):
            return False
        first, last = (time + shift for shift in self._within[side])
        others = self._by_key[key][1 - side] if key in self._by_key else []
        matches = others[bisect_left(others, (first,)) : bisect_left(others, (last + 1,))]
        for _, _, other in matches:
            self.matched(side, row, other.row, collector)
            if not other.has_ended and self._outer[1 - side]:
                self._end(1 - side, other)
        if self.is_late(last):  # no match of it can come
            if not matches:
                self.unmatched(side, key, row, collector)
            return True
        over = self._over(side, time)
        due = over + -over % self._grids[side]
        one = Waiting(key, time, self._next, row, bool(matches), due)
        self._keep(side, one)
        self._emit_alone_later(side, one)
        bucket = self._buckets.get((side, due))
        if bucket is None:
            bucket = self._buckets[side, due] = RowBucket((ROWS, side, due))
            self._context.timers.set((FORGET, side, due), due)
        bucket.rows.append(one)
        self._log.add(bucket, one)
        return True

    def _end(self, side: int, one: Waiting) -> None:
        """A row need not be emitted without a match any more."""
        one.has_ended = True
        if one.number < self._first:
            self._buckets[side, one.due].ended.append(one.number)

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        for (side, due), bucket in self._buckets.items():
            bucket.brought = [(o.number, o.key, o.time, o.row, o.has_ended) for o in bucket.brought]
            if bucket.ended:
                self._log.write(bucket, (MATCHED, side, due), bucket.ended)
                bucket.ended = []
        self._log.end_batch()
        self._first = self._next

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        what, side, time = key
        if what == ALONE:
            rows = self._alone.pop((side, time), [])
            self._emit_alone(side, rows, collector)
            return
        over = max(self._over(side, one.time) for one in self._buckets[side, time].rows)
        if over > at:  # `allowedLateness` was shorter when the timer was set
            self._context.timers.set(key, over)
        else:
            self._forget(side, time, collector)

    def _emit_alone(self, side: int, rows: list[Waiting], collector: BasicOutputCollector) -> None:
        for one in rows:
            if not one.has_ended:
                self.unmatched(side, one.key, one.row, collector)
                self._end(side, one)

    def _forget(self, side: int, due: int, collector: BasicOutputCollector) -> None:
        bucket = self._buckets[side, due]
        self._emit_alone(side, bucket.rows, collector)
        self._log.forget(self._buckets.pop((side, due)))
        self._take_out(side, {one.key for one in bucket.rows}, set(map(id, bucket.rows)))

    def _take_out(self, side: int, keys: set[Key], rows: set[int]) -> None:
        """Forget rows of a side in memory: those with these identities, which have these keys."""
        for key in keys:
            both = self._by_key[key]
            both[side][:] = [entry for entry in both[side] if id(entry[2]) not in rows]
            if not both[LEFT] and not both[RIGHT]:
                del self._by_key[key]
