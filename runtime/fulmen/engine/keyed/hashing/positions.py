"""Positions of keys: which of its component's tasks a key belongs to, for any number of tasks.

A key's position is a number of 32 bits, evenly spread however alike keys are. Task k of n has the
positions from k * 2**32 / n on: contiguous ranges, of which twice as many tasks have the halves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fulmen.engine.keyed.hashing.column_hash import Hashes

Positions = npt.NDArray[np.uint32]


def positions(columns: Sequence[Hashes]) -> Positions:
    """The position of each row: the `list_hash` of its values.

    Args:
        columns: The hashes of the values, a column for each field of the key.
    """
    total: Positions = np.ones(len(columns[0]), np.uint32)
    for column in columns:
        total = _mixed(np.uint32(31) * total + _mixed(column.view(np.uint32)))
    return total


def _mixed(words: Positions) -> Positions:
    """See `value_hash.mixed`."""
    spread = words ^ words >> np.uint32(16)
    spread *= np.uint32(0x85EB_CA6B)
    spread ^= spread >> np.uint32(13)
    spread *= np.uint32(0xC2B2_AE35)
    spread ^= spread >> np.uint32(16)
    return spread


def task_index(places: Positions, n: int) -> npt.NDArray[np.intp]:
    """The number of the task, of `n`, that each position belongs to."""
    return (places.astype(np.uint64) * np.uint64(n) >> np.uint64(32)).astype(np.intp)
