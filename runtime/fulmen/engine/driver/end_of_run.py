"""When a run has come to its end: what `Stop` asks for, and for how long it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fulmen.engine.batches.coordinator import Coordinator
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.failures.recovery import Recovery
from fulmen.engine.driver.stop import AssumedEnd, Stop
from fulmen.engine.totals.derived_waits import waits_of_drain
from fulmen.engine.totals.progress import Progress
from fulmen.engine.totals.totals import Totals
from fulmen.errors import TopologyFailed


@dataclass
class EndOfRun:
    """The end of one run, which begins when this is made.

    Attributes:
        assumed: What it was drained for; None: spouts have said their end, or it was told to.
    """

    _stop: Stop
    _recovery: Recovery
    _committer: CommitWriter
    _totals: Totals
    _clocks: Clocks
    assumed: AssumedEnd | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._started = self._clocks.steady()
        self._progress = Progress(self._clocks.steady)

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return self._clocks.steady() - self._started

    def is_reached(self, coordinator: Coordinator, *, changes: bool) -> bool:
        """Have the topology drained if it is time for it. Returns whether there is no next batch.

        Args:
            coordinator: Decides about batches.
            changes: Whether it is about to become another topology, and ends as that.

        Raises:
            TopologyFailed: It can't be drained.
        """
        stop, was_active = self._stop, coordinator.active
        if stop.after_seconds is not None and self.seconds >= stop.after_seconds:
            stop.drain = True
        if stop.when_drained and not changes and self._has_nothing_more(coordinator):
            spouts = coordinator.spouts_without_end
            seconds = coordinator.seconds_without_input
            self.assumed = AssumedEnd(spouts, seconds) if spouts else None
            # they may hold tuples, whose trees have to end first
            coordinator.drain_bolts(is_at_end=True)
            # a source of transactions may go on to open empty ones: those that are open end first
            stop.drain |= coordinator.settled or coordinator.transactions is not None
        elif not stop.drain:
            self.assumed = None
        if not stop.drain:
            return False
        coordinator.active = False
        coordinator.turns.is_told = stop.interrupted
        if self._recovery.away is not None:  # it would wait for as long as that is so
            raise self._recovery.fatal(self._recovery.away)
        self._recovery.refuse_hopeless(coordinator)
        if was_active:  # first spouts are told
            return False
        coordinator.drain_bolts()
        is_over = coordinator.settled and coordinator.turns.drained
        return is_over and not coordinator.look_ahead()

    def _has_nothing_more(self, coordinator: Coordinator) -> bool:
        """Whether all spouts have come to their end, or nothing has come for so long.

        Raises:
            TopologyFailed: Spout tasks that are left out would never come to it.
        """
        if not coordinator.has_nothing_more:
            return False
        self._recovery.calls.refuse(coordinator)
        if coordinator.blame.left_out:  # they may have more
            return False
        return coordinator.exhausted or (
            coordinator.seconds_without_input >= self._stop.more_seconds
        )

    def give_up(self, coordinator: Coordinator) -> None:
        """End if a topology that is to be drained does not get on for too long.

        Raises:
            TopologyFailed: That is so.
        """
        stop = self._stop
        if not (stop.drain or stop.when_drained):
            return
        most = math.inf if stop.give_up_seconds is None else stop.give_up_seconds
        if self._is_held_up(coordinator):
            most = min(most, stop.patience)
        if (seconds := self._progress.look(self._totals)) >= most:
            resting, for_spouts = self._progress.resting, not stop.drain
            waits = waits_of_drain(self._totals, resting, for_spouts=for_spouts)
            listed = "".join(f"\n- {text}" for text in waits)
            if self._committer.outage is not None:
                listed += f"\n- {self._committer.outage.sentence}"
            raise TopologyFailed(
                f"it is not drained, and nothing was acked or newly emitted for {seconds:,.0f} s."
                f" What is committed stays.{listed}"
            )

    def _is_held_up(self, coordinator: Coordinator) -> bool:
        """Whether it waits for what may never come: no tree does that longer than it may take."""
        has_open = coordinator.transactions is not None and not coordinator.transactions.is_settled
        return has_open or bool(coordinator.last.holds) or self._committer.outage is not None
