"""Values as SQLite keeps them: None, int, float, str and bytes."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid  # noqa: TID251 (a type of values; none is made)
from collections.abc import Callable, Sequence
from typing import Any

from fulmen.errors import repr_of
from fulmen.transactional.columns import LARGEST, DoesNotFit

Value = None | int | float | str | bytes
AS_THEY_ARE: frozenset[type] = frozenset({str, float, bytes, type(None)})


def values_of(
    column: str, values: Sequence[Any], refuse: Callable[[int, str], None]
) -> Sequence[Value]:
    """The values of a column as SQLite takes them.

    Args:
        column: Its name.
        values: One for each row.
        refuse: Is told of a row whose value does not fit, and why. There is a None for it.
    """
    kinds = set(map(type, values))
    if kinds <= AS_THEY_ARE and (str not in kinds or _are_text(values)):
        return values
    if kinds == {int} and min(values) >= -LARGEST - 1 and max(values) <= LARGEST:
        return values
    found: list[Value] = []
    for i, value in enumerate(values):
        try:
            found.append(value_of(value))
        except DoesNotFit as error:
            refuse(i, f"column {column!r}: {error}")
            found.append(None)
    return found


def _are_text(values: Sequence[Any]) -> bool:
    joined = "".join(value for value in values if isinstance(value, str))
    try:
        return joined.isascii() or bool(joined.encode())
    except UnicodeEncodeError:
        return False


def value_of(value: Any) -> Value:
    """One value.

    Raises:
        DoesNotFit: SQLite has nothing like it.
    """
    match value:
        case None | float():
            return value
        case str():
            if not _are_text([value]):
                raise DoesNotFit(f"{repr_of(value)} is no Unicode text: it has a lone surrogate")
            return str(value)
        case int():
            if not -LARGEST - 1 <= value <= LARGEST:
                raise DoesNotFit(f"{repr_of(value)} has more than 64 bits")
            return int(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case dict() | list() | tuple():
            return _json(value)
    raise DoesNotFit(
        f"{repr_of(value)} is of type {type(value).__name__}, which SQLite has no value for"
    )


def _json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise DoesNotFit(f"{repr_of(value)} can't be written as JSON ({error})") from None
