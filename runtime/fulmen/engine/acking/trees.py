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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.engine.acking.messages import EMPTY_TIMES, Messages, Times
from fulmen.engine.tuples.chunk import EMPTY_IDS, Ids, RootRange


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

    @classmethod
    def joined(cls, parts: Iterable[Trees]) -> Trees:
        """The trees of all parts."""
        columns = zip(*(part.columns() for part in parts), strict=True)
        trees = cls(*(np.concatenate(column) for column in columns))
        return trees.take(np.argsort(trees.roots, kind="stable"))

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """All columns, in the order in which `Trees` takes them, and journals have them."""
        return tuple(getattr(self, column.name) for column in fields(self))

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Trees:
        """The trees at `index`."""
        return Trees(*(column[index] for column in self.columns()))

    def place(self, roots: Ids) -> npt.NDArray[np.int64]:
        """The places of `roots`; -1 for one that is not pending."""
        if not len(self.roots):
            return np.full(len(roots), -1)
        place = np.minimum(np.searchsorted(self.roots, roots), len(self.roots) - 1)
        return np.where(self.roots[place] == roots, place, -1).astype(np.int64)


TIMED_OUT = "timed out"


@dataclass(frozen=True)
class TreesOutcome:
    """The changes by one batch to the trees of an acker task.

    Attributes:
        trees: The trees that are still pending.
        acked: Roots of the trees that ended well, ascending.
        born: When each of those was emitted.
        failed: Root and reason of those that failed.
        timed_out: Roots of those that timed out, ascending.
        changed: Which of `trees` are new or have another value or time than before.
        ended_before: Roots that were pending before the batch and no longer are.
        done: Trees that ended well before the acker heard of them. They are not among `acked`.
    """

    trees: Trees
    acked: Ids
    born: Times
    failed: Sequence[tuple[int, str]]
    timed_out: Sequence[int]
    changed: npt.NDArray[np.bool_]
    ended_before: Ids
    done: Sequence[RootRange] = ()

    @property
    def acked_count(self) -> int:
        """How many trees ended well."""
        return len(self.acked) + sum(one.n for one in self.done)

    @property
    def not_acked(self) -> list[tuple[int, str]]:
        """Root and reason of all trees that failed or timed out."""
        return [*self.failed, *((root, TIMED_OUT) for root in self.timed_out)]


def step(trees: Trees, messages: Messages, clock: float, timeout_seconds: float) -> TreesOutcome:
    """Apply all messages of a batch.

    A tree whose value is 0 is acked, whatever its age and even if it was failed too, as in Storm.
    Of the others, a failed one fails, and one that is older than the timeout times out.
    """
    messages.compact()
    before = trees
    for roots, values, born in messages.inits:
        trees = _insert(trees, Trees(roots, values, np.full(len(roots), clock), born))
    n = len(trees)
    if n == 0:  # as most ackers of a light batch: an eighth of the time
        return TreesOutcome(trees, EMPTY_IDS, EMPTY_TIMES, (), (), np.zeros(0, np.bool_), EMPTY_IDS)
    values, since = trees.values.copy(), trees.since.copy()
    touched = trees.place(before.roots)
    changed = np.ones(n, np.bool_)
    changed[touched] = False
    for roots, acks, _ in messages.acks:
        place = trees.place(roots)
        known = place >= 0
        values[place[known]] ^= acks[known]
        changed[place[known]] = True
    done = values == 0
    if done.all():  # as in most batches: a third of the time
        none = np.zeros(0, np.bool_)
        return TreesOutcome(Trees(), trees.roots, trees.born, (), (), none, before.roots)
    resets = trees.place(np.array(messages.resets, np.uint64))
    resets = resets[resets >= 0]
    since[resets] = clock
    changed[resets] = True
    reasons = _reasons(trees, messages.fails)
    late = ~done & (clock - since > timeout_seconds)
    failed = np.zeros(n, np.bool_)
    failed[list(reasons)] = True
    failed &= ~done
    late &= ~failed
    ends = done | failed | late
    left = ~ends
    after = replace(trees, values=values, since=since).take(left)
    was = np.zeros(n, np.bool_)
    was[touched] = True
    return TreesOutcome(
        after,
        trees.roots[done],
        trees.born[done],
        _with_reasons(trees.roots[failed], np.flatnonzero(failed), reasons),
        trees.roots[late].tolist(),
        changed[left],
        trees.roots[ends & was],
    )


def _insert(trees: Trees, new: Trees) -> Trees:
    if (new.roots[1:] <= new.roots[:-1]).any():
        new = new.take(np.argsort(new.roots, kind="stable"))
    if not len(trees):
        return new
    at = np.searchsorted(trees.roots, new.roots)
    columns = zip(trees.columns(), new.columns(), strict=True)
    return Trees(*(np.insert(column, at, more) for column, more in columns))


def _with_reasons(
    roots: Ids, places: npt.NDArray[np.int64], reasons: Mapping[int, str]
) -> list[tuple[int, str]]:
    return [*zip(roots.tolist(), map(reasons.__getitem__, places.tolist()), strict=True)]


def _reasons(trees: Trees, fails: Sequence[tuple[int, str]]) -> dict[int, str]:
    """Place -> reason of the first fail of each tree."""
    places = trees.place(np.array([root for root, _ in fails], np.uint64)).tolist()
    last_first = zip(reversed(places), reversed(fails), strict=True)
    return {place: reason for place, (_, reason) in last_first if place >= 0}
