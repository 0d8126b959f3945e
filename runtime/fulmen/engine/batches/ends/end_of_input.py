"""Whether nothing has come for so long that nothing will, if no source says its end. Pure."""

from __future__ import annotations

from collections.abc import Collection

from fulmen.engine.batches.done import Done, away_in
from fulmen.engine.batches.pace.idle import IDLE_BATCHES_TO_END, Idle

AWAY_SECONDS = 60.0
"""For so long after a source was away, that nothing comes does not mean that nothing will: it may
be asked again only after a pause."""


class EndOfInput:
    """Watches the last batches for the end of the input."""

    def __init__(self, clock: float) -> None:
        """Begin at this time of the batch clock."""
        self._empty_batches = 0  # in a row: nothing happened, and nothing was waited for
        self._calm_batches = IDLE_BATCHES_TO_END  # in a row: the `next_tuple` of no spout raised
        self._away_until = clock  # a source that was away may have more, until then
        self._emitted_at = clock

    def committed(self, done: Done, spouts: Collection[int], *, is_empty: bool) -> None:
        """A batch counted.

        Args:
            done: The batch.
            spouts: The tasks of spouts.
            is_empty: Whether nothing happened in it, and nothing was waited for.
        """
        summaries, clock = done.summaries, done.header.clock
        self._empty_batches = self._empty_batches + 1 if is_empty else 0
        has_raised = any(summary.has_raised for summary in summaries)
        self._calm_batches = 0 if has_raised else self._calm_batches + 1
        if away_in(summaries, spouts):
            self._away_until = clock + AWAY_SECONDS
        if any(summary.emitted for summary in summaries):
            self._emitted_at = clock

    def seconds_without_input(self, clock: float) -> float:
        """Seconds since a spout emitted last."""
        return clock - self._emitted_at

    def is_likely(self, idle: Idle, clock: float) -> bool:
        """Whether nothing more is taken to come from spouts."""
        is_calm = self._calm_batches >= IDLE_BATCHES_TO_END
        return idle.is_over and clock >= self._away_until and is_calm

    @property
    def is_likely_of_transactions(self) -> bool:
        """`is_likely` of a source of transactions: pauses after failures are not the end."""
        return self._empty_batches >= IDLE_BATCHES_TO_END
