"""Keys or values of one kind as arrays: they are looked at once, and not for each use. Pure.

A commit measures its keys and values, hashes the keys, and divides both among blocks and groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain, compress
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
_AT_ONCE = 512
"""So many values are made arrays at once: they are looked at several times, and stay in the
processor's cache meanwhile."""
_MODULUS = (1 << 61) - 1
"""Whole numbers are their own hashes, up to this one."""


class TypedColumn(ABC):
    """Values of one kind."""

    @abstractmethod
    def is_like(self, other: TypedColumn) -> bool:
        """Whether another one is of the same kind."""

    @abstractmethod
    def joined(self, parts: Sequence[Any]) -> TypedColumn:
        """One column of several of the same kind."""

    @abstractmethod
    def sizes(self) -> Numbers:
        """The `quick_size` of each, or about that."""

    @abstractmethod
    def at(self, where: Where) -> TypedColumn:
        """Take some of them."""

    @abstractmethod
    def values(self, rows: Rows) -> Sequence[Any]:
        """Those at some places."""

    @abstractmethod
    def column(self, rows: Rows) -> Column:
        """The column of those at some places, see `value_columns`."""


class HashedColumn(TypedColumn):
    """Values whose hashes are computed all at once: whole numbers, or tuples of them."""

    @abstractmethod
    def hashes(self) -> Numbers:
        """The `stable_hash` of each."""


def typed_column(values: Sequence[Any], depth: int = DEPTH) -> TypedColumn | None:
    """The values as arrays; None: they are few, of several kinds, or only pickling can tell."""
    if len(values) <= FEW:
        return None
    parts: list[TypedColumn] = []
    for start in range(0, len(values), _AT_ONCE):
        part = _typed(values[start : start + _AT_ONCE], depth)
        if part is None or (parts and not part.is_like(parts[0])):
            return None
        parts.append(part)
    return parts[0].joined(parts)


def _typed(values: Sequence[Any], depth: int) -> TypedColumn | None:
    kind = kind_of(values)
    if kind is int:
        try:
            return _Whole(np.fromiter(values, np.int64, len(values)))
        except OverflowError:
            return None
    if kind is not tuple:
        sizes = plain_sizes(values, kind)
        return None if sizes is None or kind is None else _Listed(kind, values, sizes)
    if not depth or not (width := width_of(values)) or width > SHORT:
        return None
    parts = [_typed(column, depth - 1) for column in zip(*values, strict=True)]
    there = [part for part in parts if part is not None]
    return _tuples(there) if len(there) == width else None


class _Whole(HashedColumn):
    """Whole numbers.

    Attributes:
        numbers: They.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers

    @override
    def is_like(self, other: TypedColumn) -> bool:
        return isinstance(other, _Whole)

    @override
    def joined(self, parts: Sequence[_Whole]) -> _Whole:
        return _Whole(np.concatenate([part.numbers for part in parts]))

    @override
    def sizes(self) -> Numbers:
        bits: Numbers = np.frexp(np.abs(self.numbers.astype(np.float64)))[1].astype(np.int64)
        return (bits >> 3) + 4

    @override
    def hashes(self) -> Numbers:
        numbers = self.numbers
        if len(numbers) and not -_MODULUS < numbers.min() <= numbers.max() < _MODULUS:
            numbers = np.fmod(numbers, _MODULUS)
        return np.where(numbers == -1, -2, numbers) & HASH_MASK

    @override
    def at(self, where: Where) -> _Whole:
        return _Whole(self.numbers[where])

    @override
    def values(self, rows: Rows) -> Sequence[Any]:
        found: list[int] = self.numbers[rows].tolist()
        return found

    @override
    def column(self, rows: Rows) -> Column:
        some = self.numbers[rows]
        if len(some) <= FEW_IN_COLUMN:
            return some.tolist()  # type: ignore[no-any-return]
        first = some[0]
        return constant_column(int(first)) if (some == first).all() else whole_column(some)


class _Listed(TypedColumn):
    """Other plain values of one type.

    Attributes:
        kind: The type.
        items: They.
        own_sizes: The size of each.
    """

    def __init__(self, kind: type, values: Sequence[Any], sizes: Numbers) -> None:
        self.kind, self.items, self.own_sizes = kind, values, sizes

    @override
    def is_like(self, other: TypedColumn) -> bool:
        return isinstance(other, _Listed) and self.kind is other.kind

    @override
    def joined(self, parts: Sequence[_Listed]) -> _Listed:
        values = [*chain.from_iterable(part.items for part in parts)]
        return _Listed(self.kind, values, np.concatenate([part.own_sizes for part in parts]))

    @override
    def sizes(self) -> Numbers:
        return self.own_sizes

    @override
    def at(self, where: Where) -> _Listed:
        some = self.items[where] if isinstance(where, slice) else [*compress(self.items, where)]
        return _Listed(self.kind, some, self.own_sizes[where])

    @override
    def values(self, rows: Rows) -> Sequence[Any]:
        return taken(self.items, rows.tolist())

    @override
    def column(self, rows: Rows) -> Column:
        return column_of(self.values(rows))


class _Tuples(TypedColumn):
    """Tuples of one length.

    Attributes:
        parts: A column for each place.
    """

    def __init__(self, parts: Sequence[TypedColumn]) -> None:
        self.parts = parts

    @override
    def is_like(self, other: TypedColumn) -> bool:
        if not isinstance(other, _Tuples) or len(self.parts) != len(other.parts):
            return False
        return all(a.is_like(b) for a, b in zip(self.parts, other.parts, strict=True))

    @override
    def joined(self, parts: Sequence[_Tuples]) -> _Tuples:
        columns = zip(*(part.parts for part in parts), strict=True)
        return _tuples([one[0].joined(one) for one in columns])

    @override
    def sizes(self) -> Numbers:
        total: Numbers = np.sum([part.sizes() for part in self.parts], axis=0) + 2
        return total

    @override
    def at(self, where: Where) -> _Tuples:
        return _tuples([part.at(where) for part in self.parts])

    @override
    def values(self, rows: Rows) -> Sequence[Any]:
        return list(zip(*(part.values(rows) for part in self.parts), strict=True))

    @override
    def column(self, rows: Rows) -> Column:
        if len(rows) <= FEW_IN_COLUMN:
            return [*self.values(rows)]
        return tuple_column([part.column(rows) for part in self.parts])


class _HashedTuples(_Tuples, HashedColumn):
    """Tuples of values that have hashes."""

    parts: Sequence[HashedColumn]

    @override
    def hashes(self) -> Numbers:
        parts = [part.hashes() for part in self.parts]
        numbers: Numbers = np.full(len(parts[0]), TUPLE_HASH, np.int64)
        for one in parts:
            numbers = crc32_of(one, numbers)
        return numbers


def _tuples(parts: Sequence[TypedColumn]) -> _Tuples:
    """The tuples of these columns."""
    is_hashed = all(isinstance(part, HashedColumn) for part in parts)
    return (_HashedTuples if is_hashed else _Tuples)(parts)


def taken(values: Sequence[Any], some: Sequence[int]) -> Sequence[Any]:
    """The values at some places, by one call for all."""
    if len(some) < 2:
        return [values[i] for i in some]
    found: Sequence[Any] = itemgetter(*some)(values)
    return found
