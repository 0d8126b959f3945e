"""Calls of `next_tuple` that emit nothing: whether a spout's turn goes on after one of them."""

from __future__ import annotations

from fulmen.engine.tasks.spouts.turn_time import TurnTime

MOST_CALLS = 1_000
"""In a row. A source that has nothing costs some tenths of a millisecond a batch by them."""
MOST_SECONDS = 0.005
"""In a row."""


class EmptyCalls:
    """The calls in a row that emitted nothing.

    In Storm a spout that emits nothing is asked again a millisecond later. Here the next batch asks
    it again, which may be a quarter of a second later: one that passes over most of what it reads
    (a filter, the tail of a busy log) would hardly get on.

    Attributes:
        did_something: Whether any call of the turn said so.
    """

    def __init__(self) -> None:
        """Before the first turn."""
        self._waits = False  # whether the spout waits for its source by itself
        self.did_something = False

    def begin(self, turn: TurnTime) -> None:
        """Begin a turn of that time."""
        self._turn = turn
        self._emitted = -1
        self._calls = 0
        self._since = 0.0
        self.did_something = False

    def go_on(self, returned: object, emitted: int, begun: float) -> bool:
        """Whether `next_tuple` is called again, after a call that emitted nothing.

        Args:
            returned: What it returned: True, it did something; False, there is nothing now; None,
                it does not say.
            emitted: How many tuples the turn has emitted.
            begun: A time before the call, by the clock.
        """
        if returned is False:
            return False
        now = self._turn.clock()
        if returned is True:
            self.did_something = True
            self._emitted = -1  # the next one is the first of a row
            return not self._turn.is_over(now)
        if emitted != self._emitted:
            self._emitted, self._calls, self._since = emitted, 0, now
            self._waits &= now - begun >= MOST_SECONDS
            if self._waits:
                return False
        self._calls += 1
        if now - self._since >= MOST_SECONDS:
            self._since = min(now, self._since + self._turn.lost())
        if now - self._since < MOST_SECONDS:
            return self._calls < MOST_CALLS
        self._waits = self._calls == 2  # the second call took all that time
        return False
