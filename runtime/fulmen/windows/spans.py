"""The windows of a time. Pure.

A window holds what is from its start on and before its end. Times are milliseconds since 1970 in
UTC. Windows are aligned to 1970, or to the calendar of a time zone, whenever a topology started:
so their edges are the same for every task, run and version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

Span = tuple[int, int]
"""Start and end of a window."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_HOUR = 3_600_000
WHOLE: Span = (
    (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND,
    (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND,
)
"""From the year 1 to the last millisecond of the year 9999."""


class Spans(ABC):
    """Windows that do not depend on what else has come."""

    @abstractmethod
    def of(self, time: int) -> Sequence[Span]:
        """The windows that a time is in, the earliest first."""

    @abstractmethod
    def same(self, spans: Sequence[Span]) -> Span:
        """The range of times that are in exactly these windows: from, and before.

        Args:
            spans: A result of `of`.
        """

    def starting(self, start: int) -> Span:
        """The window whose span begins there."""
        return next(span for span in self.of(start) if span[0] == start)

    def edges(self, span: Span) -> Span:
        """Where a window begins and ends, for people: by a span, windows are told apart."""
        return span


class Sliding(Spans):
    """Windows of one size that begin every so often. If that is the size, they tumble."""

    def __init__(self, size: int, every: int, offset: int = 0) -> None:
        """Milliseconds each; `every` is from 1 to `size`."""
        self._size, self._every, self._offset = size, every, offset

    def of(self, time: int) -> Sequence[Span]:  # noqa: D102
        last = time - (time - self._offset) % self._every
        first = last - (self._size - (time - last) - 1) // self._every * self._every
        return [(start, start + self._size) for start in range(first, last + 1, self._every)]

    def same(self, spans: Sequence[Span]) -> Span:  # noqa: D102
        (first, end), (last, _) = spans[0], spans[-1]
        return max(last, first - self._every + self._size), min(last + self._every, end)


class Cumulative(Spans):
    """Windows that begin together and end one after the other, until the longest is complete.

    A window's span is the last part of it, which no other window has: they are told apart by where
    spans begin.
    """

    def __init__(self, size: int, every: int, offset: int = 0) -> None:
        """Milliseconds each; `size` is a multiple of `every`."""
        self._size, self._every, self._offset = size, every, offset

    def of(self, time: int) -> Sequence[Span]:  # noqa: D102
        part = time - (time - self._offset) % self._every
        end = self._begin(time) + self._size
        return [(start, start + self._every) for start in range(part, end, self._every)]

    def same(self, spans: Sequence[Span]) -> Span:  # noqa: D102
        return spans[0]

    def edges(self, span: Span) -> Span:  # noqa: D102
        return self._begin(span[0]), span[1]

    def _begin(self, time: int) -> int:
        return time - (time - self._offset) % self._size


class Whole(Spans):
    """One window with all times that there are."""

    def of(self, time: int) -> Sequence[Span]:  # noqa: ARG002, D102
        return [WHOLE]

    def same(self, spans: Sequence[Span]) -> Span:  # noqa: ARG002, D102
        return WHOLE


class Calendar(Spans):
    """Hours, days, weeks from Monday on, months or years of a time zone.

    A day has 23 or 25 hours when clocks are changed. An hour ends where they are changed by less.
    If they are put back over midnight, the new day begins with the first of both midnights.
    """

    def __init__(self, unit: str, timezone: str) -> None:
        self._unit, self._zone = unit, ZoneInfo(timezone)
        self._last: Span = (0, 0)

    def of(self, time: int) -> Sequence[Span]:  # noqa: D102
        start, end = self._last
        if not start <= time < end:
            self._last = self._span(time)
        return [self._last]

    def same(self, spans: Sequence[Span]) -> Span:  # noqa: D102
        return spans[0]

    def _span(self, time: int) -> Span:
        if self._unit == "hour":
            return self._hour(time)
        day = self._local(time).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        first = _first_day(day.replace(tzinfo=None), self._unit)
        following = self._following(first)
        if self._milliseconds(following) <= time:  # clocks went back over midnight: it came twice
            first, following = following, self._following(following)
        return self._milliseconds(first), self._milliseconds(following)

    def _following(self, first: datetime) -> datetime:
        return _first_day(first + timedelta(days=_MOST_DAYS[self._unit]), self._unit)

    def _hour(self, time: int) -> Span:
        """The hour of a time: of those zones, too, that are half an hour off."""
        shift = self._shift(time)
        start = time - (time + shift) % _HOUR
        end = start + _HOUR
        if (self._shift(start) - shift) % _HOUR:
            start = self._change(start, time)
        if (self._shift(end - 1) - shift) % _HOUR:
            end = self._change(time, end - 1)
        return start, end

    def _change(self, before: int, after: int) -> int:
        """The time at which clocks were changed between two times."""
        shift = self._shift(after)
        while after - before > 1:
            between = (before + after) // 2
            if self._shift(between) == shift:
                after = between
            else:
                before = between
        return after

    def _shift(self, time: int) -> int:
        """The milliseconds by which the zone's clocks are ahead of UTC."""
        return (self._local(time).utcoffset() or timedelta()) // _MILLISECOND

    def _local(self, time: int) -> datetime:
        return datetime_of(time).astimezone(self._zone)

    def _milliseconds(self, local: datetime) -> int:
        return (local.replace(tzinfo=self._zone) - _EPOCH) // _MILLISECOND


_MOST_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}


def _first_day(day: datetime, unit: str) -> datetime:
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    if unit == "year":
        return day.replace(month=1, day=1)
    return day


def datetime_of(time: int) -> datetime:
    """A time as a datetime in UTC."""
    return _EPOCH + time * _MILLISECOND
