"""Values as PostgreSQL reads them from text, and whole columns of them.

Rows are written as text, which the server turns into the types of the columns. That is as fast as
the binary format, needs no table of types here, and is the same for INSERT and COPY.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache
from types import NoneType
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import psycopg
from psycopg.adapt import PyFormat, Transformer

from fulmen.connectors.formats import DEFAULT, Malformed, natural
from fulmen.connectors.sql.tables import each_value
from fulmen.errors import repr_of
from fulmen.services.sql.arrays import in_quotes
from fulmen.visible import is_text

Kind = Literal["text", "number", "time", "bytes", "json", "array", "other"]
LIMITS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
CLOCKS = ("time", "timetz")
WRITABLE = 10**4000
"""Python writes integers of 4,300 digits, and no longer ones."""
Text = str | None


class Rules(NamedTuple):
    """The sink's options about values that would lose something.

    Attributes:
        zone: The time zone of times that have none, and of columns that have none.
        rounds: Whether the server may round numbers and times.
    """

    zone: ZoneInfo | None = None
    rounds: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        type: Its type, as a cast has it.
        kind: What kind of type.
        exact: Its type with what is in brackets, such as `numeric(6,2)`.
        element: What an array has, as a column.
        base: The name of its type, as the server has it, or of the type of its domain.
        places: So many digits behind the point are kept. None: it does not matter.
        zone: The time zone of times that have none, and of columns that have none.
    """

    name: str
    type: str
    kind: Kind
    exact: str = ""
    element: Column | None = None
    base: str = ""
    places: int | None = None
    zone: ZoneInfo | None = None


def texts(
    column: Column, values: Sequence[Any], refuse: Callable[[int, str], None]
) -> Sequence[Text]:
    """The values of a column as text; None is NULL.

    Args:
        column: The column.
        values: One for each row.
        refuse: Is told of a row whose value does not fit, and why. There is a None for it.
    """
    has_null = NoneType in set(map(type, values))
    given = [value for value in values if value is not None] if has_null else values
    if (made := _at_once(column, given)) is None:
        return each_value(column.name, values, lambda value: text_of(column, value), refuse)
    if len(made) == len(values):
        return made
    rest = iter(made)
    return [None if value is None else next(rest) for value in values]


def _at_once(column: Column, values: Sequence[Any]) -> Sequence[str] | None:
    """The usual columns in a tenth of the time. None: it is another one."""
    kinds = set(map(type, values))
    if kinds == {int} and column.kind in ("number", "text") and (column.places or 0) >= 0:
        limit = LIMITS.get(column.base, WRITABLE)
        if min(values) >= -limit and max(values) < limit:
            return list(map(str, values))
    elif kinds == {datetime} and column.places in (6, None):
        if column.base == "timestamptz":
            zone = column.zone or UTC
            return [str(at if at.tzinfo is not None else at.replace(tzinfo=zone)) for at in values]
        if column.base == "timestamp" and all(at.tzinfo is None for at in values):
            return list(map(str, values))
    elif kinds == {str} and _takes_text(column) and _is_text("".join(values)):
        return values
    return None


def _takes_text(column: Column) -> bool:
    """Whether text goes to a column as it is."""
    return column.kind in ("text", "number", "other") and column.places is None


def text_of(column: Column, value: Any) -> Text:
    """Write one value as text.

    Raises:
        Malformed: It can't be a value of that column.
    """
    if value is None:
        return None
    if column.kind == "json":
        return DEFAULT.dumps(value).decode()
    value = natural(value)
    return None if value is None and column.kind != "text" else _text_of(column, value)


def _text_of(column: Column, value: Any) -> Text:
    if isinstance(value, bytes) and column.kind == "bytes":
        return "\\x" + value.hex()
    if column.kind == "bytes" or (isinstance(value, bytes) and column.kind != "text"):
        raise _wrong(column, value)
    if column.kind == "time":
        return _time(column, value)
    if column.places is not None:
        _refuse_rounding(column, value)
    if isinstance(value, int | float | Decimal):
        return _number(column, value)
    if isinstance(value, list | tuple) and column.kind != "text":
        return _array(column, value)
    is_as_everywhere = column.kind == "text" or isinstance(value, str)
    return _checked(DEFAULT.text(value) if is_as_everywhere else _dumped(column, value))


def _checked(text: str) -> str:
    if not _is_text(text):
        raise Malformed(f"{repr_of(text)} contains the character NUL or a lone surrogate")
    return text


def _number(column: Column, value: float | Decimal) -> str:
    if isinstance(value, bool) and column.kind == "number":
        raise _wrong(column, value)
    limit = LIMITS.get(column.base)
    if limit is not None and value == value:
        if not -limit <= value < limit:
            raise Malformed(f"{repr_of(value)} is out of the range of {column.type}")
        value = int(value) if int(value) == value else value
    return str(value) if type(value) is Decimal and value.is_finite() else DEFAULT.text(value)


def _refuse_rounding(column: Column, value: Any) -> None:
    """See that the server does not have to round a number, or a time span."""
    number = value
    if isinstance(value, timedelta):
        number = Decimal(value.microseconds).scaleb(-6)
    elif type(value) is not Decimal:
        try:
            number = Decimal(str(value))
        except InvalidOperation:  # the server says what is wrong
            return
    if not number.is_finite():
        return
    try:
        number.quantize(_last(column.places or 0), context=_EXACTLY)
    except Inexact:
        raise _rounded(column, value) from None
    except InvalidOperation:  # too many digits
        return


_EXACTLY = Context(prec=5000, traps=[Inexact, InvalidOperation])


@cache
def _last(places: int) -> Decimal:
    return Decimal(1).scaleb(-places)


def _rounded(column: Column, value: Any) -> Malformed:
    return Malformed(
        f"{repr_of(value)} would be rounded: the column is of type {column.exact}. Round it in a"
        " bolt, or write round: true"
    )


# ---- dates and times -----------------------------------------------------------------------------


def _time(column: Column, value: Any) -> str:
    """A date or time: what has a time zone keeps its moment, and what has none is one of UTC."""
    moment = _parsed(column, value) if isinstance(value, str) else value
    if moment is None:
        return _unparsed(column, value)
    is_clock, kept = column.base in CLOCKS, moment
    if isinstance(moment, time) != is_clock or not isinstance(moment, date | time):
        raise _wrong(column, value)
    if isinstance(moment, datetime) and column.base == "date":
        raise _lost(column, value, "a time of day", "Emit its `.date()`")
    if column.places is not None and _fraction(value) > column.places:
        raise _rounded(column, value)
    if column.base == "date":
        return str(moment)
    if not isinstance(moment, datetime | time):
        moment = datetime.combine(moment, time())
    has_zone = column.base.endswith("tz")
    if has_zone and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC if is_clock else column.zone or UTC)
    elif not has_zone and moment.tzinfo is not None:
        if column.zone is None or isinstance(moment, time):
            raise _zone_lost(column, value)
        moment = moment.astimezone(column.zone).replace(tzinfo=None)
    return value if moment is kept and isinstance(value, str) else str(moment)


def _parsed(column: Column, text: str) -> date | time | None:
    """A text that ISO 8601 has, as a value. None: it is none."""
    text = text.strip()
    try:
        if column.base in CLOCKS:
            return time.fromisoformat(text)
        return date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text)
    except ValueError:
        return None


def _unparsed(column: Column, text: str) -> str:
    """Another text, such as `infinity`, or a year that Python has not: the server reads it."""
    _checked(text)
    if _CLOCK.search(text):
        if column.base == "date":
            raise _lost(column, text, "a time of day", "Emit the day alone")
        has_zone = _ZONE.search(text) is not None
        if has_zone and not column.base.endswith("tz"):
            raise _zone_lost(column, text)
        if not has_zone and column.base == "timestamptz":
            return f"{text} {column.zone or 'UTC'}"
    return text


_CLOCK = re.compile(r"\d:\d")
_ZONE = re.compile(r":[\d.]+\s*([-+]\d[\d:]*|[A-Za-z]{3,}|[A-Za-z]+/\w+|[Zz])\s*(BC)?\s*$")


def _fraction(value: Any) -> int:
    """The number of digits that a time has behind its seconds."""
    found = re.search(r"[.,](\d+)", str(value))
    return len(found[1].rstrip("0")) if found else 0


def _zone_lost(column: Column, value: Any) -> Malformed:
    cure = "Write timezone: the zone of its times, or make the column a timestamptz"
    if column.base == "time":
        cure = "Take it off in a bolt, or make the column a timetz"
    return _lost(column, value, "a time zone", cure)


def _lost(column: Column, value: Any, what: str, cure: str) -> Malformed:
    return Malformed(
        f"{str(value)!r:.60} has {what}, which the column of type {column.type} would lose. {cure}"
    )


# ---- arrays and texts ----------------------------------------------------------------------------


def _array(column: Column, values: Sequence[Any]) -> str:
    """An array. One of JSON has no dimensions, since its values may be lists."""
    if (element := column.element) is None:
        raise _wrong(column, values)
    elements: list[str] = []
    for value in values:
        inner = None if element.kind == "json" else natural(value)
        if isinstance(inner, list | tuple):
            elements.append(_array(column, inner))
        else:
            text = text_of(element, value)
            elements.append("NULL" if text is None else f'"{in_quotes(text)}"')
    return "{" + (";" if element.type == "box" else ",").join(elements) + "}"


def _is_text(text: str) -> bool:
    return "\0" not in text and is_text(text)


def _dumped(column: Column, value: Any) -> str:
    try:
        data = Transformer().get_dumper(value, PyFormat.TEXT).dump(value)
    except (psycopg.Error, ValueError, TypeError):
        raise _wrong(column, value) from None
    return "" if data is None else bytes(data).decode()


def _wrong(column: Column, value: Any) -> Malformed:
    return Malformed(
        f"{repr_of(value)} is of type {type(value).__name__}, and the column is of type"
        f" {column.type}"
    )


# ---- many of them at once ------------------------------------------------------------------------


def lines(columns: Sequence[Sequence[Text]]) -> bytes:
    """Rows as COPY reads them."""
    escaped = [_escaped(column) for column in columns]
    rows = map("\t".join, zip(*escaped, strict=True))
    return ("\n".join(rows) + "\n").encode()


def _escaped(column: Sequence[Text]) -> Sequence[str]:
    if None not in column:
        joined = "".join(column)  # type: ignore[arg-type]
        if not any(special in joined for special in _SPECIAL):
            return column  # type: ignore[return-value]
    return ["\\N" if value is None else value.translate(_SPECIAL_TABLE) for value in column]


_SPECIAL = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_SPECIAL_TABLE = str.maketrans(_SPECIAL)
