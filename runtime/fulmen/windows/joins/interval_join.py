"""Joins what is so much earlier or later."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.windows.joins.ends import RowEnds, mistaken_until
from fulmen.windows.joins.join import LEFT, Join
from fulmen.windows.joins.options import (
    IntervalJoinOptions,
    JoinOptions,
    signed_milliseconds,
)
from fulmen.windows.joins.row_log import RowGroup, RowLog
from fulmen.windows.joins.side_rows import JoinedRows, Key, SideRows

ROWS, MATCHED = "rows", "matched"
"""Begin the keys of the state."""
FORGET, ALONE = "forget", "alone"
"""Begin the keys of timers."""
LEAST_GRID = 1000
PARTS = 16
"""A row stays for so much of the time that it may be matched longer than it has to, or for
`LEAST_GRID` milliseconds: so rows can be forgotten together."""


Waiting = list[Any]
"""A row that may still be matched, as the state has it."""
NUMBER, KEY, TIME, ROW, HAS_ENDED, DUE, LAST = range(7)
"""Places in it: a number of its own, its key, its event time, the values to emit, whether it has
had a match or was emitted without one, the watermark at which it is forgotten, and, of left rows of
a join with `until`, the last time of the other side that matches it."""
FEW = 16
"""So many rows of a key that have come are put in order one by one."""
_time, _due = itemgetter(TIME), itemgetter(DUE)
_NONE: Sequence[Waiting] = ()


@dataclass(eq=False, slots=True)
class RowBucket(RowGroup):
    """Rows of a side that are forgotten together.

    Attributes:
        rows: All of them.
        count: How many of them the state has.
        ended: The numbers and keys of those of earlier batches that have ended in this one.
    """

    rows: list[Waiting] = field(default_factory=list)
    count: int = 0
    ended: list[tuple[int, Key]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class OfKey:
    """The rows of a side and key.

    Attributes:
        rows: The rows, by their times, of equal times in order of arrival; those that have come
            since they were looked at last follow as they have come.
        ordered: How many are in order.
    """

    rows: list[Waiting] = field(default_factory=list)
    ordered: int = 0

    def between(self, first: int, last: int) -> Sequence[Waiting]:
        """The rows with times from the first to the last."""
        self._order()
        rows = self.rows
        end = bisect_right(rows, last, key=_time)
        return rows[bisect_left(rows, first, 0, end, key=_time) : end]

    def forget(self, due: int, count: int) -> None:
        """Leave out the rows of a bucket, of which this key has so many."""
        self._order()
        rows = self.rows
        first = bisect_left(rows, due, key=_due)
        last = bisect_right(rows, due, first, key=_due)
        if last - first == count and all(one[DUE] == due for one in rows[first:last]):
            del rows[first:last]
        else:  # `allowedLateness` was another one for some of them
            self.rows = [one for one in rows if one[DUE] != due]
        self.ordered = len(self.rows)

    def _order(self) -> None:
        """Put those in order that have come since."""
        rows = self.rows
        new = len(rows) - self.ordered
        if new > FEW:
            rows.sort(key=_time)
        elif new:  # where both sides come in turn, sorting would look at all rows each time
            some = rows[self.ordered :]
            del rows[self.ordered :]
            for one in some:
                rows.insert(bisect_right(rows, one[TIME], key=_time), one)
        self.ordered = len(rows)


class IntervalJoin(Join):
    """Emits each pair with equal keys and `left + lower <= right <= left + upper`, at once.

    A row is forgotten when no match of it can come any more, also none that is late, but for no
    more than `allowedLateness`. With `type` left, right or full, one that has had none is emitted
    then. With `until`, a left row says itself until when that is.
    """

    # State: (ROWS, side, due, n) -> what a batch has brought of a side that is forgotten at the
    # time `due`; (MATCHED, side, due, n) -> number and key of those that have had a match since.
    # Memory: the same by key. Timers: (FORGET, side, due); (ALONE, side, time), when rows that
    # have had no match by then are emitted.

    config_model = IntervalJoinOptions
    streams_in_any_order = True
    transient = (
        *Join.transient,
        "_within",
        "_ends",
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
    def _mistakes(
        self, options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterator[str | Warning]:
        yield from super()._mistakes(options, inputs)
        if isinstance(options, IntervalJoinOptions) and options.until is not None:
            yield from mistaken_until(options, inputs)

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: IntervalJoinOptions = context.options
        lower, upper = signed_milliseconds(options.lower), signed_milliseconds(options.upper)
        self._within = (lower, upper), (-upper, -lower)
        self._grids = [max(LEAST_GRID, last // PARTS) for _, last in self._within]
        self._ends = None if options.until is None else RowEnds(options, context.inputs)
        self._log = RowLog(self.state)
        self._by_key: dict[Key, tuple[OfKey, OfKey]] = {}
        self._buckets: dict[tuple[int, int], RowBucket] = {}
        self._alone: dict[tuple[int, int], list[Waiting]] = {}
        self._next = 0  # number of a row
        self._restore()
        self._first = self._next  # of those that are of this batch

    def _restore(self) -> None:
        ended = {
            one for place, matched in self.state.items() if place[0] == MATCHED for one in matched
        }
        for place, (what, side, due), value in self._log.restored(ROWS, MATCHED):
            bucket = self._buckets.setdefault((side, due), RowBucket((ROWS, side, due)))
            bucket.written.append(place)
            for number, key, time, row, has_ended, _, *last in value if what == ROWS else ():
                one = [number, key, time, row, has_ended or (number, key) in ended, due, *last]
                bucket.rows.append(one)
                self._of(key)[side].rows.append(one)
                self._emit_alone_later(side, one)
                self._next = max(self._next, number + 1)
            bucket.count = len(bucket.rows)

    def _of(self, key: Key) -> tuple[OfKey, OfKey]:
        """The rows of a key, of the left and of the right side."""
        both = self._by_key.get(key)
        if both is None:
            both = self._by_key[key] = OfKey(), OfKey()
        return both

    def _emit_alone_later(self, side: int, one: Waiting) -> None:
        """Have a row emitted that will have had no match, if that is wanted."""
        if not self._outer[side] or one[HAS_ENDED]:
            return
        at = self._over(self._last_of(side, one))
        some = self._alone.setdefault((side, at), [])
        if not some:
            self._context.timers.set((ALONE, side, at), at)
        some.append(one)

    def _over(self, last: int) -> int:
        """The watermark from which on no match can come any more, after the last time of one."""
        return last + 1 + self._clock.lateness

    def _last_of(self, side: int, one: Waiting) -> int:
        """The last time that matches a row: those with another end of their own have it."""
        last: int = one[LAST] if len(one) > LAST else one[TIME] + self._within[side][1]
        return last

    @override
    def add_all(self, side: int, arrivals: SideRows, joined: JoinedRows) -> None:
        upper = self._within[side][1]
        if self._ends is None or side != LEFT:
            lasts = [time + upper for time in arrivals.times]
        else:
            lasts, failed = self._own_lasts(arrivals, upper)
            joined.failed += failed.items()
            alone = {*arrivals.alone, *failed}
            arrivals = SideRows(*arrivals[:3], alone, arrivals.retracted, failed.keys())
        has_match = self._match_all(side, arrivals, lasts, joined)
        self._keep_all(side, arrivals, lasts, has_match)

    def _own_lasts(
        self, arrivals: SideRows, upper: int
    ) -> tuple[list[int], dict[int, FailedException]]:
        """The last time that matches each left arrival; and the places of those that fail, why."""
        assert self._ends is not None
        lasts, failed = list[int](), dict[int, FailedException]()
        for time, end in zip(arrivals.times, self._ends.of(arrivals.rows), strict=True):
            if isinstance(end, FailedException):
                failed[len(lasts)] = end
            lasts.append(min(end, time + upper) if isinstance(end, int) else time + upper)
        return lasts, failed

    # A row costs about as much as what is done for it in these two loops: so what is the same for
    # all is looked up before them, and lists are made in place of objects.

    def _match_all(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], joined: JoinedRows
    ) -> dict[int, bool]:
        """Emit the matches of arrivals.

        Args:
            side: Theirs.
            arrivals: What has come.
            lasts: The last time that matches each of them.
            joined: What comes of it.

        Returns:
            The places of those that are to be kept, and whether they have had a match.
        """
        lower, tracks = self._within[side][0], self._tracks[1 - side]
        least, by_key, is_left = self._clock.least(), self._by_key, side == LEFT
        is_plain = self._condition is None and self._kind not in ("semi", "anti")
        is_plain = is_plain and (is_left or self._ends is None)
        rows, places, kept = joined.rows, joined.places, dict[int, bool]()
        for place, (key, time, row) in enumerate(zip(*arrivals[:3], strict=True)):
            if place in arrivals.alone:
                self._emit_at_once(side, place, arrivals, joined)
                continue
            if time < least:
                joined.late.append(place)
                continue
            both, others = by_key.get(key), _NONE
            if both is not None and (theirs := both[1 - side]).rows:
                others = theirs.between(time + lower, lasts[place])
                if not is_plain:
                    others = self._emit_chosen(side, place, arrivals, others, joined)
                else:
                    for other in others:
                        rows.append(row + other[ROW] if is_left else other[ROW] + row)
                        places.append(place)
                if tracks:
                    self._end_all(1 - side, others)
            if lasts[place] >= least:
                kept[place] = bool(others)
            elif not others:  # no match of it can come
                self._emit_at_once(side, place, arrivals, joined)
        return kept

    def _emit_chosen(
        self,
        side: int,
        place: int,
        arrivals: SideRows,
        others: Sequence[Waiting],
        joined: JoinedRows,
    ) -> Sequence[Waiting]:
        """Emit what the type of the join says of the pairs of an arrival, if it takes them.

        Returns:
            The others that it takes.
        """
        joined.place, row = place, arrivals.rows[place]
        if self._ends is not None and side != LEFT:
            others = [other for other in others if arrivals.times[place] <= other[LAST]]
        chosen = [others[i] for i in self.chosen(side, row, [other[ROW] for other in others])]
        if self._kind != "semi":
            for other in chosen:
                self.matched(side, row, other[ROW], joined)
        elif side != LEFT:
            for other in chosen:
                if not other[HAS_ENDED]:
                    joined.emit(other[ROW])
        elif chosen:
            joined.emit(row)
        return chosen

    def _emit_at_once(self, side: int, place: int, arrivals: SideRows, joined: JoinedRows) -> None:
        """Emit an arrival without a match, if that is wanted, and if it has not failed."""
        if place in arrivals.failed:
            return
        joined.place = place
        self.unmatched(side, arrivals.keys[place], arrivals.rows[place], joined)

    def _keep_all(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], kept: dict[int, bool]
    ) -> None:
        """Keep arrivals, by their places, which may be matched later."""
        keys, times, rows = arrivals[:3]
        since = until = due = 0  # what ends after the first, and up to the last, is of the bucket
        in_bucket: list[Waiting] = []
        by_key, number, outer = self._by_key, self._next, self._outer[side]
        has_ends = self._ends is not None and side == LEFT
        for place, has_match in kept.items():
            key, last = keys[place], lasts[place]
            if has_ends or not since < last <= until:
                grid = _own_grid(last - times[place]) if has_ends else self._grids[side]
                bucket = self._bucket(side, last, grid)
                due, in_bucket = bucket.of[2], bucket.rows
                until = due - self._over(0)
                since = until - grid
            one = [number, key, times[place], rows[place], has_match, due]
            if has_ends:
                one.append(last)
            number += 1
            in_bucket.append(one)
            (by_key.get(key) or self._of(key))[side].rows.append(one)
            if outer:
                self._emit_alone_later(side, one)
        self._next = number

    def _bucket(self, side: int, last: int, grid: int) -> RowBucket:
        """The bucket of the rows of a side that this time is the last to match."""
        over = self._over(last)
        due = over + -over % grid
        bucket = self._buckets.get((side, due))
        if bucket is None:
            bucket = self._buckets[side, due] = RowBucket((ROWS, side, due))
            self._context.timers.set((FORGET, side, due), due)
        return bucket

    def _end_all(self, side: int, rows: Sequence[Waiting]) -> None:
        """These rows need not be emitted without a match any more."""
        for one in rows:
            if not one[HAS_ENDED]:
                one[HAS_ENDED] = True
                if one[NUMBER] < self._first:
                    self._buckets[side, one[DUE]].ended.append((one[NUMBER], one[KEY]))

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        for (side, due), bucket in self._buckets.items():
            if brought := bucket.rows[bucket.count :]:
                self._log.write(bucket, bucket.of, brought)
                bucket.count = len(bucket.rows)
            if bucket.ended:
                self._log.write(bucket, (MATCHED, side, due), bucket.ended)
                bucket.ended = []
        self._first = self._next

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        what, side, time = key
        if what == ALONE:
            rows = self._alone.pop((side, time), [])
            self._emit_alone(side, rows, collector)
            return
        bucket = self._buckets.get((side, time))
        if bucket is None:  # another task has rows of it
            return
        over = self._over(max(self._last_of(side, one) for one in bucket.rows))
        if over > at:  # `allowedLateness` was shorter when the timer was set
            self._context.timers.set(key, over)
        else:
            self._forget(side, time, collector)

    def _emit_alone(self, side: int, rows: list[Waiting], collector: BasicOutputCollector) -> None:
        for one in rows:
            if not one[HAS_ENDED]:
                self.unmatched(side, one[KEY], one[ROW], collector)
        self._end_all(side, rows)

    def _forget(self, side: int, due: int, collector: BasicOutputCollector) -> None:
        bucket = self._buckets[side, due]
        if self._outer[side]:
            self._emit_alone(side, bucket.rows, collector)
        self._log.forget(self._buckets.pop((side, due)))
        for key, count in Counter(map(itemgetter(KEY), bucket.rows)).items():
            both = self._by_key[key]
            both[side].forget(due, count)
            if not both[LEFT].rows and not both[1 - LEFT].rows:
                del self._by_key[key]


def _own_grid(length: int) -> int:
    """In which steps rows are forgotten that may each be matched for another time: few of them."""
    steps = length // PARTS // LEAST_GRID
    return LEAST_GRID << max(0, steps.bit_length() - 1)
