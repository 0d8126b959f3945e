"""Root ids: which task a tuple tree began at, which of its emits that was, and if it is traced.

That it is traced is part of its root id, so all who deal with its tuples know it, wherever they
are, and tuples have nothing more to carry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fulmen.engine.tuples.chunk import Ids, RootRange

SEQUENCE_BITS = 48
"""A root id is its origin (a task's number), then 48 bits that the task gives: whether the tree is
traced, and 47 bits of the task's own sequence. A million a second are enough for four years."""
TRACED_BIT = 1 << (SEQUENCE_BITS - 1)
TRACED = np.uint64(TRACED_BIT)
ORIGINS = 1 << 16
"""So many there can be."""
_SHIFT = np.uint64(SEQUENCE_BITS)
_SEQUENCE = np.uint64(TRACED_BIT - 1)


def root_ids(origin: int, first: int, n: int) -> Ids:
    """The ids of `n` roots of one task, from its sequence number `first`."""
    return np.arange(n, dtype=np.uint64) + np.uint64(first_root(origin, first))


def first_root(origin: int, sequence: int) -> int:
    """The id of one root of a task, of which no tree is traced."""
    return (origin << SEQUENCE_BITS) + sequence


def tree_id(root: int) -> str:
    """A root id for people: its origin and its number there, such as `3-2591`."""
    return f"{root >> SEQUENCE_BITS}-{root & int(_SEQUENCE)}"


def root_of(tree: str) -> int | None:
    """The root id that `tree_id` has written; None: it is none."""
    origin, dash, sequence = tree.partition("-")
    if not (dash and _is_number(origin) and _is_number(sequence)):
        return None
    if int(origin) >= ORIGINS or int(sequence) > int(_SEQUENCE):
        return None
    return (int(origin) << SEQUENCE_BITS) + int(sequence)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 15


def sequence_ranges(roots: Ids) -> dict[int, npt.NDArray[np.int64]]:
    """Roots, ascending, as ranges [first, end) of sequence numbers, by origin.

    Most messages are acked in the order of their emits, so the ranges are few.
    """
    ranges: dict[int, npt.NDArray[np.int64]] = {}
    if not len(roots):
        return ranges
    origins = roots >> _SHIFT
    cuts = [0, *(np.flatnonzero(np.diff(origins)) + 1).tolist(), len(roots)]
    for a, b in pairwise(cuts):
        origin, of_one = int(origins[a]), roots[a:b]
        numbers = (of_one & _SEQUENCE).astype(np.int64)
        if of_one[-1] & TRACED:  # these come last
            numbers.sort()
        cut = np.flatnonzero(np.diff(numbers) != 1) + 1
        first = numbers[np.concatenate(([0], cut))]
        end = numbers[np.concatenate((cut - 1, [len(numbers) - 1]))] + 1
        ranges[origin] = np.stack([first, end], axis=1)
    return ranges


def sequences_of(ranges: Iterable[RootRange]) -> dict[int, npt.NDArray[np.int64]]:
    """The same of ranges that are known, of which no tree is traced."""
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in ranges:
        first = one.first & (TRACED_BIT - 1)
        spans[one.first >> SEQUENCE_BITS].append((first, first + one.n))
    return {origin: np.array(some, np.int64) for origin, some in spans.items()}


def with_sequences(failed: Iterable[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """Root ids with reasons, as origins and sequence numbers with reasons."""
    mask = TRACED_BIT - 1
    return [(root >> SEQUENCE_BITS, root & mask, reason) for root, reason in failed]


def traced_among(roots: Ids) -> Ids:
    """The roots of traced trees."""
    traced: Ids = roots[(roots & TRACED) != 0]
    return traced


def traced_root(origin: int, sequence: int) -> int:
    """The root id of a tree that is traced."""
    return origin << SEQUENCE_BITS | TRACED_BIT | sequence


def without_traced(root: int) -> int:
    """Drop the bit of a root id that says that its tree is traced."""
    return root & ~TRACED_BIT
