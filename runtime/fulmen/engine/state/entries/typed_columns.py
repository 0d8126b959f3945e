"""Keys or values of one kind as arrays: they are looked at once, and not for each use. Pure.

A commit measures its keys and values, hashes the keys, and divides both among blocks and groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import compress
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fulmen.engine.state.entries.measures import (
    DEPTH,
    FEW,
    HASH_MASK,
    SHORT,
    TUPLE_HASH,
    Numbers,
    crc32_of,
    kind_of,
    plain_sizes,
    width_of,
)
from fulmen.engine.state.entries.value_columns import FEW as FEW_IN_COLUMN
from fulmen.engine.state.entries.value_columns import (
    Column,
    column_of,
    constant_column,
    tuple_column,
    whole_column,
)

Rows = npt.NDArray[np.intp]
Where = slice | npt.NDArray[np.bool_]
_MODULUS = (1 << 61) - 1
"""Whole numbers are their own hashes, up to this one."""


class TypedColumn(ABC):
    """Values of one kind.

    Attributes:
        are_whole: Whether they are whole numbers, or tuples of whole numbers: then they have
            hashes.
    """

    are_whole = False

    @abstractmethod
    def sizes(self) -> Numbers:
        """The `quick_size` of each, or about that."""

    def hashes(self) -> Numbers:
        """The `stable_hash` of each. They are whole numbers, or of them."""
        raise NotImplementedError

    @abstractmethod
    def at(self, where: Where) -> TypedColumn:
        """Take some of them."""

    @abstractmethod
    def values(self, rows: Rows) -> Sequence[Any]:
        """Those at some places."""

    @abstractmethod
    def column(self, rows: Rows) -> Column:
        """The column of those at some places, see `value_columns`."""


def typed_column(values: Sequence[Any], depth: int = DEPTH) -> TypedColumn | None:
    """The values as arrays; None: they are few, of several kinds, or only pickling can tell."""
    if len(values) <= FEW:
        return None
    kind = kind_of(values)
    if kind is int:
        try:
            return _Whole(np.fromiter(values, np.int64, len(values)))
        except OverflowError:
            return None
    if kind is not tuple:
        sizes = plain_sizes(values, kind)
        return None if sizes is None else _Listed(values, sizes)
    if not depth or not (width := width_of(values)) or width > SHORT:
        return None
    parts = []
    for i in range(width):
        part = typed_column(list(map(itemgetter(i), values)), depth - 1)
        if part is None:
            return None
        parts.append(part)
    return _Tuples(parts)


class _Whole(TypedColumn):
    """Whole numbers."""

    are_whole = True

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    @override
    def sizes(self) -> Numbers:
        bits: Numbers = np.frexp(np.abs(self._numbers.astype(np.float64)))[1].astype(np.int64)
        return (bits >> 3) + 4

    @override
    def hashes(self) -> Numbers:
        numbers = self._numbers
        if len(numbers) and not -_MODULUS < numbers.min() <= numbers.max() < _MODULUS:
            numbers = np.fmod(numbers, _MODULUS)
        return np.where(numbers == -1, -2, numbers) & HASH_MASK

    @override
    def at(self, where: Where) -> _Whole:
        return _Whole(self._numbers[where])

    @override
    def values(self, rows: Rows) -> Sequence[Any]:
        found: list[int] = self._numbers[rows].tolist()
        return found

    @override
    def column(self, rows: Rows) -> Column:
        some = self._numbers[rows]
        if len(some) <= FEW_IN_COLUMN:
            return some.tolist()  # type: ignore[no-any-return]
        first = some[0]
        return constant_column(int(first)) if (some == first).all() else whole_column(some)


class _Listed(TypedColumn):
    """Other plain values, of these sizes."""

    def __init__(self, values: Sequence[Any], sizes: Numbers) -> None:
        self._values, self._sizes = values, sizes

    @override
    def sizes(self) -> Numbers:
        return self._sizes

    @override
    def at(self, where: Where) -> _Listed:
        some = self._values[where] if isinstance(where, slice) else [*compress(self._values, where)]
        return _Listed(some, self._sizes[where])

    @override
    def values(self, rows: Rows) -> Sequence[Any]:
        return taken(self._values, rows.tolist())

    @override
    def column(self, rows: Rows) -> Column:
        return column_of(self.values(rows))


class _Tuples(TypedColumn):
    """Tuples of one length."""

    def __init__(self, parts: Sequence[TypedColumn]) -> None:
        self._parts = parts
        self.are_whole = all(part.are_whole for part in parts)

    @override
    def sizes(self) -> Numbers:
        total: Numbers = np.sum([part.sizes() for part in self._parts], axis=0) + 2
        return total

    @override
    def hashes(self) -> Numbers:
        parts = [part.hashes() for part in self._parts]
        numbers: Numbers = np.full(len(parts[0]), TUPLE_HASH, np.int64)
        for one in parts:
            numbers = crc32_of(one, numbers)
        return numbers

    @override
    def at(self, where: Where) -> _Tuples:
        return _Tuples([part.at(where) for part in self._parts])

    @override
    def values(self, rows: Rows) -> Sequence[Any]:
        return list(zip(*(part.values(rows) for part in self._parts), strict=True))

    @override
    def column(self, rows: Rows) -> Column:
        if len(rows) <= FEW_IN_COLUMN:
            return [*self.values(rows)]
        return tuple_column([part.column(rows) for part in self._parts])


def taken(values: Sequence[Any], some: Sequence[int]) -> Sequence[Any]:
    """The values at some places, by one call for all."""
    if len(some) < 2:
        return [values[i] for i in some]
    found: Sequence[Any] = itemgetter(*some)(values)
    return found
