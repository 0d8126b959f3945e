"""Event times as everything here has them: whole milliseconds since 1970, in UTC.

What a record says may be a datetime, a number or ISO text. `TimeReader` makes a time of each, or
says why it is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from numbers import Real
from operator import countOf
from typing import Any
from zoneinfo import ZoneInfo

from fulmen.errors import BeyondDatesError, EventTimeError, repr_of

LATE = "__late"
"""The stream that a component with an event time has besides its own."""
TOO_LATE = "late"
"""How the streams begin on which bolts emit what is too late for them."""
LATE_FIELDS = ("stream", "values", "reason")
RETRACTION = "is_retraction"
"""The field that says of a result of a window that it takes back an earlier one."""
DURATION = r"^(0|[0-9]{1,9}(\.[0-9]{1,3})?(ms|s|m|h|d))$"
UNITS: Mapping[str, Callable[[Any], Any]] = {
    "s": lambda n: _of_seconds(n),
    "ms": lambda n: n,
    "us": lambda n: n // 1000,
    "ns": lambda n: n // 1_000_000,
}
"""Units of numbers, and how many milliseconds a number of each is."""
NO_TIMES = frozenset({"bool", "date32", "time", "duration", "binary", "base64", "uuid"})
"""Types of fields, as `types` of a `Stream` names them, of which no value is an event time."""
MUST_BE = "but must be a timestamp, a number or ISO text"
BOUNDS = -62_135_596_800_000, 253_402_300_800_000
"""From when on, and until when, there are times: from the year 1 until before the year 10000."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_IN = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SAFE_UNITS = ((1e8, 1e11, "s"), (1e11, 1e14, "ms"), (1e14, 1e17, "us"), (1e17, 1e20, "ns"))
"""From 1973 on, for two thousand years or more, each size of a number can be of one unit only."""


def milliseconds(duration: str) -> int:
    """Turn a duration such as "10s", "1.5m", "2h", "7d", "250ms" or "0" into milliseconds.

    Raises:
        ValueError: It is none.
    """
    if not re.match(DURATION, duration):
        raise ValueError(
            f"{duration!r} is no duration: it must be a number of at most 9 digits with ms, s, m, h"
            " or d, such as 10s"
        )
    if duration == "0":
        return 0
    number = duration.rstrip("mshd")
    return round(float(number) * _IN[duration[len(number) :]])


class TimeReader:
    """Reads event times of one field."""

    def __init__(self, unit: str | None = None, timezone: str = "UTC") -> None:
        """Make one.

        Args:
            unit: Of numbers: s, ms, us or ns. None: guessed from their size, where that is safe.
            timezone: Of texts and datetimes that have none.
        """
        self.unit = unit
        self.is_utc = timezone == "UTC"
        self._zone: tzinfo = UTC if self.is_utc else ZoneInfo(timezone)
        self._kinds: dict[type, Callable[[Any], int]] = {
            int: self._number,
            float: self._number,
            str: self._text,
            datetime: self._datetime,
        }

    def read(self, value: Any) -> int:
        """The time that a value is.

        Raises:
            EventTimeError: It is none; the text says why.
        """
        read = self._kinds.get(type(value))
        if read is None:
            read = self._kind_of(value)
        return read(value)

    def are_times(self, values: Sequence[Any]) -> bool:
        """Whether all values are their own times: whole numbers of milliseconds, the usual case."""
        # two thirds of the time of a set of their types
        return self.unit == "ms" and countOf(map(type, values), int) == len(values)

    def _kind_of(self, value: Any) -> Callable[[Any], int]:
        if value is None:
            raise EventTimeError("it has no time")
        if isinstance(value, datetime):
            return self._datetime
        if isinstance(value, str):
            return self._text
        if isinstance(value, Real | Decimal) and not isinstance(value, bool):
            return self._number
        if hasattr(value, "item") and not isinstance(value, date):  # NumPy's datetime64
            return lambda value: self.read(value.item())
        raise EventTimeError(
            f"its time is {_shown(value)}, a {type(value).__name__}, but must be a datetime, a"
            " number or ISO text"
        )

    def _number(self, value: Any) -> int:
        if not math.isfinite(value):
            raise EventTimeError(f"its time is {_shown(value)}, which is no time")
        return _bounded(math.floor(UNITS[self.unit or _guessed(value)](value)), value)

    def _text(self, value: str) -> int:
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            is_number = re.fullmatch(r"\s*-?[0-9]+(\.[0-9]*)?\s*", value)
            cure = ". Declare it as a number where it is read, as in fields: {at: int64}"
            raise EventTimeError(
                f"its time is {_shown(value)}, which is not ISO 8601, such as 2024-05-01T12:00:00Z"
                f"{cure if is_number else ''}"
            ) from None
        return self._datetime(found)

    def _datetime(self, value: datetime) -> int:
        if value.tzinfo is None:
            value = value.replace(tzinfo=self._zone)
        try:
            return _bounded((value - _EPOCH) // _MILLISECOND, value)
        except (OverflowError, ValueError):  # the first or last day of all, in another zone
            raise EventTimeError(f"its time is {_shown(value)}, which is no time") from None


def _bounded(time: int, value: Any) -> int:
    """A time that a datetime in UTC can be, also where the value is in another zone."""
    if not BOUNDS[0] <= time < BOUNDS[1]:
        where = "before the year 1" if time < 0 else "beyond the year 9999"
        raise BeyondDatesError(f"its time is {_shown(value)}, which is {where}")
    return time


def _of_seconds(number: Any) -> Any:
    product = number * 1000
    if isinstance(product, float):
        # A float's own error, and that of the product, must not make it the millisecond below.
        product += 2 * math.ulp(product)
    return product


def _guessed(value: Any) -> str:
    size = abs(value)
    for least, end, unit in SAFE_UNITS:
        if least <= size < end:
            return unit
    raise EventTimeError(
        f"its time is {_shown(value)}, a number that may be of several units. Say which: unit: s,"
        " ms, us or ns"
    )


def _shown(value: Any) -> str:
    text = repr_of(value)
    return text if len(text) <= 80 else text[:77] + "..."
