"""What tells a row from others by its values alone, so that a later row can take it back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from fulmen.api.components import FailedException
from fulmen.errors import PASSED_ON, repr_of
from fulmen.windows.joins.known_rows import Id
from fulmen.windows.joins.side_rows import Row

_AS_THEY_ARE = frozenset({str, int, bool, bytes, date, type(None)})


def row_id(row: Row) -> Id:
    """Make an id that equal rows have, and no others. 1, 1.0 and True are equal, as in Python.

    NaN is equal to NaN here, as it is in SQL when rows are compared as a whole.

    Raises:
        FailedException: A value has no hash, so that the row could not be found again.
    """
    if _AS_THEY_ARE.issuperset(map(type, row)):
        return tuple(row)
    return tuple(map(_hashable, row))


def _hashable(value: Any) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, list | tuple):
        return ("list", *map(_hashable, value))
    if isinstance(value, Mapping):
        items = [(_hashable(key), _hashable(of)) for key, of in value.items()]
        return ("mapping", *sorted(items, key=repr))
    try:
        hash(value)
        return value if value == value else ("NaN",)
    except PASSED_ON:
        raise
    except BaseException as error:
        shown = repr_of(value)[:80]
        raise FailedException(
            f"a row has {shown}, which is not hashable: it could not be taken back. Emit it as text"
        ) from error
