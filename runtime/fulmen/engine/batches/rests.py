"""When the next batch begins: how long a topology rests after the last one. Pure.

After a batch in which something happened the next one comes at once, unless a rest costs less than
it saves: after a light batch, and with `batchIntervalMillis`. An idle topology rests longer and
longer. No rest goes beyond what is due: a tick, a timer, a failed message that comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fulmen.engine.batches.idle import HOLD_SECONDS, Idle
from fulmen.engine.batches.timers import NextTimers
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import Summary
from fulmen.plan import Plan

LEAST_WAIT = 0.001
"""Seconds. A message that has failed and is due may have to wait for others that are."""


class Rests:
    """What is to be known of the last batches."""

    def __init__(self) -> None:
        self._next_timers = NextTimers()
        self._is_window_due = False  # in the next batch, and that is rare
        self._hurries = False
        self._gathers = 0.0  # seconds until there may be enough for a batch

    def committed(
        self,
        run: str,
        summaries: Sequence[Summary],
        watermarks: Mapping[str, tuple[int, int | None]],
        plan: Plan,
        *,
        wants_batch: bool,
        gathers: float,
    ) -> None:
        """A batch counted.

        A batch in which a window ends does not wait, nor that in which its rows are written.
        Windows that end all the time are no reason to do without any rest.

        Args:
            run: Of the placement.
            summaries: What its stages said.
            watermarks: Of each bolt, the first of the two, as in the next header.
            plan: Where the tasks are.
            wants_batch: Whether tasks have something to do in the next batch.
            gathers: See `gather_seconds`.
        """
        self._next_timers.committed(run, summaries)
        was_due = self._is_window_due
        self._is_window_due = self._next_timers.is_rarely_due(watermarks, plan)
        self._hurries = self._is_window_due or (was_due and wants_batch)
        self._gathers = gathers

    @property
    def awaits_event_time(self) -> bool:
        """Whether a bolt has a timer of event time."""
        return any(timers.event is not None for _, timers in self._next_timers.by_task())

    def is_timer_due(self, header: Header, plan: Plan) -> bool:
        """Whether a bolt's timer is due in a batch."""
        return self._next_timers.is_due(header, plan)

    def seconds(
        self,
        idle: Idle,
        light_rest: float,
        clock: float,
        *,
        is_held: bool,
        ticks: Iterable[float],
        resting: Iterable[float],
    ) -> float:
        """How long to wait before the next batch: next to no time if something happened.

        Tasks that want a batch get it soon, as the first waits are short. They may want one after
        each batch, and are not to keep the processors busy.

        Args:
            idle: What is known of batches in which nothing happened.
            light_rest: How long to wait after a light batch.
            clock: The batch clock, in seconds.
            is_held: Whether bolts hold the spouts, and nothing happened.
            ticks: The seconds between two ticks, of each bolt that has them.
            resting: When what has failed comes again, by the batch clock.
        """
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
        waits += self._next_timers.seconds_until(clock)
        return min(waits)


def gather_seconds(
    interval_millis: float, seconds: float, *, is_active: bool, is_pressed: bool
) -> float:
    """How long to wait for more messages after a batch, if nothing waits for the next one.

    Args:
        interval_millis: The least time from the begin of a batch to that of the next one.
        seconds: How long the batch took.
        is_active: Whether spouts may emit.
        is_pressed: Whether something waits: spouts have more, or transactions are open.
    """
    if is_pressed or not is_active:
        return 0.0
    return max(0.0, interval_millis / 1000 - seconds)
