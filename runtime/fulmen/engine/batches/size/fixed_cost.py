"""How much of a batch's time does not depend on how many tuples it has. Pure.

A call that takes two seconds whatever it is given, or a store that is slow to begin, makes a batch
longer than its target, and fewer tuples do not make it shorter. Only batches that have become
smaller can tell: that larger ones take no longer may be since everything becomes quicker when it is
warm. So if batches are longer than their target because of what is believed here, one of them is
made smaller now and then.
"""

from __future__ import annotations

FORGET = 0.9
"""How much of what was known counts after each batch."""
LEAST_STEP = 0.8
"""A batch is smaller if it has at most that part of the tuples of the one before."""
BATCHES_BETWEEN_TRIALS = 16
TRIAL_SHARE = 4
"""A trial has so many times fewer tuples."""


class FixedCost:
    """An estimate from batches that had fewer tuples than the one before.

    Attributes:
        seconds: What a batch takes besides its tuples.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last = 0, 0.0
        self._since_smaller = 0
        # of batches that have become smaller, as weighted sums: how many, the differences of
        # sizes with those of times and with themselves, sizes, times
        self._sums = [0.0] * 5

    def took(self, tuples: int, seconds: float) -> None:
        """A batch with so many tuples took so long."""
        if not tuples:
            return
        (before, seconds_before), self._last = self._last, (tuples, seconds)
        self._since_smaller += 1
        self._sums = [FORGET * old for old in self._sums]
        if tuples <= LEAST_STEP * before:
            self._since_smaller = 0
            fewer, shorter = before - tuples, seconds_before - seconds
            new = (
                1.0,
                fewer * shorter,
                fewer * fewer,
                (tuples + before) / 2,
                (seconds + seconds_before) / 2,
            )
            self._sums = [old + one for old, one in zip(self._sums, new, strict=True)]
            number, together, squares, sizes, times = self._sums
            each = max(0.0, together / squares)
            self.seconds = max(0.0, (times - each * sizes) / number)

    def wants_trial(self) -> bool:
        """Whether it is long ago that a batch became smaller."""
        return self._since_smaller >= BATCHES_BETWEEN_TRIALS


def seconds_for(target: float, fixed: float) -> float:
    """How long a batch may take: half of its time is for its tuples at least.

    Args:
        target: How long a batch should take.
        fixed: What it takes besides its tuples.
    """
    return max(target, 2 * fixed)
