"""The two tasks that Storm 2's partial key grouping considers for a key.

Storm seeds a `java.util.Random` with the hash of the key's bytes and draws twice. The key's bytes
are the hashes of the selected values, four bytes each, the highest first. So a key is given here by
the hashes of its values. `Choices` remembers keys, and computes a large chunk at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.engine.keyed.hashing.column_hash import Hashes
from fulmen.engine.keyed.hashing.value_hash import bytes_hash

Words = npt.NDArray[np.uint64]

# java.util.Random: a linear congruential generator of 48 bits, which gives away the upper 31.
_FACTOR = 0x5_DEEC_E66D
_INCREMENT = 0xB
_STATE = (1 << 48) - 1


def two_choices(key: Sequence[int], n: int) -> tuple[int, int]:
    """The two of `n` tasks for a key, by their position. Different ones, unless there is but one.

    Args:
        key: The hashes of the key's values.
        n: How many tasks there are.
    """
    state = (bytes_hash(struct.pack(f">{len(key)}i", *key)) ^ _FACTOR) & _STATE
    first, state = _next_int(state, n)
    second, state = _next_int(state, n)
    return first, (second + 1) % n if second == first else second


def _next_int(state: int, bound: int) -> tuple[int, int]:
    """The result of Random.nextInt(bound), and the generator's next state."""
    while True:
        state = (state * _FACTOR + _INCREMENT) & _STATE
        bits = state >> 17
        if bound & (bound - 1) == 0:
            return bits * bound >> 31, state
        value = bits % bound
        if bits - value + bound <= 1 << 31:  # else they are of the last, incomplete round of values
            return value, state


def two_choices_columns(columns: Sequence[Hashes], n: int) -> tuple[Words, Words]:
    """Both choices for many keys, given as one column of hashes for each value."""
    seeds = np.ones(len(columns[0]), np.int32)
    weights = np.array([31**3, 31**2, 31, 1], np.int32)
    for column in columns:
        signed = column.astype(">i4").view(np.int8).reshape(-1, 4)
        seeds = seeds * np.int32(31**4) + signed @ weights
    states = (seeds.astype(np.int64).view(np.uint64) ^ np.uint64(_FACTOR)) & np.uint64(_STATE)
    first, states = _next_ints(states, n)
    second, states = _next_ints(states, n)
    same = np.flatnonzero(second == first)
    second[same] = (second[same] + np.uint64(1)) % np.uint64(n)
    return first, second


def _next_ints(states: Words, bound: int) -> tuple[Words, Words]:
    states = (states * np.uint64(_FACTOR) + np.uint64(_INCREMENT)) & np.uint64(_STATE)
    bits = states >> np.uint64(17)
    if bound & (bound - 1) == 0:
        return bits * np.uint64(bound) >> np.uint64(31), states
    rounds = bits // np.uint64(bound) * np.uint64(bound)
    values = bits - rounds
    rejected = np.flatnonzero(rounds > np.uint64((1 << 31) - bound))
    if len(rejected):
        values[rejected], states[rejected] = _next_ints(states[rejected], bound)
    return values, states


class Choices(dict[tuple[int, ...], tuple[int, int]]):
    """The two choices of keys seen lately, for `n` tasks. When full it is emptied."""

    ENTRIES = 1 << 16
    FEW = 64
    """Up to so many keys are looked up. More are computed together: as fast if all are known."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n

    def __missing__(self, key: tuple[int, ...]) -> tuple[int, int]:
        choices = two_choices(key, self._n)
        if len(self) >= self.ENTRIES:
            self.clear()
        self[key] = choices
        return choices

    def of(self, columns: Sequence[Hashes]) -> Iterable[tuple[int, int]]:
        """The choices of each key, given as one column of hashes for each of its values."""
        if len(columns[0]) <= self.FEW:
            keys: Iterable[Any] = zip(*(column.tolist() for column in columns), strict=True)
            return map(self.__getitem__, keys)
        first, second = two_choices_columns(columns, self._n)
        if self._n <= 256:  # bytes: a loop over them makes no objects
            small = (first.astype(np.uint8).tobytes(), second.astype(np.uint8).tobytes())
            return zip(*small, strict=True)
        return zip(first.tolist(), second.tolist(), strict=True)
