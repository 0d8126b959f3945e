"""The rows of an interval join on disk: in memory are those of keys that a batch has to do with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from fulmen.windows.disk import on_disk
from fulmen.windows.joins.intervals.kept import (
    DUE,
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
from fulmen.windows.joins.join import LEFT, RIGHT
from fulmen.windows.joins.row_log import BEFORE_BATCHES
from fulmen.windows.joins.side_rows import Key, SideRows

Place = tuple[str, Key, int, int, int]


class RowsOnDisk(KeptRows):
    """The rows of one task, on disk."""

    # State: (ROWS, key, side, due, n) -> what batch n has brought of a key and side that is
    # forgotten at the time `due`. Timers: (FORGET, key), when the next of a key's rows are
    # forgotten, or emitted without a match.

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._disk = on_disk(self._state)
        self.sides: tuple[_OfSide, _OfSide] = _OfSide(self, LEFT), _OfSide(self, RIGHT)
        self._entries: dict[Place, list[Waiting]] = {}
        """Those at hand."""
        self._changed: dict[Place, None] = {}
        self._unseen: dict[tuple[int, Key], list[Waiting]] = {}
        """The rows of this batch of keys whose other rows are not at hand."""
        self._take_over()

    def _take_over(self) -> None:
        """Take rows that were in memory: see `RowsInMemory`."""
        gone: list[Any] = []
        for side in (LEFT, RIGHT):
            matched = list(self._disk.items_of(MATCHED, side))
            ended = {one for _, some in matched for one in some}
            gone += (place for place, _ in matched)
            for place, rows in list(self._disk.items_of(ROWS, side)):
                gone.append(place)
                for number, key, time, row, has_ended, due, *last in rows:
                    has_ended |= (number, key) in ended
                    one = [place[-1] - BEFORE_BATCHES, key, time, row, has_ended, due, *last]
                    self._put(side, one)
                    self._wait(key, self._next_of(side, one))
        self._disk.forget(gone)
        self.end_batch()

    def load(self, side: int, key: Key) -> OfKey:
        """Read the rows of a side and key."""
        found = OfKey()
        for place, rows in self._disk.items_of(ROWS, key, side):
            self._entries[place] = rows
            found.rows += rows
        found.rows += self._unseen.pop((side, key), ())
        return found

    @override
    def keep(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], kept: Mapping[int, bool]
    ) -> None:
        keys, times, rows = arrivals[:3]
        number, grid = self._batch.number, self._grids[side]
        has_ends = self._reach.has_ends and side == LEFT
        soonest: dict[Key, int] = {}
        for place, has_match in kept.items():
            key, last = keys[place], lasts[place]
            if has_ends:
                grid = own_grid(last - times[place])
            over = self._over(last)
            one = [number, key, times[place], rows[place], has_match, bucket_end(over, grid)]
            if has_ends:
                one.append(last)
            self._put(side, one)
            at = self._next_of(side, one)
            if at < soonest.get(key, math.inf):
                soonest[key] = at
        for key, at in soonest.items():
            self._wait(key, at)

    def _put(self, side: int, one: Waiting) -> None:
        key = one[KEY]
        place = ROWS, key, side, one[DUE], one[NUMBER]
        self._entries.setdefault(place, []).append(one)
        self._changed[place] = None
        at_hand = self.sides[side].at_hand(key)
        if at_hand is not None:
            at_hand.rows.append(one)
        else:
            self._unseen.setdefault((side, key), []).append(one)

    def _next_of(self, side: int, one: Waiting) -> int:
        """When something is to be done with a row."""
        over = self._over(self._last_of(side, one))
        if self._reach.outer[side] and not one[HAS_ENDED]:
            return over
        due: int = one[DUE]
        return max(due, over)  # not the first where `allowedLateness` was shorter

    def _wait(self, key: Key, at: int) -> None:
        """Have the timer of a key due at this time, or earlier."""
        known = self._timers.get((FORGET, key))
        if known is None or at < known:
            self._timers.set((FORGET, key), at)

    @override
    def end(self, side: int, rows: Iterable[Waiting]) -> None:
        for one in rows:
            if not one[HAS_ENDED]:
                one[HAS_ENDED] = True
                self._changed[ROWS, one[KEY], side, one[DUE], one[NUMBER]] = None

    @override
    def end_batch(self) -> None:
        entries = self._entries
        self._state.update((place, entries[place]) for place in self._changed if place in entries)
        for side in self.sides:
            side.clear()
        self._entries, self._changed, self._unseen = {}, {}, {}

    @override
    def due(self, timer: Any, at: int) -> Iterator[tuple[int, Waiting]]:
        if len(timer) > 2:  # it was set when the rows were in memory
            return
        key, watermark = timer[1], self._batch.watermark
        # event time ends, or is looked ahead of, where it has not come to `at`
        now = math.inf if watermark is None or at > watermark else watermark
        later = math.inf
        for side in (LEFT, RIGHT):
            alone = list(self._alone(side, key, now))
            yield from ((side, one) for one in alone)
            self.end(side, alone)
            self._forget(side, key, now)
            left = self.sides[side][key].rows
            ats = (self._next_of(side, one) for one in left)
            later = min([later, *(at for at in ats if at > now)])
            if not left:
                del self.sides[side][key]
        if later < math.inf:
            self._timers.set(timer, int(later))

    def _alone(self, side: int, key: Key, now: float) -> Iterator[Waiting]:
        """The rows of a key that will have had no match, if these are wanted."""
        for one in self.sides[side][key].rows if self._reach.outer[side] else ():
            if not one[HAS_ENDED] and self._over(self._last_of(side, one)) <= now:
                yield one

    def _forget(self, side: int, key: Key, now: float) -> None:
        """Forget the entries of a key that are over."""
        of_key = self.sides[side][key]
        over: dict[Place, float] = {}
        for one in of_key.rows:
            place = ROWS, key, side, one[DUE], one[NUMBER]
            at = max(one[DUE], self._over(self._last_of(side, one)))
            over[place] = max(at, over.get(place, -math.inf))
        gone = [place for place, at in over.items() if at <= now]
        for place in gone:
            del self._entries[place]
        self._disk.forget(gone)
        kept = {(place[3], place[4]) for place, at in over.items() if at > now}
        of_key.rows = [one for one in of_key.rows if (one[DUE], one[NUMBER]) in kept]
        of_key.ordered = 0


class _OfSide(dict[Key, OfKey]):
    """The rows of a side, by key. Those of keys that a batch has asked for are at hand."""

    def __init__(self, rows: RowsOnDisk, side: int) -> None:
        super().__init__()
        self._rows, self._side = rows, side
        self.at_hand = super().get

    def __missing__(self, key: Key) -> OfKey:
        found = self[key] = self._rows.load(self._side, key)
        return found

    @override
    def get(self, key: Key, default: Any = None) -> Any:
        return self[key]
