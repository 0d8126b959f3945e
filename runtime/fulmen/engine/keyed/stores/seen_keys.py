"""Which keys were perhaps seen before: a Bloom filter that grows. Pure.

While a store is filled, nearly every key is new. To ask the store for each takes the longer, the
more files it has: 2 us at first, 6 with six of them. This takes 1 us, and two bytes a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_FIRST_BITS = 20
"""Of the number of bits of the first filter. Each one after it has twice as many."""
_BITS_A_KEY = 16
_PROBES = 4


class SeenKeys:
    """Keys that were seen. It may take a key for one of them that is not, once in a thousand."""

    def __init__(self) -> None:
        self._filters: list[npt.NDArray[np.uint8]] = []
        self._room = 0

    def add(self, keys: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Add keys. Gives which of them were perhaps there already; they differ from each other."""
        hashes = np.fromiter(map(hash, keys), np.int64, len(keys)).view(np.uint64)
        was_there = np.zeros(len(keys), np.bool_)
        for bits in self._filters:
            is_in = np.ones(len(keys), np.bool_)
            for byte, bit in _places(hashes, bits):
                is_in &= (bits[byte] & bit) != 0
            was_there |= is_in
        if self._room < len(keys) or not self._filters:
            size = 1 << max(_FIRST_BITS + len(self._filters), len(keys).bit_length() + 4)
            self._filters.append(np.zeros(size // 8, np.uint8))
            self._room = size // _BITS_A_KEY
        self._room -= len(keys)
        for byte, bit in _places(hashes, self._filters[-1]):
            np.bitwise_or.at(self._filters[-1], byte, bit)
        return was_there


def _places(
    hashes: npt.NDArray[np.uint64], bits: npt.NDArray[np.uint8]
) -> list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]]:
    """Of each probe, the bytes and the bits in them."""
    mask, step = np.uint64(8 * len(bits) - 1), (hashes >> np.uint64(33)) | np.uint64(1)
    found = []
    for i in range(_PROBES):
        place = (hashes + np.uint64(i) * step) & mask
        bit = np.left_shift(np.uint8(1), (place & np.uint64(7)).astype(np.uint8))
        found.append((place >> np.uint64(3), bit))
    return found
