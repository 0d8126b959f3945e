"""How the entries of a commit become segments: which are in which, and in which block of it. Pure.

Of small entries, as many as fit are in a segment; a large value has one of its own. With several
blocks, a key is in the block that its hash says; those without a hash that is the same in every
process are in the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from operator import is_, itemgetter
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
    entries = _Entries(*entries[:-1], np.append(hashes_of_kept(), hashes_of(deleted)))
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
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    sizes: Numbers
    is_deleted: npt.NDArray[np.bool_]
    is_pickled: npt.NDArray[np.bool_]
    hashes: Numbers | None = None

    def at(self, where: slice | npt.NDArray[np.bool_]) -> _Entries:
        """Take some of the entries."""
        if isinstance(where, slice):
            keys, values = self.keys[where], self.values[where]
        else:
            keys, values = list(compress(self.keys, where)), list(compress(self.values, where))
        hashes = None if self.hashes is None else self.hashes[where]
        sizes, is_deleted = self.sizes[where], self.is_deleted[where]
        return _Entries(keys, values, sizes, is_deleted, self.is_pickled[where], hashes)


def _entries(
    values: Mapping[Any, Any],
    deleted: Sequence[Any],
    names: Mapping[int, str],
    measures: KeyMeasures,
) -> _Entries:
    keys, kept = list(values), list(values.values())
    sizes, of_values = measures.sizes_of(keys), sizes_of(kept)
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
    return _Entries([*keys, *deleted], [*kept, *deleted], sizes, is_deleted, is_pickled)


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
    keys, values = entries.keys, entries.values
    bits = np.frexp(entries.sizes)[1].astype(np.int64)  # the number of bits of each
    bits[entries.is_deleted] = 0
    codes = bits + _BITS * entries.is_pickled
    if entries.hashes is not None and count > 1:
        codes += blocks_of(entries.hashes, count) * _CODES
    contents = [BlockParts([], [], []) for _ in range(count)]
    parts: list[tuple[float, Sequence[Any]]] = []
    for code, some in _by_code(codes):
        block, kind = divmod(code, _CODES)
        is_pickled, of_bits = divmod(kind, _BITS)
        if of_bits:
            own, weight = _taken(keys, some), _weight(of_bits)
            into = contents[block].pickled if is_pickled else contents[block].groups
            into.append(group_of(weight, own, _taken(values, some)))
            parts.append((weight, own))
        else:
            gone = _taken(keys, some)
            contents[block].deleted.append((len(gone), column_of(gone)))
            parts.append((DELETED_BYTES, gone))
    return Piece(segment_of([pickled_block(content, names) for content in contents]), parts)


def _by_code(codes: Numbers) -> Iterator[tuple[int, list[int]]]:
    """Each code, the least first, and where it is, in order."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(order)]):
        yield int(ordered[start]), order[start:end].tolist()


def _taken(values: Sequence[Any], some: Sequence[int]) -> Sequence[Any]:
    """The values at some places, by one call for all."""
    if len(some) == 1:
        return (values[some[0]],)
    taken: Sequence[Any] = itemgetter(*some)(values)
    return taken


def _weight(bits: int) -> float:
    return 0.75 * (1 << bits)
