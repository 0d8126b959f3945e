"""Values as SQLite keeps them: None, int, float, str and bytes."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal

from fulmen.connectors.formats import DEFAULT, Malformed, checked_text, natural
from fulmen.connectors.formats.types import Convert, converter
from fulmen.connectors.sql.tables import each_value
from fulmen.errors import repr_of
from fulmen.visible import is_text

Value = None | int | float | str | bytes
Affinity = Literal["none", "numeric", "real"]
LARGEST = (1 << 63) - 1
EXACT_FLOATS = 1 << 53
"""Up to here each whole number is a float."""
AS_THEY_ARE: frozenset[type] = frozenset({str, float, bytes, type(None)})


def affinity_of(declared: str) -> Affinity:
    """The affinity of a column, by its declared type, as SQLite's documentation has it."""
    kind = declared.upper()
    if "INT" in kind:
        return "numeric"
    if not kind or any(word in kind for word in ("CHAR", "CLOB", "TEXT", "BLOB")):
        return "none"
    return "real" if any(word in kind for word in ("REAL", "FLOA", "DOUB")) else "numeric"


def values_of(
    column: str,
    values: Sequence[Any],
    refuse: Callable[[int, str], None],
    affinity: Affinity = "none",
) -> Sequence[Value]:
    """The values of a column as SQLite takes them.

    Args:
        column: Its name.
        values: One for each row.
        refuse: Is told of a row whose value does not fit, and why. There is a None for it.
        affinity: The column's.
    """
    kinds = set(map(type, values))
    if (
        kinds <= AS_THEY_ARE
        and (str not in kinds or _are_text(values))
        and (float not in kinds or not _have_nan(values))
    ):
        return values
    most = EXACT_FLOATS if affinity == "real" else LARGEST
    if kinds == {int} and min(values) >= -most and max(values) <= most:
        return values
    return each_value(column, values, lambda value: value_of(value, affinity), refuse)


def _are_text(values: Sequence[Any]) -> bool:
    return is_text("".join(value for value in values if isinstance(value, str)))


def _have_nan(values: Sequence[Any]) -> bool:
    return any(value != value for value in values)


def value_of(value: Any, affinity: Affinity = "none") -> Value:
    """Turn a value into one that SQLite takes.

    Raises:
        Malformed: SQLite has nothing like it.
    """
    value = natural(value)
    match value:
        case None | bytes():
            return value
        case float():
            if value != value:
                raise Malformed("SQLite has no NaN: it would be NULL. Emit None instead")
            return float(value)
        case int():
            if not -LARGEST - 1 <= value <= LARGEST:
                raise Malformed(f"{repr_of(value)} has more than 64 bits. Emit it as text")
            if affinity == "real":
                _refuse_rounding(value, affinity)
            return int(value)
        case Decimal() if affinity != "none":
            _refuse_rounding(value, affinity)
    return checked_text(DEFAULT.text(value))


def _refuse_rounding(value: int | Decimal, affinity: Affinity) -> None:
    """See that SQLite does not make a float of a number that no float equals."""
    number = Decimal(value)
    if not number.is_finite():
        return
    is_whole = -LARGEST - 1 <= number <= LARGEST and number == number.to_integral_value()
    if is_whole and affinity == "numeric":
        return
    rounded = float(number)
    if rounded != number and Decimal(repr(rounded)) != number:
        raise Malformed(
            f"{repr_of(value)} has more digits than a number in SQLite. Round it in a bolt, or make"
            " the column TEXT"
        )


def typed_as(kind: str) -> Convert:
    """A function that makes a value of this type of one of SQLite's. None stays None.

    SQLite has no booleans, decimals or times: a boolean is 0 or 1, a decimal may be a float, and
    all else is text. It raises Malformed for what is none.
    """
    convert = converter(kind)

    def made(value: Any) -> Any:
        if type(value) is bytes:
            return _of_bytes(value, kind)
        if kind == "bool" and type(value) is int and value in (0, 1):
            return bool(value)
        if kind == "decimal" and type(value) is float and math.isfinite(value):
            return Decimal(repr(value))
        return convert(value)

    return made


def _of_bytes(value: bytes, kind: str) -> Any:
    if kind in ("binary", "base64"):
        return value
    if kind == "string":
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    raise Malformed(f"{repr_of(value, 50)} is no {kind}")


@contextmanager
def lenient(db: sqlite3.Connection) -> Iterator[None]:
    """Read text that is no UTF-8 as bytes, in the block: no row may stop a source."""
    before, db.text_factory = db.text_factory, _text_or_bytes
    try:
        yield
    finally:
        db.text_factory = before


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
