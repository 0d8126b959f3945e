"""How long a topology in which nothing happens waits between its batches. Pure."""

from __future__ import annotations

from dataclasses import dataclass

IDLE_SECONDS = ((0, 0.25), (48, 1.0), (110, 2.5))
"""The longest wait between batches, after so many in which nothing happened: after some 10 seconds,
and after a minute more, spouts are asked less often."""
WARM_BATCHES = 150
"""Until so many have run, an idle topology goes on with whole batches, four a second. JVMs compile
what has run often: an idle job on two workers takes 310 ms of CPU while they are cold, later 60."""
HOLD_SECONDS = 0.05
"""The wait between batches in which nothing happens while a bolt holds the spouts."""
IDLE_BATCHES_TO_END = 20
"""So many batches in which nothing happened mean that nothing will."""
SHORT_WAITS = 8
"""So many waits are shorter than others, from when something happened on."""


@dataclass
class Idle:
    """Counts of batches in which nothing happened.

    Attributes:
        batches: In which nothing happened, in a row.
        warmed: Batches since the start, or since the last failure.
        quiet: In which nothing happened after a long wait, since something but ticks happened.
    """

    batches: int = 0
    warmed: int = 0
    quiet: int = 0

    def committed(
        self, is_idle: bool, only_ticked: bool = False, *, had_no_job: bool = False
    ) -> None:
        """A batch counted, in which nothing happened, only ticks came, or something happened."""
        self.batches = self.batches + 1 if is_idle else 0
        self.warmed += not had_no_job
        if self.batches > SHORT_WAITS:
            self.quiet += 1
        elif not (is_idle or only_ticked):
            self.quiet = 0

    def failed(self) -> None:
        """Note a failed batch: a worker may have been lost, and its next JVM is cold."""
        self.warmed = 0

    @property
    def is_warm(self) -> bool:
        """Whether workers have run enough for a batch to be cheap."""
        return self.warmed >= WARM_BATCHES

    @property
    def is_short(self) -> bool:
        """Whether something has happened so lately that the next waits are short.

        Later, batches ask workers in any case: a lost one is noticed before there is work for it.
        """
        return self.batches <= SHORT_WAITS

    @property
    def needs_spouts_only(self) -> bool:
        """Whether the next batch need not have more than the spouts' stage."""
        return self.batches > 0 and self.is_warm

    @property
    def is_over(self) -> bool:
        """Whether nothing but ticks has come for so long that nothing will."""
        return self.quiet >= IDLE_BATCHES_TO_END - SHORT_WAITS

    def seconds(self) -> float:
        """Seconds to wait before the next batch."""
        batches = self.batches if self.is_warm else 0
        longest = max(seconds for n, seconds in IDLE_SECONDS if n <= batches)
        return min(longest, 0.001 * 2.0 ** min(self.batches, 16))
