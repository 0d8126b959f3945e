"""Which keys were perhaps seen before: a Bloom filter that grows. Pure.

While a store is filled, nearly every key is new. To ask the store for each takes the longer, the
more files it has: 2 us at first, 6 with six of them. This takes a tenth of that, and two bytes a
key: all bits of a key are in one word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_FIRST_BITS = 20
"""Of the number of bits of the first filter. Each one after it has twice as many."""
_BITS_A_KEY = 16
_WORD_BITS = 64
_BIT_SHIFTS = (40, 46, 52, 58)
"""Where the numbers of a key's bits are in its hash. What is below says which word."""
Words = npt.NDArray[np.uint64]


class SeenKeys:
    """Keys that were seen. It may take a key for one of them that is not, once in some hundred."""

    def __init__(self) -> None:
        self._filters: list[Words] = []
        self._room = 0

    def add(self, keys: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Add keys. Gives which of them were perhaps there already; they differ from each other."""
        hashes = np.fromiter(map(hash, keys), np.int64, len(keys)).view(np.uint64)
        bits = _bits(hashes)
        was_there = np.zeros(len(keys), np.bool_)
        for words in self._filters:
            was_there |= (words[_places(hashes, words)] & bits) == bits
        if self._room < len(keys) or not self._filters:
            size = 1 << max(_FIRST_BITS + len(self._filters), len(keys).bit_length() + 4)
            self._filters.append(np.zeros(size // _WORD_BITS, np.uint64))
            self._room = size // _BITS_A_KEY
        self._room -= len(keys)
        words = self._filters[-1]
        np.bitwise_or.at(words, _places(hashes, words), bits)
        return was_there


def _bits(hashes: Words) -> Words:
    """The bits of each key in its word."""
    bits = np.zeros(len(hashes), np.uint64)
    for shift in _BIT_SHIFTS:
        numbers = (hashes >> np.uint64(shift)) & np.uint64(_WORD_BITS - 1)
        bits |= np.left_shift(np.uint64(1), numbers)
    return bits


def _places(hashes: Words, words: Words) -> npt.NDArray[np.intp]:
    """The word of each key."""
    return (hashes & np.uint64(len(words) - 1)).astype(np.intp)
