"""How the entries of a commit become segments: which are in which, and in which block of it. Pure.

Of small entries, as many as fit are in a segment; a large value has one of its own. With several
blocks, a key is in the block that its hash says; those without a hash that is the same in every
process are in the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.engine.state.entries.measures import (
    KeyMeasures,
    Numbers,
    hashes_of,
    sizes_of,
)
from fulmen.engine.state.entries.segment_blocks import (
    SEGMENT_BYTES,
    BlockParts,
    Group,
    Loads,
    block_count,
    blocks_in,
    blocks_of,
    check_block,
    content_of,
    group_of,
    pickled_block,
    segment_of,
)
from fulmen.engine.state.entries.segments import ALONE_BYTES
from fulmen.engine.state.entries.typed_columns import HashedColumn, TypedColumn, taken, typed_column
from fulmen.engine.state.entries.value_columns import column_of
from fulmen.engine.state.pickling import Dumper, dumps
from fulmen.errors import PASSED_ON, NotReadable, StateError, repr_of, text_of

ALONE_BLOCKS = 256
"""The number of blocks of a segment with one large value: reads of few other keys touch it."""
KEPT_BYTES = 256
"""A value whose size only pickling tells, and that takes so much, is written as it was pickled.
Smaller ones are pickled once more with their block, where they have their classes' names in common.
"""

_BITS = 64
"""More than the bits of the size of an entry."""
_CODES = 2 * _BITS
"""What can be said of an entry: the bits of its size, and whether its value is pickled."""
DELETED_BYTES = 24
_PICKLED_KEY_BYTES = 16
Keeps = Callable[[dict[Any, Any]], dict[Any, Any]]


class Piece(NamedTuple):
    """A segment that is to be written.

    Attributes:
        data: Its bytes.
        parts: Keys, and about how many bytes one of them takes in comparison.
    """

    data: bytes
    parts: list[tuple[float, Sequence[Any]]]


def encode(
    values: Mapping[Any, Any],
    deleted: Sequence[Any],
    names: Mapping[int, str],
    measures: KeyMeasures,
) -> Iterator[Piece]:
    """Segments with these keys. A large value has one of its own.

    Args:
        values: The value of each key.
        deleted: Keys that are no longer there.
        names: The names of parts that are written by their names, see `pickling`.
        measures: What is known of keys that were written before.

    Raises:
        StateError: A value can't be pickled.
    """
    entries = _entries(values, deleted, names, measures)
    typed = entries.typed_keys
    if isinstance(typed, HashedColumn):
        return _pieces(entries, names, typed.hashes)
    return _pieces(entries, names, lambda: measures.hashes_of(list(values)))


def encode_pickled(
    values: Mapping[Any, bytes], deleted: Sequence[Any], segment_bytes: int = SEGMENT_BYTES
) -> Iterator[Piece]:
    """Segments with these keys, whose values are pickled already. A large value has its own.

    Args:
        values: The keys with their values.
        deleted: Keys that were deleted.
        segment_bytes: About as much is in one at most.
    """
    keys, data = list(values), list(values.values())
    n = len(keys) + len(deleted)
    is_deleted = np.arange(n) >= len(keys)
    sizes = np.full(n, DELETED_BYTES, np.int64)
    sizes[: len(keys)] = sizes_of(data) + _PICKLED_KEY_BYTES
    entries = _Entries([*keys, *deleted], [*data, *deleted], sizes, is_deleted, ~is_deleted)
    return _pieces(entries, {}, lambda: hashes_of(keys), segment_bytes)


def _pieces(
    entries: _Entries,
    names: Mapping[int, str],
    hashes_of_kept: Callable[[], Numbers],
    segment_bytes: int = SEGMENT_BYTES,
) -> Iterator[Piece]:
    total = int(entries.sizes.sum())
    if total < ALONE_BYTES:  # as most commits
        if entries.keys:
            yield _piece(entries, 1, names)
        return
    deleted = list(compress(entries.keys, entries.is_deleted))
    hashes = np.append(hashes_of_kept(), hashes_of(deleted))
    entries = _Entries(*entries[:5], hashes, *entries[6:])
    is_large = entries.sizes >= ALONE_BYTES
    for i in np.flatnonzero(is_large).tolist():
        yield _piece(entries.at(slice(i, i + 1)), ALONE_BLOCKS, names)
    if is_large.any():
        entries = entries.at(~is_large)
    before = np.cumsum(entries.sizes) - entries.sizes
    ends = [*(np.flatnonzero(np.diff(before // segment_bytes)) + 1).tolist(), len(entries.keys)]
    for start, end in zip([0, *ends], ends, strict=False):
        if start < end:
            some = entries.at(slice(start, end))
            yield _piece(some, block_count(int(some.sizes.sum())), names)


class _Entries(NamedTuple):
    """Keys and what is to be written of them.

    Attributes:
        keys: They.
        values: Their values; of a key that was deleted it means nothing.
        sizes: About how many bytes each takes.
        is_deleted: Which of them were deleted.
        is_pickled: Which of the values are pickled already.
        hashes: Of the keys; None: all are in one block.
        typed_keys: The keys that were not deleted, which come first; None: there is no such column.
        typed_values: Their values, as `typed_keys`.
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    sizes: Numbers
    is_deleted: npt.NDArray[np.bool_]
    is_pickled: npt.NDArray[np.bool_]
    hashes: Numbers | None = None
    typed_keys: TypedColumn | None = None
    typed_values: TypedColumn | None = None

    def at(self, where: slice | npt.NDArray[np.bool_]) -> _Entries:
        """Take some of the entries."""
        if isinstance(where, slice):
            keys, values = self.keys[where], self.values[where]
        else:
            keys, values = list(compress(self.keys, where)), list(compress(self.values, where))
        hashes = None if self.hashes is None else self.hashes[where]
        sizes, is_deleted = self.sizes[where], self.is_deleted[where]
        typed = self._typed_at(self.typed_keys, where), self._typed_at(self.typed_values, where)
        return _Entries(keys, values, sizes, is_deleted, self.is_pickled[where], hashes, *typed)

    def _typed_at(
        self, typed: TypedColumn | None, where: slice | npt.NDArray[np.bool_]
    ) -> TypedColumn | None:
        if typed is None or isinstance(where, slice):
            return None if typed is None else typed.at(where)
        return typed.at(where[~self.is_deleted])

    def group(self, weight: float, some: Numbers) -> Group:
        """The keys at some places with their values."""
        keys, values = self.typed_keys, self.typed_values
        return Group(
            weight,
            len(some),
            column_of(taken(self.keys, some.tolist())) if keys is None else keys.column(some),
            column_of(taken(self.values, some.tolist())) if values is None else values.column(some),
        )


def _entries(
    values: Mapping[Any, Any],
    deleted: Sequence[Any],
    names: Mapping[int, str],
    measures: KeyMeasures,
) -> _Entries:
    keys, kept = list(values), list(values.values())
    typed_keys, typed_values = typed_column(keys), typed_column(kept)
    is_hashed = isinstance(typed_keys, HashedColumn)
    sizes = typed_keys.sizes() if typed_keys and is_hashed else measures.sizes_of(keys)
    of_values = sizes_of(kept) if typed_values is None else typed_values.sizes()
    for i in np.flatnonzero(sizes == 0).tolist():
        sizes[i] = _size_of_key(keys[i], names)
    is_deleted = np.zeros(len(keys) + len(deleted), np.bool_)
    is_deleted[len(keys) :] = True
    is_pickled = np.zeros_like(is_deleted)
    dumper = Dumper(names)
    for i in np.flatnonzero(of_values == 0).tolist():
        data = _pickled_value(keys[i], kept[i], dumper)
        of_values[i] = len(data)
        if len(data) >= KEPT_BYTES:
            kept[i], is_pickled[i] = data, True
    sizes = np.append(sizes + of_values, np.full(len(deleted), DELETED_BYTES, np.int64))
    all_of_it = [*keys, *deleted], [*kept, *deleted], sizes, is_deleted, is_pickled
    return _Entries(*all_of_it, None, typed_keys, typed_values)


def rewritten(where: str, data: bytes, loads: Loads, keeps: Keeps) -> bytes | None:
    """A segment without some of its entries.

    Returns:
        Its bytes, in as many blocks; None if all of them stay.

    Raises:
        CheckpointError: It is damaged, or of a newer version.
    """
    view, blocks, is_same = memoryview(data), [], True
    for block in blocks_in(where, data):
        raw = bytes(view[block.start : block.start + block.length])
        if raw:
            check_block(where, block, raw)
            groups, deleted = content_of(where, raw, loads)
            kept = [(weight, keeps(entries)) for weight, entries in groups]
            left = list(keeps(dict.fromkeys(deleted)))
            values = [value for _, entries in groups for value in entries.values()]
            still = [value for _, entries in kept for value in entries.values()]
            stay = len(still) == len(values) and all(map(is_, still, values))
            if not stay or len(left) != len(deleted):
                is_same = False
                rest = [group_of(weight, [*one], [*one.values()]) for weight, one in kept if one]
                gone = [(len(left), column_of(left))] if left else []
                raw = pickled_block(BlockParts(rest, [], gone), {})
        blocks.append(raw)
    return None if is_same else segment_of(blocks)


def _pickled_value(key: Any, value: Any, dumper: Dumper) -> bytes:
    try:
        return dumper.dumps(value)
    except NotReadable as e:
        raise NotReadable(f"self.state[{repr_of(key)}] can't be kept ({text_of(e)})") from e
    except PASSED_ON:
        raise
    except BaseException as e:
        raise StateError(f"self.state[{repr_of(key)}] can't be pickled ({text_of(e)})") from e


def _size_of_key(key: Any, names: Mapping[int, str]) -> int:
    try:
        return len(dumps(key, names))
    except NotReadable as e:
        where = f"the key {repr_of(key)} of self.state"
        raise NotReadable(f"{where} can't be kept ({text_of(e)})") from e


def _piece(entries: _Entries, count: int, names: Mapping[int, str]) -> Piece:
    """A segment of so many blocks."""
    keys = entries.keys
    bits = np.frexp(entries.sizes)[1].astype(np.int64)  # the number of bits of each
    bits[entries.is_deleted] = 0
    parts = [
        (_weight(of_bits) if of_bits else DELETED_BYTES, taken(keys, some.tolist()))
        for of_bits, some in _by_code(bits)
    ]
    codes = bits + _BITS * entries.is_pickled
    if entries.hashes is not None and count > 1:
        codes += blocks_of(entries.hashes, count) * _CODES
    contents = [BlockParts([], [], []) for _ in range(count)]
    for code, some in _by_code(codes):
        block, kind = divmod(code, _CODES)
        is_pickled, of_bits = divmod(kind, _BITS)
        if of_bits:
            into = contents[block].pickled if is_pickled else contents[block].groups
            into.append(entries.group(_weight(of_bits), some))
        else:
            gone = taken(keys, some.tolist())
            contents[block].deleted.append((len(gone), column_of(gone)))
    return Piece(segment_of([pickled_block(content, names) for content in contents]), parts)


def _by_code(codes: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each code, the least first, and where it is, in order."""
    small = codes.astype(np.min_scalar_type(codes.max(initial=0)))  # for a radix sort
    order = np.argsort(small, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(order)]):
        yield int(ordered[start]), order[start:end]


def _weight(bits: int) -> float:
    return 0.75 * (1 << bits)
