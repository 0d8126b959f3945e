"""Event times of whole columns: the same as `TimeReader` says of each value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from operator import attrgetter, countOf, sub
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fulmen.api.times.event_time import BOUNDS, SAFE_UNITS, TimeReader

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_PER_UNIT: Mapping[str, Callable[[Numbers], Numbers]] = {
    "s": lambda numbers: numbers * 1000,
    "ms": lambda numbers: numbers,
    "us": lambda numbers: numbers // 1000,
    "ns": lambda numbers: numbers // 1_000_000,
}
_SECONDS = BOUNDS[0] // 1000, BOUNDS[1] // 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE = attrgetter("tzinfo")


class ColumnTimes(NamedTuple):
    """The event times of a column.

    Attributes:
        times: In milliseconds; of those that are not usable it means nothing.
        usable: Which of them are times.
    """

    times: Numbers
    usable: Mask


def column_times(column: pa.Array, reader: TimeReader) -> ColumnTimes | None:
    """The times of a column; None: its values have to be read one by one."""
    kind = column.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        numbers, usable = _numbers(column)
        if reader.unit is not None:
            return _in_unit(numbers, usable, reader.unit)
        times = np.zeros(len(numbers), np.int64)
        known = np.zeros(len(numbers), np.bool_)
        sizes = np.abs(numbers)  # of the least of all it is negative, and in no unit
        for least, end, unit in SAFE_UNITS:
            among = usable & (sizes >= int(least))
            if end <= np.iinfo(np.int64).max:
                among &= sizes < int(end)
            if among.any():
                found = _in_unit(numbers, among, unit)
                times[among], known = found.times[among], known | found.usable
        return ColumnTimes(times, known)
    if pa.types.is_timestamp(kind) and kind.unit != "ns" and (kind.tz or reader.is_utc):
        return _in_unit(*_numbers(column), kind.unit)
    return None


def datetime_times(values: Sequence[Any]) -> Numbers | None:
    """The times of values, if they are datetimes in UTC, as formats make them; else None."""
    if countOf(map(type, values), datetime) != len(values):
        return None
    if countOf(map(_ZONE, values), UTC) != len(values):
        return None
    since = pa.array(list(map(sub, values, repeat(_EPOCH))), pa.duration("us"))
    times: Numbers = since.to_numpy().view(np.int64) // 1000
    return times


def _numbers(column: pa.Array) -> tuple[Numbers, Mask]:
    """The whole numbers of a column, and which of them are no nulls."""
    usable = np.ones(len(column), np.bool_)
    if column.null_count:
        usable = column.is_valid().to_numpy(zero_copy_only=False)
        column = column.fill_null(0)
    numbers: Any = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers, usable


def _in_unit(numbers: Numbers, usable: Mask, unit: str) -> ColumnTimes:
    if unit == "s":  # first, as the product may be too large
        usable = usable & (numbers >= _SECONDS[0]) & (numbers < _SECONDS[1])
        numbers = np.where(usable, numbers, 0)
    times = _PER_UNIT[unit](numbers)
    return ColumnTimes(times, usable & (times >= BOUNDS[0]) & (times < BOUNDS[1]))
