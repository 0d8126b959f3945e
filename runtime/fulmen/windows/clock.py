"""Event time as windows and joins have it: what is past, and what comes too late for them."""

from __future__ import annotations

import math
from typing import Protocol

from fulmen.api.context import TopologyContext
from fulmen.api.times.event_time import milliseconds


class TakesLate(Protocol):
    """A bolt that takes what is late, for a while."""

    took_late: tuple[int, int | None] | None
    """Durable: how late tuples could be in the latest batch, in milliseconds; and before which time
    all was forgotten when less was allowed, if that was ever so."""


class EventClock:
    """The watermark of what a bolt receives, and how late a tuple may be that it takes.

    What was forgotten with a shorter `allowedLateness` stays so when it becomes longer: a window
    that began anew then would take the place of the whole one.

    Attributes:
        lateness: In milliseconds.
    """

    def __init__(self, bolt: TakesLate, context: TopologyContext, allowed: str) -> None:
        """For `prepare`. `allowed`: the option."""
        self._bolt, self._batch = bolt, context.batch
        self.lateness = milliseconds(allowed)
        before, forgotten = bolt.took_late or (self.lateness, None)
        self._was_shorter = before < self.lateness
        if not self._was_shorter:
            bolt.took_late = self.lateness, forgotten
        self._watermark: int | None = None
        self._least = -math.inf

    def is_past(self, time: int) -> bool:
        """Whether the watermark has reached a time."""
        watermark = self._batch.watermark
        return watermark is not None and time <= watermark

    def least(self) -> float:
        """The first time that is not too late. What ends then, or before, takes nothing more."""
        watermark = self._batch.watermark
        if watermark is not None and watermark != self._watermark:  # once a batch
            self._watermark, self._least = watermark, self._at(watermark)
        return self._least

    def _at(self, watermark: int) -> int:
        before, forgotten = self._bolt.took_late or (self.lateness, None)
        if self._was_shorter:
            known = watermark - before
            forgotten = known if forgotten is None else max(known, forgotten)
            self._bolt.took_late, self._was_shorter = (self.lateness, forgotten), False
        least = watermark - self.lateness
        return least if forgotten is None else max(least, forgotten)
