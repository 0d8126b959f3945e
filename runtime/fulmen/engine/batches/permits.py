"""How many tuples a spout task may emit in a batch, by what the batch before took. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fulmen.engine.batches.summaries import BYTES_PER_SECOND
from fulmen.engine.protocol.summary import Summary

FIRST_PERMIT = 64
"""Small, as nothing is known yet of how long a tuple takes, and everything is slow at first."""
LARGEST_PERMIT = 10_000_000


def next_permit(
    permit: int, summaries: Sequence[Summary], work: float, excess: float, target: float
) -> int:
    """Have the permit follow the batch time.

    Args:
        permit: That of the batch.
        summaries: Of all its parts.
        work: Seconds that grow with its tuples. It may be a little less than nothing.
        excess: Seconds that it took beyond the quickest of the last batches.
        target: How long that should be under load.
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
        step = permit if work < target / 2 else max(1, permit // 16)
        return min(LARGEST_PERMIT, permit + step)
    return permit


def is_full(permit: int, summaries: Sequence[Summary], limit: int | None) -> bool:
    """Whether spouts emitted as much as they were allowed to, so that they may have more.

    Args:
        permit: That of the batch.
        summaries: Of all its parts.
        limit: `maxSpoutPending`.
    """
    if limit is not None and any(n >= limit for s in summaries for n in s.spout_pending.values()):
        return True
    return max((s.emitted for s in summaries), default=0) >= permit


def _is_heavy(summaries: Sequence[Summary], target: float) -> bool:
    """Whether it is the bytes that take a batch's time."""
    moved = max((s.moved_bytes for s in summaries), default=0)
    return moved / BYTES_PER_SECOND > target
