"""Lists of keys, or of values, as columns: what is of one kind takes its bytes and no more. Pure.

A segment has many keys and values of the same few types. As columns they are written and read at
once, and not object by object. A column is plain values, which are pickled with their block:

    a list                       the values as they are
    ("=", value)                 the same value each time
    ("i", width, bytes)          whole numbers of so many bytes, little-endian, with a sign
    ("f", bytes)                 floats of eight bytes, little-endian
    ("s", width, bytes, bytes)   texts: how many characters each has, as in "i"; the UTF-8 of all
    ("t", columns)               tuples of one length: a column for each place
    ("?", bytes, column)         a byte for each value, 0 for None; a column of the others

What is read is equal to what was written, and of the same types.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, compress, pairwise, repeat
from operator import is_, is_not, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.engine.state.entries.measures import DEPTH, SHORT

Column = list[Any] | tuple[Any, ...]
Whole = npt.NDArray[np.int64]
FEW = 32
"""So many values stay a list: it is smaller then, and faster."""
_SAMPLE = 64
_DIFFERENT = 48
"""With fewer different texts among the first ones, pickle writes each once, and all that are equal
are one object when they are read."""
_WIDTHS = (1, 2, 4, 8)
_PLAIN = {int, float, str, bytes, bool, type(None)}


def column_of(values: Sequence[Any], depth: int = DEPTH) -> Column:
    """Turn a list into a column."""
    if len(values) <= FEW:
        return list(values)
    found = _column_of(values, depth)
    return list(values) if found is None else found


def _column_of(values: Sequence[Any], depth: int) -> Column | None:
    """The column of values of one kind; None: they are none, or a list is better."""
    first = values[0]
    if type(first) in _PLAIN and all(map(is_, values, repeat(first))):
        return constant_column(first)
    kinds = set(map(type, values))
    if len(kinds) == 2 and type(None) in kinds:
        there = list(map(is_not, values, repeat(None)))
        inner = _column_of(list(compress(values, there)), depth)
        return None if inner is None else optional_column(bytes(there), inner)
    if len(kinds) > 1:
        return None
    [kind] = kinds
    if kind is int:
        try:
            return whole_column(np.fromiter(values, np.int64, len(values)))
        except OverflowError:
            return None
    if kind is float:
        return float_column(np.fromiter(values, np.float64, len(values)))
    if kind is str:
        return _texts(values)
    return _tuples(values, depth - 1) if kind is tuple and depth else None


def constant_column(value: Any) -> Column:
    """The column of a value that is there each time."""
    return ("=", value)


def whole_column(numbers: Whole) -> Column:
    """The column of whole numbers."""
    most = max(int(numbers.max(initial=0)), -1 - int(numbers.min(initial=0)))
    width = next(width for width in _WIDTHS if most >> (8 * width - 1) == 0)
    return ("i", width, numbers.astype(f"<i{width}").tobytes())


def float_column(numbers: npt.NDArray[np.float64]) -> Column:
    """The column of floats."""
    return ("f", numbers.astype("<f8").tobytes())


def _texts(values: Sequence[str]) -> Column | None:
    some = values[:_SAMPLE]
    if len(set(some)) * _SAMPLE < _DIFFERENT * len(some):
        return None
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return text_column(lengths, "".join(values).encode("utf-8", "surrogatepass"))


def text_column(lengths: Whole, data: bytes) -> Column:
    """The column of texts: how many characters each has, and the UTF-8 of all."""
    return ("s", *whole_column(lengths)[1:], data)


def _tuples(values: Sequence[Any], depth: int) -> Column | None:
    widths = set(map(len, values))
    width = widths.pop()
    if widths or not 0 < width <= SHORT:
        return None
    return tuple_column([column_of(list(map(itemgetter(i), values)), depth) for i in range(width)])


def tuple_column(columns: Sequence[Column]) -> Column:
    """The column of tuples, of the columns of their places."""
    return ("t", list(columns))


def optional_column(there: bytes, column: Column) -> Column:
    """The column of values that may be None: a byte for each, and the column of the others."""
    return ("?", there, column)


def values_in(column: Any, n: int) -> Sequence[Any]:
    """Read the column of so many values.

    Raises:
        ValueError: It is none, or of another number of values.
    """
    values = column if type(column) is list else _values_in(column, n)
    if len(values) != n:
        raise ValueError(f"{len(values)} values where {n} are wanted")
    return values


def _values_in(column: Any, n: int) -> list[Any]:
    match column:
        case ("=", value):
            return [value] * n
        case ("i", width, bytes(data)):
            return _whole(width, data)
        case ("f", bytes(data)):
            return np.frombuffer(data, "<f8").tolist()  # type: ignore[no-any-return]
        case ("s", width, bytes(lengths), bytes(data)):
            return _texts_in(_whole(width, lengths), data.decode("utf-8", "surrogatepass"))
        case ("t", [_, *_] as columns):
            return list(zip(*(values_in(one, n) for one in columns), strict=True))
        case ("?", bytes(there), inner):
            values = iter(values_in(inner, len(there) - there.count(0)))
            return [next(values) if one else None for one in there]
    raise ValueError("no column of values")


def _texts_in(lengths: list[int], text: str) -> list[str]:
    if min(lengths, default=0) < 0 or sum(lengths) != len(text):
        raise ValueError("texts of other lengths than their own")
    return [text[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


def _whole(width: int, data: bytes) -> list[int]:
    if width not in _WIDTHS:
        raise ValueError(f"numbers of {width!r} bytes")
    return np.frombuffer(data, f"<i{width}").tolist()  # type: ignore[no-any-return]
