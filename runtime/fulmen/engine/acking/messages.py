"""Messages from tasks to ackers, as columns; and which acker each message is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fulmen.engine.acking.root_ids import SEQUENCE_BITS
from fulmen.engine.tuples.chunk import EMPTY_IDS, Ids, RootRange, ended

LONGEST_REASON = 500
_KIND = np.uint64(SEQUENCE_BITS - 1)
"""Root ids without the bits of their sequence: those of one kind are likely to lie close together.
One bit is whether a tree is traced."""
Times = npt.NDArray[np.float64]
EMPTY_TIMES: Times = np.empty(0, np.float64)


def combine(
    roots: Ids, values: Ids, weights: npt.NDArray[np.int64] | None = None
) -> tuple[Ids, Ids, npt.NDArray[np.int64]]:
    """XOR the messages about each root into one.

    Args:
        roots: A root id for each message.
        values: The ids that each message tells of.
        weights: How many messages each of these stands for already; None: one.

    Returns:
        The roots, ascending; the value of each; how many messages it had.
    """
    if len(roots) == 0:
        return EMPTY_IDS, EMPTY_IDS, np.empty(0, np.int64)
    low, high = roots.min(), roots.max()
    span = int(high - low) + 1
    if span <= 4 * len(roots) + 1024:  # sequence numbers lie close together: no sort is needed
        place = (roots - low).astype(np.int64)
        sums = np.zeros(span, np.uint64)
        np.bitwise_xor.at(sums, place, values)
        counts = np.bincount(place, weights).astype(np.int64, copy=False)
        present = np.flatnonzero(counts)
        return low + present.astype(np.uint64), sums[present], counts[present]
    kinds = roots >> _KIND
    if (kinds != kinds[0]).any():  # one by one
        used = np.flatnonzero(np.bincount(kinds.astype(np.int64)))  # np.unique would sort
        masks = [kinds == kind for kind in used.astype(np.uint64)]  # else 4 times slower
        parts = [
            combine(roots[m], values[m], None if weights is None else weights[m]) for m in masks
        ]
        return (
            np.concatenate([p[0] for p in parts]),
            np.concatenate([p[1] for p in parts]),
            np.concatenate([p[2] for p in parts]),
        )
    order = np.argsort(roots, kind="stable")
    roots = roots[order]
    start = np.flatnonzero(np.concatenate(([True], roots[1:] != roots[:-1])))
    counts = (
        np.diff(np.append(start, len(roots)))
        if weights is None
        else np.add.reduceat(weights[order], start)
    )
    return roots[start], np.bitwise_xor.reduceat(values[order], start), counts


@dataclass
class Messages:
    """Messages to acker tasks. `born` is the wall clock time of the spout's emit, in seconds.

    Attributes:
        ranges: Trees that are not told apart. They begin with the batch's messages, and wait for
            no more than their values say.
        acked_in_ranges: How many acks of single tuples they stand for.
    """

    inits: list[tuple[Ids, Ids, Times]] = field(default_factory=list)
    acks: list[tuple[Ids, Ids, npt.NDArray[np.int64] | None]] = field(default_factory=list)
    fails: list[tuple[int, str]] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)
    ranges: list[RootRange] = field(default_factory=list)
    acked_in_ranges: int = 0

    def __bool__(self) -> bool:
        return bool(self.inits or self.acks or self.fails or self.resets or self.ranges)

    def fail(self, roots: Iterable[int], reason: str) -> None:
        """Fail trees. A long reason is cut: each spout task hears it for each of its trees."""
        reason = reason[:LONGEST_REASON]
        self.fails += [(root, reason) for root in roots]

    def fail_each(self, roots: Sequence[int], reasons: Iterable[str]) -> None:
        """Fail trees for a reason each."""
        self.fails += zip(roots, [reason[:LONGEST_REASON] for reason in reasons], strict=True)

    def add(self, other: Messages) -> None:
        """Append all messages of `other`."""
        self.inits += other.inits
        self.acks += other.acks
        self.fails += other.fails
        self.resets += other.resets
        self.ranges += other.ranges
        self.acked_in_ranges += other.acked_in_ranges

    def tell_apart(self) -> None:
        """Have messages about each tree in place of ranges, as other workers receive them."""
        if not self.ranges:
            return
        self.inits.append(ended(self.ranges))
        if self.acked_in_ranges:
            one = self.inits[-1][0][:1]  # which of them the acks are about makes no difference
            self.acks.append((one, np.zeros(1, np.uint64), np.array([self.acked_in_ranges])))
        self.ranges, self.acked_in_ranges = [], 0

    def compact(self) -> None:
        """Combine the messages of many chunks, so that they take the room of one."""
        if len(self.acks) > 1 or (self.acks and self.acks[0][2] is None):
            roots = np.concatenate([a[0] for a in self.acks])
            values = np.concatenate([a[1] for a in self.acks])
            weights = None
            if any(a[2] is not None for a in self.acks):
                weights = np.concatenate(
                    [np.ones(len(a[0]), np.int64) if a[2] is None else a[2] for a in self.acks]
                )
            self.acks = [combine(roots, values, weights)]
        if len(self.inits) > 1:
            roots, values, born = (np.concatenate([i[k] for i in self.inits]) for k in range(3))
            self.inits = [(roots, values, born)]

    def parts(self, n: int) -> Iterator[Messages]:
        """Split into parts of about `n` messages; a fail, which has a text, counts for 32."""
        few = max(1, n // 32)
        size = 32 * len(self.fails) + len(self.resets)
        size += sum(len(roots) for roots, _, _ in (*self.inits, *self.acks))
        if 0 < size <= n:
            yield self
            return
        for roots, values, born in self.inits:
            for at in (slice(i, i + n) for i in range(0, len(roots), n)):
                yield Messages(inits=[(roots[at], values[at], born[at])])
        for roots, values, counts in self.acks:
            for at in (slice(i, i + n) for i in range(0, len(roots), n)):
                of_each = None if counts is None else counts[at]
                yield Messages(acks=[(roots[at], values[at], of_each)])
        for i in range(0, len(self.fails), few):
            yield Messages(fails=self.fails[i : i + few])
        for i in range(0, len(self.resets), n):
            yield Messages(resets=self.resets[i : i + n])

    def split(self, ackers: int) -> list[Messages]:
        """Split into one part for each acker task, by Storm's mod hashing."""
        if ackers > 1:
            self.tell_apart()
        self.compact()
        return [self] if ackers == 1 else self._by_acker(ackers)

    def _by_acker(self, ackers: int) -> list[Messages]:
        parts = [Messages() for _ in range(ackers)]
        for roots, values, born in self.inits:
            to = acker_index(roots, ackers)
            for k, part in enumerate(parts):
                here = np.flatnonzero(to == k)
                if len(here):
                    part.inits.append((roots[here], values[here], born[here]))
        for roots, values, counts in self.acks:
            to = acker_index(roots, ackers)
            for k, part in enumerate(parts):
                here = np.flatnonzero(to == k)
                if len(here):
                    part.acks.append(
                        (roots[here], values[here], None if counts is None else counts[here])
                    )
        roots = np.array([root for root, _ in self.fails], np.uint64)
        for k, fail in zip(acker_index(roots, ackers).tolist(), self.fails, strict=True):
            parts[k].fails.append(fail)
        resets = acker_index(np.array(self.resets, np.uint64), ackers).tolist()
        for k, root in zip(resets, self.resets, strict=True):
            parts[k].resets.append(root)
        return parts


def acker_index(roots: Ids, ackers: int) -> npt.NDArray[np.int64]:
    """The number of the acker task of each root.

    floorMod(31 + int32(id ^ id >>> 32), ackers), as in Storm.
    """
    folded = (
        ((roots ^ (roots >> np.uint64(32))) & np.uint64(0xFFFFFFFF))
        .astype(np.uint32)
        .view(np.int32)
    )
    hashes = folded + np.int32(31)
    return np.mod(hashes.astype(np.int64), ackers)
