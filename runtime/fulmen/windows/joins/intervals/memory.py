"""The rows of an interval join in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from typing_extensions import override

from fulmen.windows.joins.intervals.kept import (
    ALONE,
    DUE,
    FEW,
    FORGET,
    HAS_ENDED,
    KEY,
    MATCHED,
    NUMBER,
    ROWS,
    KeptRows,
    OfKey,
    Waiting,
    bucket_end,
    own_grid,
)
from fulmen.windows.joins.join import LEFT
from fulmen.windows.joins.row_block import (
    Piece,
    constant,
    lists,
    piece_of,
    tuples,
)
from fulmen.windows.joins.row_log import RowGroup, RowLog
from fulmen.windows.joins.side_rows import Key, SideRows

_ByKey = defaultdict[Key, OfKey]


@dataclass(eq=False, slots=True)
class RowBucket(RowGroup):
    """Rows of a side that are forgotten together.

    Attributes:
        rows: All of them.
        pieces: Those of this batch by columns, as far as they have come so.
        last: The last time that matches one of them.
        count: How many of them the state has.
        ended: The numbers and keys of those of earlier batches that have ended in this one.
    """

    rows: list[Waiting] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    last: int = -1 << 63
    count: int = 0
    ended: list[tuple[int, Key]] = field(default_factory=list)


class RowsInMemory(KeptRows):
    """The rows of one task, in memory."""

    # State: (ROWS, side, due, n) -> what a batch has brought of a side that is forgotten at the
    # time `due`; (MATCHED, side, due, n) -> number and key of those that have had a match since.
    # Memory: the same by key. Timers: (FORGET, side, due); (ALONE, side, time), when rows that
    # have had no match by then are emitted.

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._log = RowLog(self._state)
        self.sides: tuple[_ByKey, _ByKey] = defaultdict(OfKey), defaultdict(OfKey)
        self._buckets: dict[tuple[int, int], RowBucket] = {}
        self._alone: dict[tuple[int, int], list[Waiting]] = {}
        self._next = 0  # number of a row
        self._restore()
        self._first = self._next  # of those that are of this batch

    def _restore(self) -> None:
        ended = {
            one for place, matched in self._state.items() if place[0] == MATCHED for one in matched
        }
        from_disk = []
        for place, (what, *where), value in self._log.restored(ROWS, MATCHED):
            if len(where) > 2:
                from_disk.append((place, value))
                continue
            side, due = where
            bucket = self._buckets.setdefault((side, due), RowBucket((ROWS, side, due)))
            bucket.written.append(place)
            for number, key, time, row, has_ended, _, *last in value if what == ROWS else ():
                one = [number, key, time, row, has_ended or (number, key) in ended, due, *last]
                self._put(side, bucket, one)
                self._next = max(self._next, number + 1)
            bucket.count = len(bucket.rows)
        for place, rows in from_disk:
            self._take_over(place, rows)

    def _put(self, side: int, bucket: RowBucket, one: Waiting) -> None:
        bucket.rows.append(one)
        bucket.last = max(bucket.last, self._last_of(side, one))
        self.sides[side][one[KEY]].rows.append(one)
        self._emit_alone_later(side, one)

    def _take_over(self, place: Any, rows: list[Waiting]) -> None:
        """Take rows that were on disk: see `RowsOnDisk`."""
        _, _, side, due, _ = place
        bucket = self._bucket_due(side, due)
        for one in rows:
            one[NUMBER] = self._next
            self._next += 1
            self._put(side, bucket, one)
        self._log.write(bucket, bucket.of, rows)
        bucket.count = len(bucket.rows)
        del self._state[place]

    def _emit_alone_later(self, side: int, one: Waiting) -> None:
        """Have a row emitted that will have had no match, if that is wanted."""
        if not self._reach.outer[side] or one[HAS_ENDED]:
            return
        at = self._over(self._last_of(side, one))
        some = self._alone.setdefault((side, at), [])
        if not some:
            self._timers.set((ALONE, side, at), at)
        some.append(one)

    @override
    def places_of(self, side: int, keys: Sequence[Key]) -> Sequence[int]:
        there = self.sides[side]
        return [i for i, key in enumerate(keys) if key in there] if there else ()

    @override
    def keep(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], kept: Mapping[int, bool]
    ) -> None:
        has_ends = self._reach.has_ends and side == LEFT
        if not has_ends and kept and self._keep_together(side, arrivals, lasts, kept):
            return
        keys, times, rows = arrivals[:3]
        since = until = 0  # what ends after the first, and up to the last, is of the bucket
        bucket: RowBucket | None = None
        by_key, number, outer = self.sides[side], self._next, self._reach.outer[side]
        for place, has_match in kept.items():
            key, last = keys[place], lasts[place]
            if bucket is None or has_ends or not since < last <= until:
                grid = own_grid(last - times[place]) if has_ends else self._grids[side]
                bucket = self._bucket_due(side, bucket_end(self._over(last), grid))
                until = bucket.of[2] - self._over(0)
                since = until - grid
            one = [number, key, times[place], rows[place], has_match, bucket.of[2]]
            if has_ends:
                one.append(last)
            number += 1
            bucket.rows.append(one)
            bucket.last = max(bucket.last, last)
            by_key[key].rows.append(one)
            if outer:
                self._emit_alone_later(side, one)
        self._next = number

    def _keep_together(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], kept: Mapping[int, bool]
    ) -> bool:
        """Keep arrivals that are all forgotten at one time: a third of the time. False: not all."""
        n, grid = len(lasts), self._grids[side]
        if len(kept) < n:
            return False
        last = max(lasts)
        due = bucket_end(self._over(last), grid)
        if bucket_end(self._over(min(lasts)), grid) != due:
            return False
        bucket, by_key = self._bucket_due(side, due), self.sides[side]
        numbers = range(self._next, self._next + n)
        columns = numbers, *arrivals[:3], list(kept.values()), [due] * n
        ones: list[Waiting] = [*map(list, zip(*columns, strict=True))]
        self._next += n
        bucket.rows += ones
        bucket.pieces.append(_piece_of(arrivals, numbers, columns[4], ones))
        bucket.last = max(bucket.last, last)
        for key, one in zip(arrivals.keys, ones, strict=True):
            by_key[key].rows.append(one)
        if self._reach.outer[side]:
            for one in ones:
                self._emit_alone_later(side, one)
        return True

    def _bucket_due(self, side: int, due: int) -> RowBucket:
        """The bucket of the rows of a side that are forgotten at this time."""
        bucket = self._buckets.get((side, due))
        if bucket is None:
            bucket = self._buckets[side, due] = RowBucket((ROWS, side, due))
            self._timers.set((FORGET, side, due), due)
        return bucket

    @override
    def end(self, side: int, rows: Iterable[Waiting]) -> None:
        for one in rows:
            if not one[HAS_ENDED]:
                one[HAS_ENDED] = True
                bucket = self._buckets[side, one[DUE]]
                if one[NUMBER] < self._first:
                    bucket.ended.append((one[NUMBER], one[KEY]))
                else:
                    bucket.pieces.clear()  # they say something else

    @override
    def end_batch(self) -> None:
        for (side, due), bucket in self._buckets.items():
            if brought := bucket.rows[bucket.count :]:
                are_all = sum(map(itemgetter(0), bucket.pieces)) == len(brought)
                self._log.write(bucket, bucket.of, brought, bucket.pieces if are_all else ())
                bucket.pieces = []
                bucket.count = len(bucket.rows)
            if bucket.ended:
                self._log.write(bucket, (MATCHED, side, due), bucket.ended)
                bucket.ended = []
        self._first = self._next

    @override
    def due(self, timer: Any, at: int) -> Iterator[tuple[int, Waiting]]:
        what, *where = timer
        if len(where) == 1:  # it was set when the rows were on disk
            return
        side, time = where
        if what == ALONE:
            yield from self._ended_alone(side, self._alone.pop((side, time), []))
            return
        bucket = self._buckets.get((side, time))
        if bucket is None:  # another task has rows of it
            return
        over = self._over(bucket.last)
        if over > at:  # `allowedLateness` was shorter when the timer was set
            self._timers.set(timer, over)
            return
        if self._reach.outer[side]:
            yield from self._ended_alone(side, bucket.rows)
        self._forget(side, bucket)

    def _ended_alone(self, side: int, rows: list[Waiting]) -> Iterator[tuple[int, Waiting]]:
        yield from ((side, one) for one in rows if not one[HAS_ENDED])
        self.end(side, rows)

    def _forget(self, side: int, bucket: RowBucket) -> None:
        due = bucket.of[2]
        self._log.forget(self._buckets.pop((side, due)))
        by_key = self.sides[side]
        if all(of != side for of, _ in self._buckets):  # there are no others
            by_key.clear()
            return
        for key, count in Counter(map(itemgetter(KEY), bucket.rows)).items():
            if len(by_key[key].rows) == count:
                del by_key[key]
            else:
                by_key[key].forget(due, count)


def _piece_of(
    arrivals: SideRows, numbers: range, have_ended: list[bool], ones: list[Waiting]
) -> Piece:
    """Arrivals, as they are kept, by columns: those that they came with."""
    if arrivals.columns is not None and len(ones) > FEW:
        keys, rows = arrivals.columns()
        if rows:
            times, due = [*arrivals.times], constant(ones[0][DUE])
            return len(ones), lists([numbers, tuples(keys), times, lists(rows), have_ended, due])
    return piece_of(ones)
