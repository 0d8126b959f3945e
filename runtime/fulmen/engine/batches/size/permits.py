"""How many tuples a spout task may emit in a batch, by what the batch before took. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median

from fulmen.engine.batches.summaries import BYTES_PER_SECOND
from fulmen.engine.protocol.figures.statistics import PENDING_MESSAGES, by_task
from fulmen.engine.protocol.summary import Summary

FIRST_PERMIT = 64
"""Small, as nothing is known yet of how long a tuple takes, and everything is slow at first."""
LARGEST_PERMIT = 10_000_000
MOST_GROWTH = 8
"""So many times larger a permit may become at once. What has gathered while a topology started is
emitted in a few batches then, and those are the slowest there are."""
LAST_BATCHES = 64
"""What a batch takes beyond others is seen by comparing it with so many."""


ENOUGH_BATCHES = 16
"""The first batches say nothing of what batches cost later."""
MOST_OVERHEAD = 8.0
"""So many times its target a batch may take for its tuples at most, whatever it takes besides: what
tuples take is only known about."""


class RecentBatches:
    """How many tuples the last batches had, and how long they took."""

    def __init__(self) -> None:
        self._took: deque[tuple[int, float]] = deque(maxlen=LAST_BATCHES)
        self._besides: deque[float] = deque(maxlen=LAST_BATCHES)

    def took(self, tuples: int, seconds: float, work: float) -> None:
        """Note a batch, and how many of its seconds were work for its tuples."""
        self._took.append((tuples, seconds))
        if tuples:
            self._besides.append(max(0.0, seconds - work))

    def at_least_overhead(self, target: float) -> float:
        """How long tuples may take: their target, or as long as a batch takes besides them.

        On a machine that is busy with other things that may be seconds, and smaller batches would
        only be more of them.
        """
        if len(self._besides) < ENOUGH_BATCHES:
            return target
        return max(target, min(median(self._besides), MOST_OVERHEAD * target))

    def excess(self, fixed: float) -> float:
        """Seconds of the newest one beyond the quickest, or beyond `fixed` if that is more."""
        return self._took[-1][1] - max(fixed, min(seconds for _, seconds in self._took))

    def beyond_smaller(self, fixed: float) -> float | None:
        """Seconds beyond the quickest with at most half of its tuples. None: there is none."""
        tuples, seconds = self._took[-1]
        smaller = [other for n, other in self._took if 2 * n <= tuples]
        return seconds - max(fixed, min(smaller)) if smaller else None


def next_permit(
    permit: int,
    summaries: Sequence[Summary],
    work: float,
    excess: float,
    target: float,
    beyond_smaller: float | None = None,
    tasks: int = 1,
) -> int:
    """Have the permit follow the batch time.

    Args:
        permit: That of the batch.
        summaries: Of all its parts.
        work: Seconds that grow with its tuples. It may be a little less than nothing.
        excess: Seconds that it took beyond the quickest of the last batches.
        target: How long that should be under load.
        beyond_smaller: Seconds that it took beyond the quickest of those that had at most half of
            its tuples. None: there was none.
        tasks: So many spout tasks a worker has at most.
    """
    most = max((s.emitted for s in summaries), default=0)
    if work > target:
        # of large tuples fewer are emitted than permitted: their bytes make it slow
        heavy = min(permit, most) if _is_heavy(summaries, target) else permit
        if most >= heavy // 4:  # else it is not the number of tuples that makes it slow
            return max(1, int(heavy * max(0.25, 0.9 * target / work)))
    elif excess > target:
        # a JVM that is cold, or a machine that is busy: `work` does not see these
        if excess > 2 * target and most >= permit // 4:
            return max(min(FIRST_PERMIT, permit), permit // 2)
    elif most >= permit:
        if work >= target / 2:
            return min(LARGEST_PERMIT, permit + max(1, permit // 16))
        # a spout that emits many at once has shown what more than its permit take
        shown = max(permit, most // tasks)
        return min(LARGEST_PERMIT, shown * _growth(work, target, beyond_smaller))
    return permit


def _growth(work: float, target: float, beyond_smaller: float | None) -> int:
    """How many times larger a permit becomes whose batch was short, and full.

    More than twice only if its time is known to depend on its tuples as little as its work says: a
    JVM that is cold has costs that no count shows.
    """
    if beyond_smaller is None:
        return 2
    seconds = max(work, beyond_smaller)
    return MOST_GROWTH if seconds * MOST_GROWTH <= target else max(2, int(target / seconds))


def is_full(permit: int, summaries: Sequence[Summary], limit: int | None) -> bool:
    """Whether spouts emitted as much as they were allowed to, so that they may have more."""
    if limit is not None and any(
        n >= limit for s in summaries for n in by_task(s.levels, PENDING_MESSAGES).values()
    ):
        return True
    return max((s.emitted for s in summaries), default=0) >= permit


def _is_heavy(summaries: Sequence[Summary], target: float) -> bool:
    """Whether it is the bytes that take a batch's time."""
    moved = max((s.moved_bytes for s in summaries), default=0)
    return moved / BYTES_PER_SECOND > target
