"""The interface of the rows that an interval join keeps, by side and key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.windows.clock import EventClock
from fulmen.windows.joins.side_rows import Key, SideRows

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
"""Places in it: a number of its own, or on disk that of the batch that has brought it, its key, its
event time, the values to emit, whether it has had a match or was emitted without one, the watermark
at which it is forgotten, and, of left rows of a join with `until`, the last time of the other side
that matches it."""
FEW = 16
"""So many rows of a key that have come are put in order one by one."""
_time, _due = itemgetter(TIME), itemgetter(DUE)


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
        if rows and rows[0][TIME] >= first and rows[-1][TIME] <= last:
            return rows
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


@dataclass(frozen=True)
class Reach:
    """For how long rows are kept, and why.

    Attributes:
        uppers: What is added to the time of a row of each side for the last one that matches it.
        outer: Whether a row of each side is emitted if it has had no match.
        has_ends: Whether left rows have last times of their own.
    """

    uppers: tuple[int, int]
    outer: Sequence[bool]
    has_ends: bool


class KeptRows(ABC):
    """The rows of one task.

    Attributes:
        sides: The rows of each side, by key; a key that has none may be there as well.
    """

    sides: Sequence[Mapping[Key, OfKey]]

    def __init__(
        self,
        reach: Reach,
        state: MutableMapping[Any, Any],
        context: TopologyContext,
        clock: EventClock,
    ) -> None:
        self._reach, self._state, self._clock = reach, state, clock
        self._timers, self._batch = context.timers, context.batch
        self._grids = [max(LEAST_GRID, last // PARTS) for last in reach.uppers]

    def _over(self, last: int) -> int:
        """The watermark from which on no match can come any more, after the last time of one."""
        return last + 1 + self._clock.lateness

    def _last_of(self, side: int, one: Waiting) -> int:
        """The last time that matches a row: those with another end of their own have it."""
        last: int = one[LAST] if len(one) > LAST else one[TIME] + self._reach.uppers[side]
        return last

    def places_of(self, side: int, keys: Sequence[Key]) -> Sequence[int]:  # noqa: ARG002 (as below)
        """The places of those keys that may have rows on a side."""
        return range(len(keys))

    @abstractmethod
    def keep(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], kept: Mapping[int, bool]
    ) -> None:
        """Keep arrivals which may be matched later.

        Args:
            side: Theirs.
            arrivals: What has come.
            lasts: The last time that matches each of them.
            kept: The places of those to keep, and whether they have had a match.
        """

    @abstractmethod
    def end(self, side: int, rows: Iterable[Waiting]) -> None:
        """These rows need not be emitted without a match any more."""

    @abstractmethod
    def due(self, timer: Any, at: int) -> Iterator[tuple[int, Waiting]]:
        """A timer is due. Gives the side and the row of those that will have had no match.

        What is over is forgotten.
        """

    @abstractmethod
    def end_batch(self) -> None:
        """Write what the batch has brought."""


def bucket_end(over: int, grid: int) -> int:
    """When a row is forgotten that is over at this time."""
    return over + -over % grid


def own_grid(length: int) -> int:
    """In which steps rows are forgotten that may each be matched for another time: few of them."""
    steps = length // PARTS // LEAST_GRID
    return LEAST_GRID << max(0, steps.bit_length() - 1)
