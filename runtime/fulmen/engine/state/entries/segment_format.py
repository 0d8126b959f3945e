"""How a segment of keyed state becomes bytes, of which a single key can be read. Pure.

A segment is a head and some blocks. The head says how long each block is. A block is a pickle of
keys with their values, in groups of about the same size, and of keys that were deleted:

    1 byte     1, the version
    4 bytes    n, the number of blocks, big-endian
    n times    length (8 bytes) and crc32 (4 bytes) of a block
    the blocks

With several blocks, a key is in the block that its hash says; those without a hash that is the same
in every process are in the first one. A small segment has one block.
"""

from __future__ import annotations

import ast
import math
import pickle
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress, pairwise
from operator import is_, itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.engine.state.entries.measures import (
    NO_HASH,
    KeyMeasures,
    Numbers,
    hashes_of,
    sizes_of,
)
from fulmen.engine.state.entries.segments import ALONE_BYTES
from fulmen.engine.state.pickling import dumps
from fulmen.errors import PASSED_ON, CheckpointError, NotReadable, StateError, repr_of, text_of

SEGMENT_BYTES = 4 << 20
"""About as much is in a segment at most, but for a single value that is larger."""
WHOLE_BYTES = 128 << 10
"""A smaller segment has one block: to read all of it takes as long as to look for its blocks."""
BLOCK_BYTES = 16 << 10
ALONE_BLOCKS = 256
"""The number of blocks of a segment with one large value: reads of few other keys touch it."""
HEAD_BYTES = 4096
"""The bytes that are read at once to find the blocks of a segment."""

_VERSION = 1
_BITS = 64
"""More than the bits of the size of an entry."""
_HEAD = struct.Struct(">BI")
_BLOCK = struct.Struct(">QI")
DELETED_BYTES = 24
Keeps = Callable[[dict[Any, Any]], dict[Any, Any]]


class Piece(NamedTuple):
    """A segment that is to be written.

    Attributes:
        data: Its bytes.
        parts: Keys, and about how many bytes one of them takes in comparison.
    """

    data: bytes
    parts: list[tuple[float, Sequence[Any]]]


class Block(NamedTuple):
    """The place of a block in its segment."""

    start: int
    length: int
    crc: int


class BlockContent(NamedTuple):
    """A block: groups of keys with values and their weight, and deleted keys."""

    groups: list[tuple[float, dict[Any, Any]]]
    deleted: list[Any]


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
    total = int(entries.sizes.sum())
    if total < ALONE_BYTES:  # as most commits
        if entries.keys:
            yield _piece(entries, 1, names)
        return
    hashes = np.append(measures.hashes_of(list(values)), hashes_of(deleted))
    entries = _Entries(*entries[:4], hashes)
    is_large = entries.sizes >= ALONE_BYTES
    for i in np.flatnonzero(is_large).tolist():
        yield _piece(entries.at(slice(i, i + 1)), ALONE_BLOCKS, names)
    if is_large.any():
        entries = entries.at(~is_large)
    before = np.cumsum(entries.sizes) - entries.sizes
    ends = [*(np.flatnonzero(np.diff(before // SEGMENT_BYTES)) + 1).tolist(), len(entries.keys)]
    for start, end in zip([0, *ends], ends, strict=False):
        if start < end:
            some = entries.at(slice(start, end))
            yield _piece(some, _blocks(int(some.sizes.sum())), names)


class _Entries(NamedTuple):
    """Keys and what is to be written of them.

    Attributes:
        keys: They.
        values: Their values; of a key that was deleted it means nothing.
        sizes: About how many bytes each takes.
        is_deleted: Which of them were deleted.
        hashes: Of the keys; None: all are in one block.
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    sizes: Numbers
    is_deleted: npt.NDArray[np.bool_]
    hashes: Numbers | None = None

    def at(self, where: slice | npt.NDArray[np.bool_]) -> _Entries:
        """Take some of the entries."""
        if isinstance(where, slice):
            keys, values = self.keys[where], self.values[where]
        else:
            keys, values = list(compress(self.keys, where)), list(compress(self.values, where))
        hashes = None if self.hashes is None else self.hashes[where]
        return _Entries(keys, values, self.sizes[where], self.is_deleted[where], hashes)


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
    for i in np.flatnonzero(of_values == 0).tolist():
        of_values[i] = _size_of_value(keys[i], kept[i], names)
    is_deleted = np.zeros(len(keys) + len(deleted), np.bool_)
    is_deleted[len(keys) :] = True
    sizes = np.append(sizes + of_values, np.full(len(deleted), DELETED_BYTES, np.int64))
    return _Entries([*keys, *deleted], [*kept, *deleted], sizes, is_deleted)


def rewritten(where: str, data: bytes, loads: Callable[[bytes], Any], keeps: Keeps) -> bytes | None:
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
            _check(where, block, raw)
            groups, deleted = loads(raw)
            kept = [(weight, keeps(entries)) for weight, entries in groups]
            left = list(keeps(dict.fromkeys(deleted)))
            values = [value for _, entries in groups for value in entries.values()]
            still = [value for _, entries in kept for value in entries.values()]
            stay = len(still) == len(values) and all(map(is_, still, values))
            if not stay or len(left) != len(deleted):
                is_same = False
                raw = dumps((kept, left), {})
        blocks.append(raw)
    return None if is_same else _segment(blocks)


def _size_of_value(key: Any, value: Any, names: Mapping[int, str]) -> int:
    try:
        return len(dumps(value, names))
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


def _blocks(total: int) -> int:
    """The number of blocks of a segment with so many bytes."""
    return 2 + total // BLOCK_BYTES if total >= WHOLE_BYTES else 1


def _piece(entries: _Entries, count: int, names: Mapping[int, str]) -> Piece:
    """A segment of so many blocks."""
    keys, values = entries.keys, entries.values
    bits = np.frexp(entries.sizes)[1].astype(np.int64)  # the number of bits of each
    bits[entries.is_deleted] = 0
    codes = bits
    if entries.hashes is not None and count > 1:
        codes = _blocks_of(entries.hashes, count) * _BITS + bits
    contents = [BlockContent([], []) for _ in range(count)]
    parts: list[tuple[float, Sequence[Any]]] = []
    for code, some in _by_code(codes):
        block, of_bits = divmod(code, _BITS)
        if of_bits:
            group = dict(zip(_taken(keys, some), _taken(values, some), strict=True))
            contents[block].groups.append((_weight(of_bits), group))
            parts.append((_weight(of_bits), list(group)))
        else:
            gone = list(_taken(keys, some))
            contents[block].deleted.extend(gone)
            parts.append((DELETED_BYTES, gone))
    return Piece(_segment([_block(content, names) for content in contents]), parts)


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


def _segment(blocks: Sequence[bytes]) -> bytes:
    head = [_HEAD.pack(_VERSION, len(blocks))]
    head += [_BLOCK.pack(len(data), zlib.crc32(data)) for data in blocks]
    return b"".join([*head, *blocks])


def _weight(bits: int) -> float:
    return 0.75 * (1 << bits)


def _block(found: BlockContent, names: Mapping[int, str]) -> bytes:
    return dumps(tuple(found), names) if found.groups or found.deleted else b""


def decode(where: str, data: bytes) -> Iterator[BlockContent]:
    """Read all blocks of a segment.

    Raises:
        CheckpointError: It is damaged, or of a newer version.
    """
    view = memoryview(data)
    for block in blocks_in(where, data):
        yield content(where, block, view[block.start : block.start + block.length])


def blocks_in(where: str, head: bytes) -> list[Block]:
    """Find the blocks of a segment in its first bytes, at least `head_bytes`."""
    version, count = _HEAD.unpack_from(head) if len(head) >= _HEAD.size else (0, 0)
    if version != _VERSION or len(head) < head_bytes(head):
        raise CheckpointError(
            f"{where}: a segment of version {version}, and this Fulmen reads {_VERSION}. Run the"
            " topology with the version that wrote it."
        )
    start, blocks = head_bytes(head), []
    for number in range(count):
        length, crc = _BLOCK.unpack_from(head, _HEAD.size + number * _BLOCK.size)
        blocks.append(Block(start, length, crc))
        start += length
    return blocks


def head_bytes(head: bytes) -> int:
    """The length of the head, by a segment's first few bytes."""
    _, count = _HEAD.unpack_from(head)
    return _HEAD.size + int(count) * _BLOCK.size


def content(where: str, block: Block, data: bytes | memoryview) -> BlockContent:
    """Read a block. Arguments and errors as for `decode`."""
    if not block.length:
        return BlockContent([], [])
    _check(where, block, data)
    return BlockContent(*pickle.loads(data))


def _check(where: str, block: Block, data: bytes | memoryview) -> None:
    if zlib.crc32(data) != block.crc:
        raise CheckpointError(f"{where} is damaged: a block is not what was written.")


def blocks_for(text: str, count: int) -> list[int]:
    """The blocks that may hold keys which are shown as this text."""
    if count == 1:
        return [0]
    return sorted({0, *_blocks_of(hashes_of(list(_read_as(text))), count).tolist()})


def _read_as(text: str) -> Iterator[Any]:
    """The keys of plain types that may be shown as this text, and more."""
    yield text
    with suppress(ValueError):
        yield float(text)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        yield ast.literal_eval(_Infinite().visit(ast.parse(text, mode="eval")))


class _Infinite(ast.NodeTransformer):
    """Python shows an infinite float within a tuple as a name, which no literal is."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(math.inf) if node.id == "inf" else node


def _blocks_of(hashes: Numbers, count: int) -> Numbers:
    """The block of each key, by their hashes."""
    return np.where(hashes == NO_HASH, 0, 1 + hashes % (count - 1))
