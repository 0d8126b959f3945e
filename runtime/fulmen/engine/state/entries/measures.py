"""How many bytes keys and values take, and hashes of keys: of one, and of many at once. Pure.

A commit asks for each key that has changed, of which there may be a hundred thousand. Those of one
kind, such as texts, or tuples of a number and a text, are measured by columns: Python runs once a
column then, and not once a key.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import chain
from operator import is_, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
SHORT = 8
"""The sizes of the parts of a tuple with at most so many are added up, which is faster."""
DEPTH = 2
"""Tuples in tuples in tuples are only measured by pickling."""
FEW = 64
"""So many are measured one by one: that is faster then."""
NO_HASH = -1
_NONE: Numbers = np.empty(0, np.int64)
HASH_MASK = 0xFFFFFFFF
TUPLE_HASH = 2
"""That of a tuple without parts."""
_TABLE = np.array(
    [zlib.crc32(bytes([byte ^ 0xFF])) ^ HASH_MASK ^ (HASH_MASK >> 8) for byte in range(256)],
    np.int64,
)
"""What a byte makes of a CRC: that of `zlib`, without the steps at its beginning and end."""


def sizes_of(values: Sequence[Any]) -> Numbers:
    """The `quick_size` of each value."""
    if len(values) > FEW and (at_once := _sizes(values)) is not None:
        return at_once
    return np.fromiter(map(quick_size, values), np.int64, len(values))


class KeyMeasures:
    """Sizes and hashes of keys that are written again and again, each of them measured once.

    What is known is known of the keys of the last call, for as long as they come in the same order,
    perhaps with others behind them: so it is where most of a state changes with each commit.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._keys: Sequence[Any] = ()
        self._sizes: Numbers = _NONE
        self._hashes: Numbers = _NONE

    def sizes_of(self, keys: Sequence[Any]) -> Numbers:
        """The sizes of these keys; those of known ones are not measured again."""
        known = len(self._keys)
        if len(keys) <= FEW:
            if known:
                self._forget()
            return sizes_of(keys)
        if known > len(keys) or not all(map(is_, self._keys, keys)):
            known = 0
        self._sizes = np.append(self._sizes[:known], sizes_of(keys[known:]))
        self._hashes = self._hashes[:known]
        self._keys = keys
        return self._sizes.copy()

    def hashes_of(self, keys: Sequence[Any]) -> Numbers:
        """The hashes of the keys that `sizes_of` was asked for last."""
        if len(keys) <= FEW:
            return hashes_of(keys)
        known = len(self._hashes)
        self._hashes = np.append(self._hashes, hashes_of(keys[known:]))
        return self._hashes


def _sizes(values: Sequence[Any], depth: int = DEPTH) -> Numbers | None:
    """Measure values of one kind; None: they are of several kinds."""
    kind = kind_of(values)
    if kind is set:
        return _sizes_of_sets(values)
    if kind is not tuple:
        return plain_sizes(values, kind)
    if not depth:
        return None
    if (width := width_of(values)) is None or width > SHORT:
        return None
    total: Numbers = np.full(len(values), 2, np.int64)
    for i in range(width):
        if (sizes := _sizes(list(map(itemgetter(i), values)), depth - 1)) is None:
            return None
        total += sizes
    return total


def _sizes_of_sets(sets: Sequence[set[Any]]) -> Numbers | None:
    """Measure sets; None: what is in them is of several kinds, or not plain."""
    elements = list(chain.from_iterable(sets))
    if not elements or (sizes := plain_sizes(elements, kind_of(elements))) is None:
        return None
    ends = np.cumsum(np.fromiter(map(len, sets), np.int64, len(sets)))
    total = np.append(0, np.cumsum(sizes))[ends]
    of_sets: Numbers = np.diff(total, prepend=0) + 4
    return of_sets


def plain_sizes(values: Sequence[Any], kind: type | None) -> Numbers | None:
    """Measure values of this kind; None: it is not plain."""
    n = len(values)
    if kind is int:
        return (np.fromiter(map(int.bit_length, values), np.int64, n) >> 3) + 4
    if kind is str or kind is bytes:
        return np.fromiter(map(len, values), np.int64, n) + 8
    if kind is float or kind is bool or kind is type(None):
        return np.full(n, 8, np.int64)
    return None


def kind_of(values: Sequence[Any]) -> type | None:
    """The type of all of them; None: there are several."""
    kinds = set(map(type, values))
    return kinds.pop() if len(kinds) == 1 else None


def width_of(tuples: Sequence[Any]) -> int | None:
    """The length of all of them; None: there are several."""
    widths = set(map(len, tuples))
    return widths.pop() if len(widths) == 1 else None


def quick_size(value: Any, depth: int = DEPTH) -> int:
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
    if kind is not tuple or len(value) > SHORT or not depth:
        return _size_of_set(value) if kind is set else 0
    size = 2
    for part in value:
        kind = type(part)
        if kind is int:
            size += 4 + (part.bit_length() >> 3)
        elif kind is str or kind is bytes:
            size += len(part) + 8
        elif kind is float or kind is bool or part is None:
            size += 8
        elif (kind is tuple or kind is set) and (inner := quick_size(part, depth - 1)):
            size += inner
        else:
            return 0
    return size


def _size_of_set(elements: set[Any]) -> int:
    sizes = [0 if type(one) is tuple else quick_size(one) for one in elements]
    return 4 + sum(sizes) if all(sizes) else 0


def hashes_of(keys: Sequence[Any]) -> Numbers:
    """The `stable_hash` of each key; `NO_HASH` where it is None."""
    if len(keys) > FEW and (at_once := _hashes(keys)) is not None:
        return at_once
    hashes = (NO_HASH if (number := stable_hash(key)) is None else number for key in keys)
    return np.fromiter(hashes, np.int64, len(keys))


def _hashes(keys: Sequence[Any]) -> Numbers | None:
    """Hash keys of one kind; None: they are of several kinds."""
    kind = kind_of(keys)
    if kind is not tuple:
        return _plain_hashes(keys, kind)
    if (width := width_of(keys)) is None:
        return None
    numbers: Numbers = np.full(len(keys), TUPLE_HASH, np.int64)
    for i in range(width):
        part = list(map(itemgetter(i), keys))
        kind = kind_of(part)
        if kind is tuple or (inner := _plain_hashes(part, kind)) is None:
            return None
        numbers = crc32_of(inner, numbers)
    return numbers


def _plain_hashes(keys: Sequence[Any], kind: type | None) -> Numbers | None:
    if kind is int or kind is bool:
        return np.fromiter(map(hash, keys), np.int64, len(keys)) & HASH_MASK
    if kind is str:
        try:
            return np.fromiter(map(zlib.crc32, map(str.encode, keys)), np.int64, len(keys))
        except UnicodeEncodeError:  # a surrogate
            return None
    return None


def crc32_of(words: Numbers, before: Numbers) -> Numbers:
    """`zlib.crc32` of the four bytes of each word, the highest first."""
    crc = before ^ HASH_MASK
    for shift in (24, 16, 8, 0):
        crc = _TABLE[(crc ^ (words >> shift)) & 0xFF] ^ (crc >> 8)
    return crc ^ HASH_MASK


def stable_hash(key: Any) -> int | None:
    """A hash that is the same in every process, and for equal keys; None if there is none.

    Python's own hash of text differs between processes.
    """
    kind = type(key)
    if kind is str:
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if kind is int or kind is bool or kind is float:
        return None if key != key else hash(key) & HASH_MASK
    if kind is bytes:
        return zlib.crc32(key, 1)
    if key is None:
        return 0
    if kind is tuple:
        number = TUPLE_HASH
        for part in key:
            if (inner := stable_hash(part)) is None:
                return None
            number = zlib.crc32(inner.to_bytes(4, "big"), number)
        return number
    return None
