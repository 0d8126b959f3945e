"""About how many bytes values take. Pure.

Exact would mean to pickle them. These estimates decide when a batch has enough in it, so that they
have to be cheap, and right within a factor of two for what fills memory: texts, bytes, arrays, and
containers of them. They call no code of an author's that could raise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fulmen.errors import PASSED_ON

SMALL: Final = 16
"""Bytes of a number and the like."""
SAMPLE: Final = 16
"""The number of elements of a container, or of many rows, whose size stands for that of all."""
_ROWS_EACH: Final = 1024
"""One of so many rows is looked at, and one at least: they come by the list."""
DEPTH: Final = 4
"""Containers further inside count as small."""

_WITH_LENGTH: Final = frozenset({str, bytes, bytearray})
_CONTAINERS: Final = frozenset({list, tuple, set, frozenset})
_IN_ORDER: Final = frozenset({list, tuple})
_SCALARS: Final = frozenset({int, float, bool, complex, type(None)})


def value_bytes(value: Any, depth: int = DEPTH) -> int:
    """About how many bytes a value takes."""
    kind = type(value)
    if kind in _WITH_LENGTH:
        return SMALL + len(value)
    if kind in _SCALARS:
        return SMALL
    if isinstance(value, np.ndarray | np.generic | pa.Array | pa.RecordBatch | pa.Table):
        return SMALL + int(value.nbytes)
    if depth == 0:
        return SMALL
    if kind in _IN_ORDER and len(value) <= SAMPLE:
        return _row_bytes(value, depth)
    if kind in _CONTAINERS:
        return _several(iter(value), len(value), depth)
    if kind is dict:
        keys, values = iter(value), iter(value.values())
        return _several(keys, len(value), depth) + _several(values, len(value), depth)
    return _object_bytes(value, depth)


def _row_bytes(values: Sequence[Any], depth: int) -> int:
    """The bytes of a few values, as rows have them: one call for those that are usual."""
    total = SMALL
    for value in values:
        kind = type(value)
        if kind in _WITH_LENGTH:
            total += SMALL + len(value)
        elif kind in _SCALARS:
            total += SMALL
        else:
            total += value_bytes(value, depth - 1)
    return total


def _object_bytes(value: Any, depth: int) -> int:
    """The bytes of an object of any class: those of its attributes."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = None
    if isinstance(held, Mapping) and held:
        return _several(iter(held.values()), len(held), depth)
    try:
        return sys.getsizeof(value, SMALL)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's __sizeof__ may raise anything)
        return SMALL


def _several(values: Iterator[Any], count: int, depth: int) -> int:
    """The bytes of `count` values: those at the front stand for all."""
    some = [value_bytes(value, depth - 1) for value in islice(values, SAMPLE)]
    return SMALL + (sum(some) * count // len(some) if some else 0)


def rows_bytes(rows: Sequence[Any], start: int = 0) -> int:
    """About how many bytes the rows from `start` on take: some of them stand for all."""
    count = len(rows) - start
    if count < _ROWS_EACH:
        return value_bytes(rows[start]) * count if count > 0 else 0
    looks = min(SAMPLE, 1 + count // _ROWS_EACH)
    some = [value_bytes(rows[i]) for i in range(start, len(rows), -(-count // looks))]
    return sum(some) * count // len(some)
