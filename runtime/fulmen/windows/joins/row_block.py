"""Rows that are pickled by columns: half of the time, as no container is written for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat, starmap
from operator import is_
from typing import Any

MOST_FIELDS = 64
_FEW = 8
"""So few rows are pickled as they are."""
_DEPTH = 3
"""A row, a tuple or list in it, and what is in that one."""


Piece = tuple[int, Any]
"""How many rows, and their column as it is pickled, see `_written`."""


class RowBlock(list[Any]):
    """A list of rows, each a list or a tuple, which is pickled by columns. It is read as a list.

    Attributes:
        pieces: All of it as columns that were at hand, for the first time that it is pickled.
    """

    __slots__ = ("pieces",)

    def __init__(self, rows: list[Any], pieces: Sequence[Piece] = ()) -> None:
        super().__init__(rows)
        self.pieces = pieces

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., list[Any]], tuple[Any, ...]]:
        pieces, self.pieces = self.pieces, ()
        return read_rows, (pieces or [piece_of(self)],)


def piece_of(rows: list[Any]) -> Piece:
    """These rows as columns; few of them as they are."""
    return len(rows), _written(rows) if len(rows) > _FEW else [*rows]


def lists(columns: Iterable[Any]) -> Any:
    """The column of lists, of the columns of their places: lists of values, ranges, or as here."""
    return True, [*columns]


def tuples(columns: Iterable[Any]) -> Any:
    """The column of tuples. As `lists`."""
    return False, [*columns]


def constant(value: Any) -> Any:
    """The column of a value that is there each time."""
    return (value,)


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


def read_rows(pieces: Sequence[Piece]) -> list[Any]:
    """Read rows. What was pickled calls it."""
    if len(pieces) == 1:
        return [*_read(*pieces[0])]
    return [*chain.from_iterable(starmap(_read, pieces))]


def _read(n: int, column: Any) -> Sequence[Any]:
    if type(column) is list or type(column) is range:
        return column
    if len(column) == 1:
        return [column[0]] * n
    are_lists, columns = column
    rows = zip(*(_read(n, one) for one in columns), strict=True)
    return [*map(list, rows)] if are_lists else [*rows]
