"""When the next batch begins: how long a topology rests after the last one. Pure.

After a batch in which something happened the next one comes at once, unless a rest costs less than
it saves: after a light batch, and with `batchIntervalMillis`. An idle topology rests longer and
longer. No rest goes beyond what is due: a tick, a timer, a failed message that comes again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fulmen.engine.batches.done import Done
from fulmen.engine.batches.pace.idle import HOLD_SECONDS, Idle
from fulmen.engine.batches.pace.next_timers import NextTimers
from fulmen.engine.batches.pace.stage_skipping import StageSkipping
from fulmen.engine.batches.watermarks import watermarks_of
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.plan import Plan

LEAST_WAIT = 0.001
"""Seconds. A message that has failed and is due may have to wait for others that are."""


class Rests:
    """Decides how long to rest before the next batch."""

    def __init__(self, idle: Idle, skipping: StageSkipping) -> None:
        self._idle, self._skipping = idle, skipping
        self._next_timers = NextTimers()
        self._is_window_due = False  # in the next batch, and that is rare
        self._hurries = False
        self._gathers = 0.0  # seconds until there may be enough for a batch

    def committed(
        self, done: Done, placed: PlacedTopology, *, wants_batch: bool, may_gather: bool
    ) -> None:
        """A batch counted.

        A batch in which a window ends does not wait, nor that in which its rows are written.
        Windows that end all the time are no reason to do without any rest.

        Args:
            done: The batch.
            placed: The topology.
            wants_batch: Whether tasks have something to do in the next batch.
            may_gather: Whether spouts may emit, and nothing waits to be done.
        """
        self._next_timers.committed(placed.run, done.summaries)
        was_due = self._is_window_due
        watermarks = watermarks_of(done.after.watermarks, placed)
        self._is_window_due = self._next_timers.is_rarely_due(watermarks, placed.plan)
        self._hurries = self._is_window_due or (was_due and wants_batch)
        may_gather &= not any(summary.has_more for summary in done.summaries)
        interval = placed.topology.spec.batch_interval_millis / 1000
        self._gathers = max(0.0, interval - done.seconds) if may_gather else 0.0

    @property
    def awaits_event_time(self) -> bool:
        """Whether a bolt has a timer of event time."""
        return any(timers.event is not None for _, timers in self._next_timers.by_task())

    def many_due(self, placed: PlacedTopology, summaries: Sequence[Summary]) -> Mapping[str, int]:
        """When timers are due that may bring too much for one batch: see `NextTimers`."""
        return self._next_timers.many_after(placed.run, summaries, placed.plan)

    def many_at_end(self, plan: Plan) -> Collection[str]:
        """Bolts that have more timers of event time, or results of them, than fit into a batch."""
        return self._next_timers.many(plan)

    def is_timer_due(self, header: Header, plan: Plan) -> bool:
        """Whether a bolt's timer is due in a batch."""
        return self._next_timers.is_due(header, plan)

    def seconds(
        self,
        clock: float,
        *,
        is_held: bool,
        ticks: Iterable[float],
        resting: Iterable[float],
        by_clock: Mapping[int, int],
    ) -> float:
        """Seconds to wait before the next batch: next to none if something happened.

        Tasks that want a batch get it soon, as the first waits are short. They may want one after
        each batch, and are not to keep the processors busy.

        Args:
            clock: The batch clock, in seconds.
            is_held: Whether bolts hold the spouts, and nothing happened.
            ticks: The seconds between two ticks, of each bolt that has them.
            resting: When what has failed comes again, by the batch clock.
            by_clock: Task of a bolt that goes by the time of day -> that of the last batch.
        """
        idle, light_rest = self._idle, self._skipping.rest_seconds
        if is_held:
            longest = HOLD_SECONDS
        elif self._hurries:
            return 0.0
        elif idle.batches or self._gathers:
            longest = max(idle.seconds() if idle.batches else light_rest, self._gathers)
        else:
            return light_rest
        waits = [longest, *(period - clock % period for period in ticks)]
        waits += [max(LEAST_WAIT, due - clock) for due in resting]
        waits += self._next_timers.seconds_until(clock, by_clock)
        return min(waits)
