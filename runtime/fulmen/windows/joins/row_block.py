"""Rows that are pickled by columns: half of the time, as no container is written for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_
from typing import Any

MOST_FIELDS = 64
_FEW = 8
"""So few rows are pickled as they are."""
_DEPTH = 3
"""A row, a tuple or list in it, and what is in that one."""


class RowBlock(list[Any]):
    """A list of rows, each a list or a tuple, which is pickled by columns. It is read as a list."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., list[Any]], tuple[Any, ...]]:
        return read_values, (len(self), _written(self) if len(self) > _FEW else [*self])


def _written(values: Sequence[Any], depth: int = _DEPTH) -> Any:
    """A column as it is pickled.

    A list of the values; or the type of all of them and a column for each place; or the one value
    that all of them are.
    """
    first = values[0]
    if first is values[-1] and all(map(is_, values, repeat(first))):
        return (first,)
    kind = type(first)
    if not depth or kind not in (list, tuple) or not 0 < len(first) <= MOST_FIELDS:
        return [*values]
    if set(map(type, values)) != {kind} or set(map(len, values)) != {len(first)}:
        return [*values]
    columns = [[row[i] for row in values] for i in range(len(first))]
    return kind is list, [_written(column, depth - 1) for column in columns]


def read_values(n: int, column: Any) -> list[Any]:
    """Read a column of so many values. What was pickled calls it."""
    if type(column) is list:
        return column
    if len(column) == 1:
        return [column[0]] * n
    are_lists, columns = column
    rows = zip(*(read_values(n, one) for one in columns), strict=True)
    return [*map(list, rows)] if are_lists else [*rows]
