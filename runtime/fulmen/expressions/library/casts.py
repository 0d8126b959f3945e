"""What compiled expressions call to make a value of another type of one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, TypeVar

from fulmen.expressions.library import times
from fulmen.expressions.library.arithmetic import DECIMALS, Failed, fits
from fulmen.expressions.sql_types import SqlType

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,4})?", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}(:\d{2})?)?)?", re.ASCII
)
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_BOOLEANS = {
    "true": True, "t": True, "1": True, "yes": True, "y": True,
    "false": False, "f": False, "0": False, "no": False, "n": False,
}  # fmt: skip
_MOST_DIGITS = 40
SPACES = " \t\n\v\f\r"


def _no(value: Any, kind: SqlType) -> Failed:
    shown = repr(value)
    return Failed(f"{shown if len(shown) <= 60 else shown[:60] + '…'} is no {kind.value}")


def _number_of_text(value: str, kind: SqlType) -> Decimal:
    if _NUMBER.fullmatch(value.strip(SPACES)) is None:
        raise _no(value, kind)
    return Decimal(value.strip(SPACES))


def _bigint_of_decimal(value: Decimal) -> int:
    if value.is_finite() and value.adjusted() < _MOST_DIGITS:
        return fits(int(value.to_integral_value("ROUND_HALF_UP")))
    raise _no(value, SqlType.BIGINT)


def _bigint_of_text(value: str) -> int:
    return _bigint_of_decimal(_number_of_text(value, SqlType.BIGINT))


def _bigint_of_double(value: float) -> int:
    if not math.isfinite(value):
        raise _no(value, SqlType.BIGINT)
    return fits(round(value))


def _double_of_text(value: str) -> float:
    text = value.strip(SPACES)
    if _NUMBER.fullmatch(text) is None and _SPECIAL.fullmatch(text) is None:
        raise _no(value, SqlType.DOUBLE)
    number = float(text)
    if math.isinf(number) and _SPECIAL.fullmatch(text) is None:
        raise _no(value, SqlType.DOUBLE)
    return number


def _boolean_of_text(value: str) -> bool:
    found = _BOOLEANS.get(value.lower())
    if found is None:
        raise _no(value, SqlType.BOOLEAN)
    return found


T = TypeVar("T", date, time)


def _of_text(form: re.Pattern[str], read: Callable[[str], T], kind: SqlType) -> Callable[[str], T]:
    """What makes a date or a time of a text of that form."""

    def of(value: str) -> T:
        text = value.strip(SPACES)
        if form.fullmatch(text) is None:
            raise _no(value, kind)
        try:
            return read(text)
        except ValueError:
            raise _no(value, kind) from None

    return of


def text_of_double(value: float) -> str:
    """A float as text."""
    return repr(value)


def text_of_decimal(value: Decimal) -> str:
    """A decimal as text, without an exponent."""
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        raise _no(value, SqlType.DECIMAL)
    return format(value, "f")


def _text_of_time(value: datetime | date | time) -> str:
    text = value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if (part := getattr(value, "microsecond", 0)) and not part % 10:
        digits = f".{part:06}"
        text = text.replace(digits, digits.rstrip("0"))
    return text


def _as_is(value: Any) -> Any:
    return value


CASTS: Final[Mapping[tuple[SqlType, SqlType], Callable[[Any], Any]]] = {
    (SqlType.BOOLEAN, SqlType.BIGINT): int,
    (SqlType.BOOLEAN, SqlType.DOUBLE): float,
    (SqlType.BOOLEAN, SqlType.VARCHAR): {True: "true", False: "false"}.__getitem__,
    (SqlType.BIGINT, SqlType.BOOLEAN): bool,
    (SqlType.BIGINT, SqlType.DOUBLE): float,
    (SqlType.BIGINT, SqlType.DECIMAL): Decimal,
    (SqlType.BIGINT, SqlType.VARCHAR): str,
    (SqlType.DOUBLE, SqlType.BOOLEAN): bool,
    (SqlType.DOUBLE, SqlType.BIGINT): _bigint_of_double,
    (SqlType.DOUBLE, SqlType.VARCHAR): text_of_double,
    (SqlType.DECIMAL, SqlType.BIGINT): _bigint_of_decimal,
    (SqlType.DECIMAL, SqlType.DOUBLE): float,
    (SqlType.DECIMAL, SqlType.VARCHAR): text_of_decimal,
    (SqlType.VARCHAR, SqlType.BOOLEAN): _boolean_of_text,
    (SqlType.VARCHAR, SqlType.BIGINT): _bigint_of_text,
    (SqlType.VARCHAR, SqlType.DOUBLE): _double_of_text,
    (SqlType.VARCHAR, SqlType.DATE): _of_text(_DATE, date.fromisoformat, SqlType.DATE),
    (SqlType.VARCHAR, SqlType.TIMESTAMP): _of_text(
        _TIMESTAMP, datetime.fromisoformat, SqlType.TIMESTAMP
    ),
    (SqlType.DATE, SqlType.VARCHAR): _text_of_time,
    (SqlType.DATE, SqlType.TIMESTAMP): lambda value: datetime(value.year, value.month, value.day),  # noqa: DTZ001
    (SqlType.TIME, SqlType.VARCHAR): _text_of_time,
    (SqlType.VARCHAR, SqlType.TIME): _of_text(_TIME, time.fromisoformat, SqlType.TIME),
    (SqlType.TIMESTAMP, SqlType.DATE): lambda value: times.plain(value).date(),
    (SqlType.TIMESTAMP, SqlType.TIME): times.clock_time,
    (SqlType.TIMESTAMP, SqlType.VARCHAR): _text_of_time,
}
"""What makes a value of the second type of one of the first. It raises Failed if there is none."""


def to_decimal(source: SqlType, digits: int, scale: int) -> Callable[[Any], Decimal]:
    """What makes a DECIMAL(digits, scale) of a value of a type."""
    unit, limit = Decimal(1).scaleb(-scale), digits - scale

    def of(value: Any) -> Decimal:
        if source is SqlType.VARCHAR:
            number = _number_of_text(value, SqlType.DECIMAL)
        else:
            number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if not number.is_finite() or (number and number.adjusted() >= limit):
            raise _no(value, SqlType.DECIMAL)
        cut = number.quantize(unit, "ROUND_HALF_UP", DECIMALS_QUIET)
        if cut and cut.adjusted() >= limit:
            raise _no(value, SqlType.DECIMAL)
        return cut

    return of


DECIMALS_QUIET = DECIMALS.copy()
DECIMALS_QUIET.clear_traps()
