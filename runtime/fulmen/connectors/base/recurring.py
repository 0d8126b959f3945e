"""Things to do every so many seconds."""

from __future__ import annotations

from collections.abc import Callable


class Recurring:
    """Says when something is due: at once at first, and then after so many seconds each time."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock, self.seconds = clock, seconds
        self._at: float | None = None

    def is_now(self) -> bool:
        """Whether it is due."""
        return self._at is None or self._clock() >= self._at

    def take(self) -> bool:
        """Whether it is due. If so, it is done now, also if that raises."""
        is_now = self.is_now()
        if is_now:
            self.later()
        return is_now

    def later(self) -> None:
        """Note that it was done just now, or can't be for so long."""
        self._at = self._clock() + self.seconds

    def soon(self) -> None:
        """Make it due at once."""
        self._at = None
