"""Traced trees, from their first batch to their last. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.engine.acking.root_ids import SEQUENCE_BITS, TRACED_BIT, traced_root
from fulmen.engine.driver.observer import Moments
from fulmen.engine.protocol.figures.trace_notes import Begun, Ran
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.tuples.chunk import Ranges
from fulmen.secrets import masked

MOST_FOLLOWED = 5_000
"""Trees at a time. Of more, the oldest are given up."""
MOST_PARTS, MOST_EVENTS = 100, 20
"""Batches and events of one tree; the last one takes the place of the one before."""
_SEQUENCE = TRACED_BIT - 1


@dataclass(frozen=True)
class TracedBatch:
    """A batch in which something became of a tree."""

    number: int
    moments: Moments
    commits: bool
    ran: dict[str, Ran] = field(default_factory=dict)


class TreeEvent(NamedTuple):
    """An event of a tree, when (in seconds of time.time()) and why."""

    at: float
    name: str
    reason: str


@dataclass
class Followed:
    """A tree, as far as it has come.

    Attributes:
        begun: Its begin.
        parts: The batches in which something became of it.
        events: What happened besides.
        at: When the last batch ended, by now.
        batches: How many batches have counted since it began, with that one.
        failed: Why it failed; None: it did not.
        is_ended: Whether it has ended.
    """

    begun: Begun
    parts: list[TracedBatch] = field(default_factory=list)
    events: list[TreeEvent] = field(default_factory=list)
    at: float = 0.0
    batches: int = 0
    failed: str | None = None
    is_ended: bool = False

    def part(self, batch: TracedBatch) -> TracedBatch:
        """The part that is of a batch, which is the newest."""
        if not self.parts or self.parts[-1].number != batch.number:
            del self.parts[MOST_PARTS - 1 :]
            self.parts.append(replace(batch, ran={}))
        return self.parts[-1]

    def happened(self, event: TreeEvent) -> None:
        """Add an event."""
        del self.events[MOST_EVENTS - 1 :]
        self.events.append(event)


class Following:
    """All trees that are traced and have not ended."""

    def __init__(self, most: int = MOST_FOLLOWED) -> None:
        self._most = most
        self._trees: dict[int, Followed] = {}

    def __len__(self) -> int:
        return len(self._trees)

    def batch(self, batch: TracedBatch, summaries: Sequence[Summary]) -> list[Followed]:
        """A batch counted. Gives the trees that have ended with it, or are followed no longer."""
        notes = [summary.traces for summary in summaries if summary.traces]
        for begun in (begun for some in notes for begun in some.begun):
            self._trees.setdefault(begun.root, Followed(begun)).part(batch)
        for (root, component), ran in (pair for some in notes for pair in some.ran.items()):
            known = self._trees.get(root)  # not, if a driver before has begun it
            if known is not None:
                part = known.part(batch)
                if component in part.ran:
                    part.ran[component].add(ran)
                else:
                    part.ran[component] = ran
        ended = list(self._ended(summaries)) if self._trees else []
        for tree in self._trees.values():
            tree.batches += 1
            tree.at = batch.moments.committed
        for tree in ended:
            tree.part(batch)
            del self._trees[tree.begun.root]
        return ended + self.give_up(len(self._trees) - self._most)

    def _ended(self, summaries: Iterable[Summary]) -> Iterator[Followed]:
        for summary in summaries:
            for origin, sequence, reason in summary.failed:
                tree = self._trees.get(traced_root(origin, sequence))
                if tree is not None and not tree.is_ended:
                    noted = [ran.failed for ran in tree.parts[-1].ran.values()]
                    tree.failed = next(filter(None, noted), None) or masked(reason)
                    tree.is_ended = True
                    yield tree
        acked = [summary.acked for summary in summaries if summary.acked]
        if not acked:
            return
        roots = np.fromiter(self._trees, np.uint64, len(self._trees))
        origins = roots >> np.uint64(SEQUENCE_BITS)
        for origin, ranges in (pair for some in acked for pair in some.items()):
            own = roots[origins == origin]
            for root in own[within(own & np.uint64(_SEQUENCE), ranges)].tolist():
                if not self._trees[root].is_ended:
                    self._trees[root].is_ended = True
                    yield self._trees[root]

    def attempt_failed(self, number: int, reason: str, at: float) -> None:
        """Note a failed attempt of a batch, for which all trees have waited."""
        event = TreeEvent(at, "attempt failed", masked(f"batch {number}: {reason}"))
        for tree in self._trees.values():
            tree.happened(event)

    def give_up(self, n: int) -> list[Followed]:
        """Follow so many trees no longer, the oldest; gives them as they are."""
        roots = list(islice(self._trees, max(0, n)))
        return [self._trees.pop(root) for root in roots]


def within(numbers: npt.NDArray[np.uint64], ranges: Ranges) -> npt.NDArray[np.bool_]:
    """Say which numbers are in one of the ranges, which don't overlap."""
    if not len(ranges) or not len(numbers):
        return np.zeros(len(numbers), np.bool_)
    of = numbers.astype(np.int64)
    ranges = ranges[np.argsort(ranges[:, 0])]
    at = np.searchsorted(ranges[:, 0], of, "right") - 1
    found: npt.NDArray[np.bool_] = (at >= 0) & (of < ranges[at, 1])
    return found
