"""What the bytes of a segment of keyed state are, so that a single key of it can be read. Pure.

A segment is a head and some blocks. The head says how long each block is. A block is a pickle of
groups of keys with their values, each about as large as the others, of the same of large values,
which are pickled by themselves, and of keys that were deleted. They are columns: see
`value_columns`.

    1 byte     1, the version
    4 bytes    n, the number of blocks, big-endian
    n times    length (8 bytes) and crc32 (4 bytes) of a block
    4 bytes    the crc32 of all that: whoever reads single blocks reads no checksum of the whole
    the blocks

With several blocks, a key is in the block that its hash says; those without a hash that is the same
in every process are in the first one. A small segment has one block.
"""

from __future__ import annotations

import ast
import math
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from fulmen.engine.state.entries.measures import NO_HASH, Numbers, hashes_of
from fulmen.engine.state.entries.value_columns import Column, column_of, values_in
from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.values.renamed_classes import loads
from fulmen.errors import CheckpointError

SEGMENT_BYTES = 4 << 20
"""About as much is in a segment at most, but for a single value that is larger."""
WHOLE_BYTES = 128 << 10
"""A smaller segment has one block: to read all of it takes as long as to look for its blocks."""
BLOCK_BYTES = 16 << 10
HEAD_BYTES = 4096
"""The bytes that are read at once to find the blocks of a segment."""

_VERSION = 1
_HEAD = struct.Struct(">BI")
_BLOCK = struct.Struct(">QI")
_CRC_BYTES = 4
_MOST_BLOCKS = 1 << 16
"""More than any segment has: a damaged number makes nobody read for ever."""
_CURE = "Restore the object from a copy of the store."
Loads = Callable[[Any], Any]


class Block(NamedTuple):
    """The place of a block in its segment."""

    start: int
    length: int
    crc: int


Groups = list[tuple[float, dict[Any, Any]]]
"""Keys with values, and about what one of them takes."""


class BlockContent(NamedTuple):
    """A block that was read: groups of keys with values, and deleted keys."""

    groups: Groups
    deleted: list[Any]


class Group(NamedTuple):
    """Keys with values as they are written.

    Attributes:
        weight: About what one of them takes.
        number: How many there are.
        keys: Their column.
        values: The column of their values.
    """

    weight: float
    number: int
    keys: Column
    values: Column


class BlockParts(NamedTuple):
    """What is in a block.

    Attributes:
        groups: Keys with values.
        pickled: Keys with values that are pickled.
        deleted: How many keys were deleted, and their column.
    """

    groups: list[Group]
    pickled: list[Group]
    deleted: list[tuple[int, Column]]


def block_count(total: int) -> int:
    """The number of blocks of a segment with so many bytes."""
    return 2 + total // BLOCK_BYTES if total >= WHOLE_BYTES else 1


def segment_of(blocks: Sequence[bytes]) -> bytes:
    """The segment of these blocks."""
    table = [_BLOCK.pack(len(data), zlib.crc32(data)) for data in blocks]
    head = b"".join([_HEAD.pack(_VERSION, len(blocks)), *table])
    return b"".join([head, zlib.crc32(head).to_bytes(_CRC_BYTES, "big"), *blocks])


def group_of(weight: float, keys: Sequence[Any], values: Sequence[Any]) -> Group:
    """Keys with their values."""
    return Group(weight, len(keys), column_of(keys), column_of(values))


def pickled_block(block: BlockParts, names: Mapping[int, str]) -> bytes:
    """The bytes of a block; none if nothing is in it."""
    if not any(block):
        return b""
    groups, pickled = list(map(tuple, block.groups)), list(map(tuple, block.pickled))
    return dumps((groups, pickled, block.deleted), names)


def decode_pickled(
    where: str,
    data: bytes,
    dumps_all: Callable[[Collection[Any]], list[bytes]],
    own: Callable[[BlockContent], BlockContent],
) -> Iterator[BlockContent]:
    """Read all blocks of a segment, with each value as its bytes. Errors as for `decode`.

    Args:
        where: What it is, for errors.
        data: The segment.
        dumps_all: Makes bytes of values.
        own: What of a block is wanted.
    """
    view = memoryview(data)
    for block in blocks_in(where, data):
        if not block.length:
            continue
        of_block = view[block.start : block.start + block.length]
        check_block(where, block, of_block)
        groups, pickled, deleted = _read(where, of_block, loads)
        mine = own(BlockContent([*groups, *pickled], deleted))
        whole = [
            (weight, dict(zip(some, dumps_all(some.values()), strict=True)))
            for weight, some in mine.groups[: len(groups)]
        ]
        yield BlockContent([*whole, *mine.groups[len(groups) :]], mine.deleted)


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
    start, blocks = head_bytes(head), []
    end = start - _CRC_BYTES
    if len(head) < start or zlib.crc32(head[:end]).to_bytes(_CRC_BYTES, "big") != head[end:start]:
        raise CheckpointError(f"{where} is damaged: its head is not what was written. {_CURE}")
    version, count = _HEAD.unpack_from(head)
    if version != _VERSION:
        raise CheckpointError(
            f"{where}: a segment of version {version}, and this Fulmen reads {_VERSION}. Run the"
            " topology with the version that wrote it."
        )
    for number in range(count):
        length, crc = _BLOCK.unpack_from(head, _HEAD.size + number * _BLOCK.size)
        blocks.append(Block(start, length, crc))
        start += length
    return blocks


def head_bytes(head: bytes) -> int:
    """The length of the head, by a segment's first few bytes.

    Of bytes that are no head of a segment it is more than they are, and never large.
    """
    _, count = _HEAD.unpack_from(head) if len(head) >= _HEAD.size else (0, 1)
    return _HEAD.size + min(int(count), _MOST_BLOCKS) * _BLOCK.size + _CRC_BYTES


def content(where: str, block: Block, data: bytes | memoryview) -> BlockContent:
    """Read a block. Arguments and errors as for `decode`."""
    if not block.length:
        return BlockContent([], [])
    check_block(where, block, data)
    return content_of(where, data, loads)


def content_of(where: str, data: bytes | memoryview, loads: Loads) -> BlockContent:
    """Read the bytes of a block. Arguments and errors as for `decode`; `loads` reads values."""
    groups, pickled, deleted = _read(where, data, loads)
    for weight, entries in pickled:
        groups.append((weight, dict(zip(entries, map(loads, entries.values()), strict=True))))
    return BlockContent(groups, deleted)


def _read(where: str, data: bytes | memoryview, loads: Loads) -> tuple[Groups, Groups, list[Any]]:
    """The groups of a block, those whose values are pickled, and the deleted keys."""
    groups, pickled, deleted = loads(data)
    try:
        gone = [key for count, keys in deleted for key in values_in(keys, count)]
        return _entries_of(groups), _entries_of(pickled), gone
    except (ValueError, TypeError) as e:
        raise CheckpointError(f"{where} is damaged: {e}. {_CURE}") from e


def _entries_of(groups: Iterable[tuple[float, int, Column, Column]]) -> Groups:
    return [
        (weight, dict(zip(values_in(keys, n), values_in(values, n), strict=True)))
        for weight, n, keys, values in groups
    ]


def check_block(where: str, block: Block, data: bytes | memoryview) -> None:
    """Raise CheckpointError if these are not the bytes of a block."""
    if zlib.crc32(data) != block.crc:
        raise CheckpointError(f"{where} is damaged: a block is not what was written. {_CURE}")


def blocks_for(text: str, count: int) -> list[int]:
    """The blocks that may hold keys which are shown as this text."""
    if count == 1:
        return [0]
    return sorted({0, *blocks_of(hashes_of(list(_read_as(text))), count).tolist()})


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


def blocks_of(hashes: Numbers, count: int) -> Numbers:
    """The block of each key, by their hashes."""
    return np.where(hashes == NO_HASH, 0, 1 + hashes % (count - 1))
