"""How long a spout's turn lasts: time for which there is no processor is nobody's."""

from __future__ import annotations

from collections.abc import Callable


class TurnTime:
    """The time of a thread's spouts, one after another.

    How long the thread had no processor is asked only when the time seems to be over: that takes as
    long as many calls of a spout.

    Attributes:
        deadline: When the turn at hand is over, by the clock.
    """

    def __init__(self, clock: Callable[[], float], run_delay: Callable[[], float]) -> None:
        """The first turn can begin.

        Args:
            clock: Gives seconds, as of time.monotonic().
            run_delay: For how many seconds this thread was ready to run and had no processor.
        """
        self.clock, self._run_delay = clock, run_delay
        self._known = run_delay()
        self._began = self.deadline = clock()

    def begin(self, seconds: float, before: float = 0.0) -> None:
        """Begin a turn of so many seconds. It has what is left of those `before`, too."""
        self.deadline = max(self._began + before, self.clock()) + seconds

    def lost(self) -> float:
        """Seconds without a processor since this was asked last: the turn is longer by them."""
        before, self._known = self._known, self._run_delay()
        lost = self._known - before
        self._began += lost
        self.deadline += lost
        return lost

    def is_over(self, now: float) -> bool:
        """Whether the turn is over. `now` is by the clock."""
        if now < self.deadline:
            return False
        self.lost()
        return now >= self.deadline
