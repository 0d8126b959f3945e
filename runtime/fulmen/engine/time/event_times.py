"""Reads the event times of what a task emits on one stream: a chunk at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fulmen.api.times.arrow_times import column_times, datetime_times
from fulmen.api.times.event_time import TimeReader, milliseconds
from fulmen.engine.tuples.columns import listed
from fulmen.engine.tuples.python_values import python_values
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON, EventTimeError
from fulmen.topology.resource.spec.event_time import EventTime

WHOLE_TASK = ""
"""The part of a tuple whose part is unknown."""
Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FoundTimes:
    """The event times of some emits.

    Attributes:
        times: One for each; of those in `wrong` it means nothing.
        wrong: Emit number -> why its time can't be used.
        ahead: Those of them that are too far ahead of the clock.
    """

    times: Times
    wrong: dict[int, str]
    ahead: set[int] = field(default_factory=set)


class StreamTimes:
    """Reads the times of one stream."""

    def __init__(self, declared: EventTime, place: int) -> None:
        """`place`: where the time is among the values of a tuple."""
        self._at = place
        self._reader = TimeReader(declared.unit, declared.timezone)
        self._most_ahead = milliseconds(declared.max_ahead)
        self._ahead = declared.max_ahead

    def find(self, emitted: TupleRows, wall: float) -> FoundTimes:
        """The times of emits, and what is wrong with some.

        Args:
            emitted: At least one.
            wall: The time of day when the batch began, in seconds of time.time(); 0: not known, and
                nothing is too far ahead.
        """
        values = emitted.column(self._at)
        if (all_at_once := self._of_arrow(values, wall)) is not None:
            return all_at_once
        column = _plain(values)
        found = self._whole_numbers(column) or _of_datetimes(column) or self._one_by_one(column)
        if wall:
            last = self._last(wall)
            for i in np.flatnonzero(found.times > last).tolist():
                if i not in found.wrong:
                    far = f"more than {self._ahead} ahead of the clock here"
                    found.wrong[i] = f"its time is {column[i]!r}, {far}"
                    found.ahead.add(i)
        return found

    def _last(self, wall: float) -> int:
        """The last time that is not too far ahead."""
        return int(wall * 1000) + self._most_ahead

    def _of_arrow(self, column: Any, wall: float) -> FoundTimes | None:
        """Read all times at once, if they came as Arrow and none of them is wrong; else None."""
        if not isinstance(column, pa.Array) or not len(column):
            return None
        found = column_times(column, self._reader)
        if found is None or not found.usable.all():
            return None
        if wall and int(found.times.max()) > self._last(wall):
            return None
        return FoundTimes(found.times, {})

    def _whole_numbers(self, column: Sequence[Any]) -> FoundTimes | None:
        """Read all times at once, if the values are their own times; else None."""
        if not self._reader.are_times(column):
            return None
        try:
            times = np.fromiter(column, np.int64, len(column))
        except OverflowError:
            return None
        reader = self._reader
        try:
            reader.read(int(times.min())), reader.read(int(times.max()))
        except EventTimeError:
            return None
        return FoundTimes(times, {})

    def _one_by_one(self, column: Sequence[Any]) -> FoundTimes:
        times = np.zeros(len(column), np.int64)
        wrong: dict[int, str] = {}
        read = self._reader.read
        for i, value in enumerate(column):
            try:
                times[i] = read(value)
            except EventTimeError as e:
                wrong[i] = str(e)
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (an author's number or datetime may raise anything)
                wrong[i] = f"its time can't be read: {type(e).__name__}"
        return FoundTimes(times, wrong)


def _of_datetimes(column: Sequence[Any]) -> FoundTimes | None:
    """Read all times at once, if they are datetimes in UTC; else None."""
    times = datetime_times(column)
    return None if times is None else FoundTimes(times, {})


def _plain(column: Any) -> Sequence[Any]:
    """A column as Python objects."""
    if isinstance(column, pa.Array):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return python_values(column)[0]  # None is no time
    return listed(column)


def newest_by_part(times: Times, parts: Sequence[str] | None) -> dict[str, int]:
    """The newest time of each part.

    Args:
        times: At least one.
        parts: The part of each; None: nothing is known of parts.
    """
    if parts is None:
        return {WHOLE_TASK: int(times.max())}
    if parts.count(parts[0]) == len(parts):
        return {parts[0]: int(times.max())}
    newest: dict[str, int] = {}
    for part, at in zip(parts, times.tolist(), strict=True):
        if at > newest.get(part, at - 1):
            newest[part] = at
    return newest
