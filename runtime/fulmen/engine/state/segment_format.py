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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.segments import ALONE_BYTES
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

SHORT = 8
"""The sizes of the parts of a tuple with at most so many are added up, which is faster."""
_VERSION = 1
_HEAD = struct.Struct(">BI")
_BLOCK = struct.Struct(">QI")
DELETED_BYTES = 24
Keeps = Callable[[dict[Any, Any]], dict[Any, Any]]
_Groups = dict[int, dict[Any, Any]]  # by the number of bits of the size of one entry


class Piece(NamedTuple):
    """A segment that is to be written.

    Attributes:
        data: Its bytes.
        parts: Keys, and about how many bytes one of them takes in comparison.
    """

    data: bytes
    parts: list[tuple[float, Sequence[Any]]]


class Block(NamedTuple):
    """Where a block is in its segment."""

    start: int
    length: int
    crc: int


class Content(NamedTuple):
    """What a block holds: groups of keys with values and their weight, and deleted keys."""

    groups: list[tuple[float, dict[Any, Any]]]
    deleted: list[Any]


def encode(
    values: Mapping[Any, Any], deleted: Iterable[Any], names: Mapping[int, str]
) -> Iterator[Piece]:
    """Segments with these keys. A large value has one of its own.

    Args:
        values: The value of each key.
        deleted: Keys that are no longer there.
        names: The names of parts that are written by their names, see `pickling`.

    Raises:
        StateError: A value can't be pickled.
    """
    groups: _Groups = {}
    gone: list[Any] = []
    total = 0
    for key, value in values.items():
        size = _quick_size(key) or _size_of_key(key, names)
        size += _quick_size(value) or _size_of_value(key, value, names)
        if size >= ALONE_BYTES:
            yield _piece({size.bit_length(): {key: value}}, [], ALONE_BLOCKS, names)
            continue
        groups.setdefault(size.bit_length(), {})[key] = value
        total += size
        if total >= SEGMENT_BYTES:
            yield _piece(groups, [], _blocks(total), names)
            groups, total = {}, 0
    for key in deleted:
        gone.append(key)
        total += DELETED_BYTES
        if total >= SEGMENT_BYTES:
            yield _piece(groups, gone, _blocks(total), names)
            groups, gone, total = {}, [], 0
    if groups or gone:
        yield _piece(groups, gone, _blocks(total), names)


def rewritten(where: str, data: bytes, loads: Callable[[bytes], Any], keeps: Keeps) -> bytes | None:
    """A segment without some of its entries.

    Args:
        where: Its name in messages.
        data: Its bytes.
        loads: Reads a block.
        keeps: Gives those of a group's entries that stay.

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
            lengths = [len(entries) for _, entries in groups]
            if [len(entries) for _, entries in kept] != lengths or len(left) != len(deleted):
                is_same = False
                raw = dumps((kept, left), {})
        blocks.append(raw)
    return None if is_same else _segment(blocks)


def _size_of_value(key: Any, value: Any, names: Mapping[int, str]) -> int:
    try:
        return _size(value, names)
    except NotReadable as e:
        raise NotReadable(f"self.state[{repr_of(key)}] can't be kept ({text_of(e)})") from e
    except PASSED_ON:
        raise
    except BaseException as e:
        raise StateError(f"self.state[{repr_of(key)}] can't be pickled ({text_of(e)})") from e


def _size_of_key(key: Any, names: Mapping[int, str]) -> int:
    try:
        return _size(key, names)
    except NotReadable as e:
        where = f"the key {repr_of(key)} of self.state"
        raise NotReadable(f"{where} can't be kept ({text_of(e)})") from e


def _size(value: Any, names: Mapping[int, str]) -> int:
    return _quick_size(value) or len(dumps(value, names))


def _quick_size(value: Any) -> int:
    """About how many bytes a value takes; 0: only pickling can tell.

    It is asked for each key and value that is written, so its parts are not in functions.
    """
    kind = type(value)
    if kind is int:
        return 4 + int(value.bit_length() >> 3)
    if kind is str or kind is bytes:
        return len(value) + 8
    if kind is float or kind is bool or value is None:
        return 8
    if kind is not tuple or len(value) > SHORT:
        return 0
    size = 2
    for part in value:
        kind = type(part)
        if kind is int:
            size += 4 + (part.bit_length() >> 3)
        elif kind is str or kind is bytes:
            size += len(part) + 8
        elif kind is float or kind is bool or part is None:
            size += 8
        else:
            return 0
    return size


def _blocks(total: int) -> int:
    """The number of blocks of a segment with so many bytes."""
    return 2 + total // BLOCK_BYTES if total >= WHOLE_BYTES else 1


def _piece(groups: _Groups, deleted: list[Any], count: int, names: Mapping[int, str]) -> Piece:
    contents: list[tuple[_Groups, list[Any]]] = [({}, []) for _ in range(count)]
    if count == 1:
        contents = [(groups, deleted)]
    else:
        for bits, entries in groups.items():
            for key, value in entries.items():
                contents[_block_of(key, count)][0].setdefault(bits, {})[key] = value
        for key in deleted:
            contents[_block_of(key, count)][1].append(key)
    blocks = [_block(of_block, gone, names) for of_block, gone in contents]
    parts: list[tuple[float, Sequence[Any]]] = [
        (_weight(bits), list(entries))
        for of_block, _ in contents
        for bits, entries in of_block.items()
    ]
    parts += [(DELETED_BYTES, gone) for _, gone in contents]
    return Piece(_segment(blocks), parts)


def _segment(blocks: Sequence[bytes]) -> bytes:
    head = [_HEAD.pack(_VERSION, len(blocks))]
    head += [_BLOCK.pack(len(data), zlib.crc32(data)) for data in blocks]
    return b"".join([*head, *blocks])


def _weight(bits: int) -> float:
    return 0.75 * (1 << bits)


def _block(groups: _Groups, deleted: list[Any], names: Mapping[int, str]) -> bytes:
    if not groups and not deleted:
        return b""
    weighed = [(_weight(bits), entries) for bits, entries in groups.items()]
    return dumps((weighed, deleted), names)


def decode(where: str, data: bytes) -> Iterator[Content]:
    """All that is in a segment.

    Args:
        where: Its name in messages.
        data: Its bytes.

    Raises:
        CheckpointError: It is damaged, or of a newer version.
    """
    view = memoryview(data)
    for block in blocks_in(where, data):
        yield content(where, block, view[block.start : block.start + block.length])


def blocks_in(where: str, head: bytes) -> list[Block]:
    """Where the blocks of a segment are; of its first bytes, at least `head_bytes`."""
    version, count = _HEAD.unpack_from(head) if len(head) >= _HEAD.size else (0, 0)
    if version != _VERSION or len(head) < head_bytes(head):
        raise CheckpointError(
            f"{where}: a segment of version {version}, and this Fulmen reads {_VERSION}. Run the"
            " topology with the version that wrote it."
        )
    start, found = head_bytes(head), []
    for number in range(count):
        length, crc = _BLOCK.unpack_from(head, _HEAD.size + number * _BLOCK.size)
        found.append(Block(start, length, crc))
        start += length
    return found


def head_bytes(head: bytes) -> int:
    """How long the head is, of a segment's first few bytes."""
    _, count = _HEAD.unpack_from(head)
    return _HEAD.size + int(count) * _BLOCK.size


def content(where: str, block: Block, data: bytes | memoryview) -> Content:
    """What a block holds. Arguments and errors as for `decode`."""
    if not block.length:
        return Content([], [])
    _check(where, block, data)
    return Content(*pickle.loads(data))


def _check(where: str, block: Block, data: bytes | memoryview) -> None:
    if zlib.crc32(data) != block.crc:
        raise CheckpointError(f"{where} is damaged: a block is not what was written.")


def blocks_for(text: str, count: int) -> list[int]:
    """The blocks that may hold keys which are shown as this text."""
    if count == 1:
        return [0]
    return sorted({0, *(_block_of(key, count) for key in _read_as(text))})


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


def _block_of(key: Any, count: int) -> int:
    number = stable_hash(key)
    return 0 if number is None else 1 + number % (count - 1)


def stable_hash(key: Any) -> int | None:
    """A hash that is the same in every process, and for equal keys; None if there is none.

    Python's own hash of text differs between processes.
    """
    kind = type(key)
    if kind is str:
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if kind is int or kind is bool or kind is float:
        return None if key != key else hash(key) & 0xFFFFFFFF
    if kind is bytes:
        return zlib.crc32(key, 1)
    if key is None:
        return 0
    if kind is tuple:
        number = 2
        for part in key:
            if type(part) is str:  # as above, but without a call, as there are many keys
                inner: int | None = zlib.crc32(part.encode("utf-8", "surrogatepass"))
            elif type(part) is int:
                inner = hash(part) & 0xFFFFFFFF
            else:
                inner = stable_hash(part)
            if inner is None:
                return None
            number = zlib.crc32(inner.to_bytes(4, "big"), number)
        return number
    return None
