"""What compiled expressions call for dates and times. A time with an offset counts in UTC."""

from __future__ import annotations

import calendar
import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from fulmen.expressions.library.arithmetic import Failed, fits

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (times without an offset)
_MICROSECOND = timedelta(microseconds=1)
Moment = date | datetime


def plain(value: Moment) -> datetime:
    """A date or a time as one without an offset, in UTC."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _like(value: Moment, made: datetime) -> datetime:
    """A time with an offset, if another one has it."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return made.replace(tzinfo=UTC)
    return made


def micros(value: Moment) -> int:
    """Microseconds since 1970."""
    return (plain(value) - _EPOCH) // _MICROSECOND


def _comparison(of: Callable[[datetime, datetime], bool]) -> Callable[[datetime, datetime], bool]:
    """A comparison of times, of which one may have an offset and the other none."""

    def compared(a: datetime, b: datetime) -> bool:
        if (a.tzinfo is None) is (b.tzinfo is None):
            return of(a, b)
        return of(plain(a), plain(b))

    return compared


COMPARISONS: Final[Mapping[str, Callable[[datetime, datetime], bool]]] = {
    "=": _comparison(operator.eq),
    "<>": _comparison(operator.ne),
    "<": _comparison(operator.lt),
    "<=": _comparison(operator.le),
    ">": _comparison(operator.gt),
    ">=": _comparison(operator.ge),
}

PARTS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "year": lambda at: at.year,
    "quarter": lambda at: (at.month + 2) // 3,
    "month": lambda at: at.month,
    "week": lambda at: at.isocalendar().week,
    "day": lambda at: at.day,
    "dayofweek": lambda at: at.isoweekday() % 7,
    "isodow": datetime.isoweekday,
    "dayofyear": lambda at: at.timetuple().tm_yday,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
    "millisecond": lambda at: at.second * 1000 + at.microsecond // 1000,
    "microsecond": lambda at: at.second * 1_000_000 + at.microsecond,
}
"""Name of a part -> what gives it."""
_OTHER_NAMES = {"dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear"}
_STARTS: Mapping[str, Callable[[datetime], datetime]] = {
    "year": lambda at: datetime(at.year, 1, 1),  # noqa: DTZ001
    "quarter": lambda at: datetime(at.year, (at.month - 1) // 3 * 3 + 1, 1),  # noqa: DTZ001
    "month": lambda at: datetime(at.year, at.month, 1),  # noqa: DTZ001
    "week": lambda at: datetime(at.year, at.month, at.day) - timedelta(at.weekday()),  # noqa: DTZ001
    "day": lambda at: datetime(at.year, at.month, at.day),  # noqa: DTZ001
    "hour": lambda at: at.replace(minute=0, second=0, microsecond=0),
    "minute": lambda at: at.replace(second=0, microsecond=0),
    "second": lambda at: at.replace(microsecond=0),
    "millisecond": lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000),
    "microsecond": lambda at: at,
}
UNITS: Final = tuple(_STARTS)
"""What `date_trunc` and the like count in."""
_LENGTHS = {
    "week": 7 * 86_400_000_000, "day": 86_400_000_000, "hour": 3_600_000_000,
    "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1,
}  # fmt: skip
_MONTHS = {"year": 12, "quarter": 3, "month": 1}


def _named(name: str, among: Any, what: str) -> str:
    known = name.lower()
    known = _OTHER_NAMES.get(known, known)
    for one in (known, known.removesuffix("s")):
        if one in among:
            return one
    raise Failed(f"{name!r} is no {what}. There are {', '.join(among)}")


def unit(name: str) -> str:
    """The unit of a name, such as `days`.

    Raises:
        Failed: There is none.
    """
    return _named(name, _STARTS, "unit")


def part(name: str) -> Callable[[Moment], int]:
    """What gives a part of a date or time."""
    of = PARTS[_named(name, PARTS, "part of a time")]
    return lambda value: of(plain(value))


def truncated(name: str) -> Callable[[Moment], datetime]:
    """What gives the start of the year, day, hour … that a date or time is in."""
    start = _STARTS[unit(name)]

    def of(value: Moment) -> datetime:
        try:
            return _like(value, start(plain(value)))
        except OverflowError:
            raise Failed(f"there is no {name} that begins before the year 1") from None

    return of


def boundaries(name: str) -> Callable[[Moment, Moment], int]:
    """What counts the starts of a unit from one date or time to another; of weeks, each 7 days."""
    of = unit(name)
    if of in _MONTHS:
        length = _MONTHS[of]

        def count(value: Moment) -> int:
            at = plain(value)
            return (at.year * 12 + at.month - 1) // length

        return lambda a, b: count(b) - count(a)
    if of == "week":
        days = boundaries("day")
        return lambda a, b: int(days(a, b) / 7)
    length = _LENGTHS[of]
    return lambda a, b: micros(b) // length - micros(a) // length


def whole_units(name: str) -> Callable[[Moment, Moment], int]:
    """What counts the whole units between one date or time and another."""
    of = unit(name)
    if of in _MONTHS:
        return lambda a, b: _whole_months(plain(a), plain(b), _MONTHS[of])
    length = _LENGTHS[of]

    def count(a: Moment, b: Moment) -> int:
        between = micros(b) - micros(a)
        return between // length if between >= 0 else -(-between // length)

    return count


def _whole_months(a: datetime, b: datetime, length: int) -> int:
    sign = 1 if a <= b else -1
    start, end = (a, b) if sign > 0 else (b, a)
    months = (end.year - start.year) * 12 + end.month - start.month
    if end < _months_later(start, months) and not (
        start.day > end.day == calendar.monthrange(end.year, end.month)[1]
        and end.time() >= start.time()
    ):
        months -= 1
    return sign * (months // length)


def _months_later(at: datetime, months: int) -> datetime:
    year, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise Failed(f"{at} and {months} months are not within the years 1 to 9999")
    day = min(at.day, calendar.monthrange(year, month + 1)[1])
    return at.replace(year=year, month=month + 1, day=day)


def later(name: str, sign: int) -> Callable[[Moment, int], datetime]:
    """What gives a time so many units later, or earlier."""
    of = unit(name)

    def months(value: Moment, count: int) -> datetime:
        return _like(value, _months_later(plain(value), sign * count * _MONTHS[of]))

    def micros_later(value: Moment, count: int) -> datetime:
        try:
            return _like(value, plain(value) + sign * count * _LENGTHS[of] * _MICROSECOND)
        except OverflowError:
            raise Failed(f"{value} and {count} {of}s are not within the years 1 to 9999") from None

    return months if of in _MONTHS else micros_later


def days_later(value: date, days: int) -> date:
    """A date so many days later."""
    try:
        return value + timedelta(days)
    except OverflowError:
        raise Failed(f"{value} and {days} days are not within the years 1 to 9999") from None


def days_between(a: date, b: date) -> int:
    """The days from one date to another."""
    return (a - b).days


def seconds(value: Moment) -> float:
    """Seconds since 1970."""
    return micros(value) / 1e6


def millis(value: Moment) -> int:
    """Milliseconds since 1970, rounded."""
    return (micros(value) + 500) // 1000


def of_millis(count: int) -> datetime:
    """The time so many milliseconds after 1970 begins, without an offset."""
    return of_micros(fits(count * 1000))


def of_micros(count: int) -> datetime:
    """The time so many microseconds after 1970 begins, without an offset."""
    try:
        return _EPOCH + count * _MICROSECOND
    except OverflowError:
        raise Failed(f"{count} is not within the years 1 to 9999") from None


def of_seconds(count: float) -> datetime:
    """The time so many seconds after 1970 begins, in UTC."""
    try:
        return of_micros(round(count * 1e6)).replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # no number, or infinite
        raise Failed(f"{count} is no count of seconds") from None


def made_date(year: int, month: int, day: int) -> date:
    """The date of a year, a month and a day."""
    try:
        return date(year, month, day)
    except (ValueError, OverflowError):
        raise Failed(f"{year}, {month}, {day} is no DATE") from None


def last_day(value: Moment) -> date:
    """The last day of the month."""
    at = plain(value)
    return date(at.year, at.month, calendar.monthrange(at.year, at.month)[1])


def clock_time(value: datetime) -> time:
    """The time of the day."""
    return plain(value).time()


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def day_name(value: Moment) -> str:
    """The name of the day of the week."""
    return _DAYS[plain(value).weekday()]


def month_name(value: Moment) -> str:
    """The name of the month."""
    return _MONTH_NAMES[plain(value).month - 1]


_WRITTEN: Mapping[str, Callable[[datetime], str]] = {
    "%": lambda _: "%",
    "Y": lambda at: f"{at.year:04}",
    "y": lambda at: f"{at.year % 100:02}",
    "m": lambda at: f"{at.month:02}",
    "d": lambda at: f"{at.day:02}",
    "H": lambda at: f"{at.hour:02}",
    "I": lambda at: f"{(at.hour + 11) % 12 + 1:02}",
    "M": lambda at: f"{at.minute:02}",
    "S": lambda at: f"{at.second:02}",
    "f": lambda at: f"{at.microsecond:06}",
    "p": lambda at: "AM" if at.hour < 12 else "PM",
    "j": lambda at: f"{at.timetuple().tm_yday:03}",
    "a": lambda at: day_name(at)[:3],
    "A": day_name,
    "b": lambda at: month_name(at)[:3],
    "B": month_name,
}
_READ = frozenset("%YymdHIMSfpjaAbB")


def _specifiers(form: str) -> list[str]:
    """A format in pieces: a text, or `%` and a letter."""
    pieces: list[str] = []
    rest = form
    while rest:
        at = rest.find("%")
        if at < 0:
            return [*pieces, rest]
        if at:
            pieces.append(rest[:at])
        letter = rest[at + 1 : at + 2]
        if letter not in _READ or not letter:
            there = ", ".join(f"%{one}" for one in _WRITTEN)
            raise Failed(f"the format {form!r} has {'%' + letter!r}. There are {there}")
        pieces.append("%" + letter)
        rest = rest[at + 2 :]
    return pieces


def written(form: str) -> Callable[[Moment], str]:
    """What writes a date or time in a format."""
    parts = [
        _WRITTEN[one[1]] if one[0] == "%" else (lambda _, text=one: text)
        for one in _specifiers(form)
    ]

    def of(value: Moment) -> str:
        at = plain(value)
        return "".join([part(at) for part in parts])

    return of


def read(form: str) -> Callable[[str], datetime]:
    """What reads a time that is written in a format."""
    _specifiers(form)

    def of(value: str) -> datetime:
        try:
            return datetime.strptime(value, form)  # noqa: DTZ007 (times without an offset)
        except (ValueError, OverflowError):
            raise Failed(f"{value[:60]!r} is no time in the format {form!r}") from None

    return of


def in_zone(zone: str) -> Callable[[datetime], datetime]:
    """What makes local times of a zone of times with an offset, and times in UTC of local ones.

    A local time that comes twice is the later one, and one that is left out an hour later, as in
    DuckDB.
    """
    try:
        of_zone = ZoneInfo(zone)
    except (OSError, ValueError, KeyError):  # also of names that lead out of the database
        raise Failed(f"there is no time zone {zone[:60]!r}") from None

    def of(at: datetime) -> datetime:
        try:
            if at.tzinfo is not None:
                return at.astimezone(of_zone).replace(tzinfo=None, fold=0)
            offsets = (of_zone.utcoffset(at.replace(fold=fold)) for fold in (0, 1))
            least = min(offset for offset in offsets if offset is not None)
            return (at - least).replace(tzinfo=UTC, fold=0)
        except OverflowError:
            raise Failed(f"{at} has no such time in {zone}") from None

    return of
