"""Values as Parquet keeps them: exactly, or refused.

Arrow's own conversions cut 1.5 to a 1, the time off a date, and make infinity of a number that is
too large, without a word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from fulmen.connectors.formats import DEFAULT, Malformed, checked_text, natural
from fulmen.connectors.formats.types import LARGEST_FLOAT32
from fulmen.errors import repr_of
from fulmen.visible import is_text

Convert = Callable[[Any], Any]
DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
MOST_DIGITS = 38
_ARROW = {
    "date32": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "bool": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}


def arrow_type(kind: str) -> pa.DataType:
    """The type of a column, by the name that a topology's file has."""
    if found := DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _ARROW[kind]


_IS: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "string": (pat.is_string, pat.is_large_string),
    "binary": (pat.is_binary, pat.is_large_binary, pat.is_fixed_size_binary),
    "bool": (pat.is_boolean,),
    "int32": (pat.is_int8, pat.is_int16, pat.is_int32, pat.is_uint8, pat.is_uint16),
    "int64": (pat.is_signed_integer, pat.is_uint8, pat.is_uint16, pat.is_uint32),
    "float32": (pat.is_float16, pat.is_float32),
    "float64": (pat.is_floating,),
    "date32": (pat.is_date,),
    "time": (pat.is_time,),
    "timestamp": (pat.is_timestamp,),
}


def is_of(kind: str, found: pa.DataType) -> bool:
    """Whether all values of a column are values of this type, by the name that a file has.

    pandas writes categories as a dictionary, and a column in which all is missing without a type.
    """
    if pat.is_dictionary(found):
        return is_of(kind, found.value_type)
    if pat.is_null(found):
        return True
    if DECIMAL.fullmatch(kind):
        wanted = arrow_type(kind)
        return bool(
            pat.is_decimal(found)
            and found.scale <= wanted.scale
            and found.precision - found.scale <= wanted.precision - wanted.scale
        )
    return any(are(found) for are in _IS[kind])


def column(kind: str) -> Convert:
    """A function that makes what a column keeps of a value. None is null.

    It raises Malformed for a value that the column can't have, with what it would take.
    """
    made = _MADE.get(kind) or _decimals(arrow_type(kind))

    def convert(value: Any) -> Any:
        if value is None:
            return None
        value = natural(value)
        return None if value is None and kind != "string" else made(value, kind)

    return convert


def all_fit(kind: str, values: Sequence[Any]) -> bool:
    """Whether a column keeps each of these as it is. False: that is not sure."""
    found = set(map(type, values)) - {type(None)}
    if not found:
        return True
    if found != {_KEPT.get(kind, Decimal)}:
        return False
    if kind in _LIMITS:
        numbers = [value for value in values if value is not None]
        return bool(-_LIMITS[kind] <= min(numbers) and max(numbers) < _LIMITS[kind])
    if kind == "string":
        return is_text("".join(filter(None, values)))
    if kind == "time":
        return all(value is None or value.tzinfo is None for value in values)
    if kind not in _KEPT:
        try:
            pa.array(set(values), arrow_type(kind))
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
            return False
    return True


def _refused(value: Any, kind: str) -> Malformed:
    cure = ""
    if isinstance(value, str):
        cure = f". Give the field its type where it is read: `fields: {{NAME: {kind}}}`"
    return Malformed(f"{type(value).__name__} {repr_of(value, 50)} is no {kind}{cure}")


def _text(value: Any, _kind: str) -> str:
    return checked_text(DEFAULT.text(value))


def _binary(value: Any, kind: str) -> bytes:
    if isinstance(value, str):
        return checked_text(value).encode()
    if not isinstance(value, bytes):
        raise _refused(value, kind)
    return value


def _integer(value: Any, kind: str) -> int:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    limit = _LIMITS[kind]
    try:
        if is_number and -limit <= value < limit and int(value) == value:
            return int(value)
    except InvalidOperation:  # a NaN is compared
        pass
    raise _refused(value, kind)


def _float(value: Any, kind: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _refused(value, kind)
    try:
        number = float(value)
    except (OverflowError, ValueError):  # a signalling NaN
        raise _refused(value, kind) from None
    kept = np.float32(number) if kind == "float32" and abs(number) <= LARGEST_FLOAT32 else number
    is_inexact = isinstance(value, int) and int(kept) != value
    is_too_large = math.isfinite(value) and math.isinf(number)
    if kind == "float32":
        is_too_large |= math.isfinite(number) and abs(number) > LARGEST_FLOAT32
    if is_inexact or is_too_large:
        raise _refused(value, kind)
    return number


_KEPT: Mapping[str, type] = {
    "string": str,
    "binary": bytes,
    "bool": bool,
    "int32": int,
    "int64": int,
    "float64": float,
    "date32": date,
    "time": time,
    "timestamp": datetime,
    "float32": type(None),  # of which some are too large
}
"""Of which Python's type a value is that its column keeps as it is. Others are of decimals."""
_FITS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "date32": lambda value: isinstance(value, date) and not isinstance(value, datetime),
    "time": lambda value: isinstance(value, time) and value.tzinfo is None,
    "timestamp": lambda value: (
        isinstance(value, datetime) and not getattr(value, "nanosecond", False)
    ),
}


def _as_it_is(value: Any, kind: str) -> Any:
    if not _FITS[kind](value):
        raise _refused(value, kind)
    return value


def _decimals(arrow: pa.DataType) -> Callable[[Any, str], Decimal]:
    def made(value: Any, kind: str) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _refused(value, kind)
        exact = Decimal(value)
        try:
            pa.scalar(exact, arrow)
        except (pa.ArrowException, ValueError, TypeError):
            raise _refused(value, kind) from None
        return exact

    return made


_MADE: dict[str, Callable[[Any, str], Any]] = {
    "string": _text,
    "binary": _binary,
    "bool": _as_it_is,
    "int32": _integer,
    "int64": _integer,
    "float32": _float,
    "float64": _float,
    "date32": _as_it_is,
    "time": _as_it_is,
    "timestamp": _as_it_is,
}
TYPES = tuple(_MADE)
"""All but decimals, which have digits."""
