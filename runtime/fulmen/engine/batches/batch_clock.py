"""The time of a topology. It does not pass while a batch is tried again. Pure."""

from __future__ import annotations


class BatchClock:
    """The clock that batches have, in seconds; made of any steady clock.

    Attributes:
        seconds: Of the attempt at hand, or of the last one.
        before: Of the batch before that.
    """

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = self.before = seconds
        self._mark = now

    def begin(self, now: float, *, is_retry: bool, stands: bool) -> None:
        """Begin an attempt.

        Args:
            now: Steady seconds.
            is_retry: It has the clock of the attempt that failed: recovering takes no time.
            stands: Nothing becomes due by it, as that would be lost.
        """
        if stands or not is_retry:
            self.before = self.seconds
        if not (stands or is_retry):
            self.seconds += max(0.0, now - self._mark)  # workers measure with a clock of their own
        self._mark = now

    def steady(self, seconds: float) -> float:
        """The steady time so long after the attempt began."""
        return self._mark + seconds

    def stand_still(self, seconds: float) -> None:
        """So many of the seconds since the attempt began are not the topology's time.

        Less than one does no harm, and ticks would be late by it.
        """
        if seconds >= 1:
            self._mark += seconds
