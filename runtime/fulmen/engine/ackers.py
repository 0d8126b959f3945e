"""Storm's acker algorithm, over columns.

For each root an acker keeps one value: the XOR of every edge id that was sent to it and every id
that was acked. An edge id enters twice, when its tuple is anchored and when it is acked, so the
value is 0 exactly when all are acked (by chance otherwise once in 2**64). XOR has no order:
messages about a root may be combined anywhere, and are, before they leave a worker.

What is guaranteed: all messages of a batch are applied together, so a tree never ends early because
an ack came before an init. A message about a root that is not pending and has no init in this batch
is about a tree that has ended, and is dropped: nothing waits for the sake of late messages. Time is
the batch clock, in seconds, which stands still while a topology is down or recovering.

Not done: Storm's rotating buckets, whose timeout lies anywhere between T and 2T. Here each pending
tree has a time of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fulmen.engine.chunk import EMPTY_IDS, Ids

SLOT_BITS = 48
"""A root id is the number of its spout task's slot, then 48 bits of the task's own sequence."""
_SHIFT = np.uint64(SLOT_BITS)
_SEQUENCE = np.uint64((1 << SLOT_BITS) - 1)

LONGEST_REASON = 500
Times = npt.NDArray[np.float64]
EMPTY_TIMES: Times = np.empty(0, np.float64)


def root_ids(slot: int, first: int, n: int) -> Ids:
    """The ids of `n` roots of one spout task, from its sequence number `first`."""
    return np.arange(n, dtype=np.uint64) + np.uint64((slot << SLOT_BITS) + first)


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
        counts = np.bincount(place, weights, span).astype(np.int64, copy=False)
        present = np.flatnonzero(counts)
        return low + present.astype(np.uint64), sums[present], counts[present]
    slots = roots >> _SHIFT
    if (slots != slots[0]).any():  # slot by slot: the numbers of each are likely to lie close
        used = np.flatnonzero(np.bincount(slots.astype(np.int64)))  # np.unique would sort
        masks = [slots == slot for slot in used.astype(np.uint64)]
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
    """Messages to acker tasks. `born` is the wall clock time of the spout's emit, in seconds."""

    inits: list[tuple[Ids, Ids, Times]] = field(default_factory=list)
    acks: list[tuple[Ids, Ids, npt.NDArray[np.int64] | None]] = field(default_factory=list)
    fails: list[tuple[int, str]] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.inits or self.acks or self.fails or self.resets)

    def fail(self, roots: Iterable[int], reason: str) -> None:
        """Fail trees. A long reason is cut: each spout task hears it for each of its trees."""
        reason = reason[:LONGEST_REASON]
        self.fails += [(root, reason) for root in roots]

    def add(self, other: Messages) -> None:
        """Append all messages of `other`."""
        self.inits += other.inits
        self.acks += other.acks
        self.fails += other.fails
        self.resets += other.resets

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
        """The same in parts of about `n` messages; a fail, which has a text, counts for 32."""
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
        """One part for each acker task, by Storm's mod hashing."""
        self.compact()
        if ackers == 1:
            return [self]
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
        for root, reason in self.fails:
            parts[_acker_of(root, ackers)].fails.append((root, reason))
        for root in self.resets:
            parts[_acker_of(root, ackers)].resets.append(root)
        return parts


def _acker_of(root: int, ackers: int) -> int:
    return int(acker_index(np.array([root], np.uint64), ackers)[0])


def acker_index(roots: Ids, ackers: int) -> npt.NDArray[np.int64]:
    """Which of the acker tasks each root belongs to.

    floorMod(31 + int32(id ^ id >>> 32), ackers), as in Storm.
    """
    folded = (
        ((roots ^ (roots >> np.uint64(32))) & np.uint64(0xFFFFFFFF))
        .astype(np.uint32)
        .view(np.int32)
    )
    with np.errstate(over="ignore"):
        hashes = folded + np.int32(31)
    return np.mod(hashes.astype(np.int64), ackers)


@dataclass(frozen=True)
class Trees:
    """The pending trees of one acker task, 32 bytes each, sorted by root.

    Attributes:
        roots: Root ids.
        values: XOR so far.
        since: Batch clock when the tree was made, or its timeout was reset.
        born: Wall clock time of the spout's emit, for the complete latency.
    """

    roots: Ids = field(default_factory=lambda: EMPTY_IDS)
    values: Ids = field(default_factory=lambda: EMPTY_IDS)
    since: Times = field(default_factory=lambda: EMPTY_TIMES)
    born: Times = field(default_factory=lambda: EMPTY_TIMES)

    def __len__(self) -> int:
        return len(self.roots)

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Trees:
        """The trees at `index`."""
        return Trees(self.roots[index], self.values[index], self.since[index], self.born[index])

    def place(self, roots: Ids) -> npt.NDArray[np.int64]:
        """Where each of `roots` is; -1 for one that is not pending."""
        if not len(self.roots):
            return np.full(len(roots), -1, np.int64)
        place = np.minimum(np.searchsorted(self.roots, roots), len(self.roots) - 1)
        return np.where(self.roots[place] == roots, place, -1).astype(np.int64)


TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Outcome:
    """What one batch did to the trees of an acker task.

    Attributes:
        trees: Those still pending.
        acked: Roots of the trees that ended well, ascending.
        born: When each of those was emitted.
        failed: Root and reason of the others that ended.
        timed_out: How many of those timed out.
        changed: Which of `trees` are new or have another value or time than before.
        ended_before: Roots that were pending before the batch and no longer are.
    """

    trees: Trees
    acked: Ids
    born: Times
    failed: Sequence[tuple[int, str]]
    timed_out: int
    changed: npt.NDArray[np.bool_]
    ended_before: Ids


def step(trees: Trees, messages: Messages, clock: float, timeout_seconds: float) -> Outcome:
    """Apply all messages of a batch.

    A tree whose value is 0 is acked, whatever its age and even if it was failed too, as in Storm.
    Of the others, a failed one fails, and one that is older than the timeout times out.
    """
    messages.compact()
    before = trees
    for roots, values, born in messages.inits:
        trees = _insert(trees, Trees(roots, values, np.full(len(roots), clock), born))
    n = len(trees)
    if n == 0:
        return Outcome(trees, EMPTY_IDS, EMPTY_TIMES, (), 0, np.zeros(0, np.bool_), EMPTY_IDS)
    values, since = trees.values.copy(), trees.since.copy()
    touched = trees.place(before.roots) if len(before) else np.empty(0, np.int64)
    changed = np.ones(n, np.bool_)
    changed[touched] = False
    for roots, acks, _ in messages.acks:
        place = trees.place(roots)
        known = place >= 0
        values[place[known]] ^= acks[known]
        changed[place[known]] = True
    resets = trees.place(np.array(sorted(set(messages.resets)), np.uint64))
    resets = resets[resets >= 0]
    since[resets] = clock
    changed[resets] = True
    reasons = _reasons(trees, messages.fails)
    done = values == 0
    late = ~done & (clock - since > timeout_seconds)
    failed = np.zeros(n, np.bool_)
    failed[list(reasons)] = True
    failed &= ~done
    late &= ~failed
    ends = done | failed | late
    left = ~ends
    after = Trees(trees.roots[left], values[left], since[left], trees.born[left])
    ended = [(int(trees.roots[i]), reasons[i]) for i in np.flatnonzero(failed).tolist()]
    ended += [(root, TIMED_OUT) for root in trees.roots[late].tolist()]
    was = np.zeros(n, np.bool_)
    was[touched] = True
    return Outcome(
        after,
        trees.roots[done],
        trees.born[done],
        ended,
        int(late.sum()),
        changed[left],
        trees.roots[ends & was],
    )


def _insert(trees: Trees, new: Trees) -> Trees:
    if len(new) > 1 and (new.roots[1:] <= new.roots[:-1]).any():
        new = new.take(np.argsort(new.roots, kind="stable"))
    if not len(trees):
        return new
    at = np.searchsorted(trees.roots, new.roots)
    return Trees(
        np.insert(trees.roots, at, new.roots),
        np.insert(trees.values, at, new.values),
        np.insert(trees.since, at, new.since),
        np.insert(trees.born, at, new.born),
    )


def _reasons(trees: Trees, fails: Sequence[tuple[int, str]]) -> dict[int, str]:
    """Place -> reason of the first fail of each tree."""
    if not fails:
        return {}
    places = trees.place(np.array([root for root, _ in fails], np.uint64)).tolist()
    reasons: dict[int, str] = {}
    for place, (_, reason) in zip(places, fails, strict=True):
        if place >= 0:
            reasons.setdefault(place, reason)
    return reasons


def sequence_ranges(roots: Ids) -> dict[int, npt.NDArray[np.int64]]:
    """Roots, ascending, as ranges [first, end) of sequence numbers, by slot.

    Most messages are acked in the order of their emits, so the ranges are few.
    """
    ranges: dict[int, npt.NDArray[np.int64]] = {}
    if not len(roots):
        return ranges
    slots = roots >> _SHIFT
    for slot in np.unique(slots).tolist():
        numbers = (roots[slots == slot] & _SEQUENCE).astype(np.int64)
        cut = np.flatnonzero(np.diff(numbers) != 1) + 1
        first = numbers[np.concatenate(([0], cut))]
        end = numbers[np.concatenate((cut - 1, [len(numbers) - 1]))] + 1
        ranges[slot] = np.stack([first, end], axis=1)
    return ranges


def slot_and_sequence(root: int) -> tuple[int, int]:
    """The spout slot and the sequence number in a root id."""
    return root >> SLOT_BITS, root & ((1 << SLOT_BITS) - 1)
