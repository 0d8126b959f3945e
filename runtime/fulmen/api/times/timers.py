"""Timers of a bolt: it is called again at a time, whatever tuples come."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from datetime import datetime
from typing import Any

from fulmen.api.keys import NAN_CURE, NEVER_NAN, NOT_EQUAL_TO_ITSELF, has_nan
from fulmen.api.times.event_time import TimeReader
from fulmen.errors import EventTimeError, repr_of


class WindowCalls:
    """Is told of each call of an author's code for a window. The engine has another one."""

    def begin(self, key: Hashable, end: int | None) -> bool:  # noqa: ARG002 (for the engine's)
        """A window is to be called. Returns whether it is: not if that ends processes."""
        return True

    def end(self) -> None:
        """The call has ended, well or not."""


class TimerKeeper(ABC):
    """Keeps the timers of one task. The engine has one."""

    @abstractmethod
    def set(self, key: Hashable, at: int | float) -> None:
        """Set a timer: for event time if `at` is an int, for the batch clock if it is a float."""

    @abstractmethod
    def cancel(self, key: Hashable) -> None:
        """Forget a timer, if there is one."""

    @abstractmethod
    def get(self, key: Hashable) -> int | float | None:
        """The time that a timer is set for; None: there is none."""


class Timers:
    """The timers of a task of a bolt: `context.timers`.

    When a timer is due, `on_timer(key, at, collector)` of the bolt is called (`on_timer(key, at)`
    of a `Bolt`), after the tuples of the batch. Timers are part of the batch in which they are set,
    and of the checkpoint. A key has one timer: setting it again moves it.
    """

    def __init__(self) -> None:
        self.keeper: TimerKeeper | None = None
        self.clock: float | None = None
        """The batch clock in seconds; None before the first batch. For the engine."""
        self.window_calls = WindowCalls()
        """Of windows with tuples. For the engine."""
        self.room: float = math.inf
        """How many results timers of event time may still bring in this batch. For the engine, and
        for windows with many keys: when it is used up, they set the timer again, for the same time.
        """
        self.results = 0
        """How many results wait for timers, of such windows. For the engine."""

    def __reduce__(self) -> Any:  # a copy of a context is nobody's
        return Timers, ()

    def set(self, key: Hashable, at: int | datetime) -> None:
        """Have `on_timer` called when event time has come to `at`.

        It is due when the watermark of what the bolt receives is `at` or later. One that is due
        already is called in this batch.

        Args:
            key: Whose timer it is: hashable, and to be pickled.
            at: Milliseconds since 1970, or a datetime with a time zone.

        Raises:
            EventTimeError: `at` is no time, or the bolt can't have timers.
        """
        if isinstance(at, datetime) and at.tzinfo is not None:
            at = TimeReader().read(at)
        if not isinstance(at, int) or isinstance(at, bool):
            raise EventTimeError(
                f"timers.set({_shown(key)}, {_shown(at)}): the time must be a whole number of"
                " milliseconds since 1970, or a datetime with a time zone"
            )
        self._keeper(key).set(key, int(at))

    def set_after(self, key: Hashable, seconds: float) -> None:
        """Have `on_timer` called after so many seconds of the batch clock, whatever event time is.

        The batch clock stands still while the topology recovers, and while it does not run. Not in
        `prepare`, where it is not known.

        Raises:
            EventTimeError: `seconds` is no positive number, or the bolt can't have timers.
        """
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds < float("inf"):
            raise EventTimeError(
                f"timers.set_after({_shown(key)}, {_shown(seconds)}): the seconds must be a"
                " number from 0 on"
            )
        keeper = self._keeper(key)
        if self.clock is None:
            raise EventTimeError(
                "timers.set_after in prepare: the batch clock is not known there. Call it in"
                " execute"
            )
        keeper.set(key, float(self.clock + seconds))

    def cancel(self, key: Hashable) -> None:
        """Forget the key's timer, if it has one."""
        self._keeper(key).cancel(key)

    def get(self, key: Hashable) -> int | float | None:
        """The time of the key's timer: milliseconds since 1970, or seconds of the batch clock.

        An int is an event time, a float is of the clock. None: the key has no timer.
        """
        return self._keeper(key).get(key)

    def _keeper(self, key: Hashable) -> TimerKeeper:
        if self.keeper is None:
            raise EventTimeError(
                "timers are for bolts that have a method on_timer, outside of transactional"
                " topologies. Add on_timer(self, key, at, collector) to the class, or"
                " on_timer(self, key, at) if it is a Bolt"
            )
        try:
            hash(key)
        except TypeError:
            raise EventTimeError(
                f"the key of a timer is {_shown(key)}, which is not hashable. Use text, a number,"
                " or a tuple of them"
            ) from None
        if type(key) not in NEVER_NAN and has_nan(key):
            raise EventTimeError(
                f"the key of a timer is {_shown(key)}, which {NOT_EQUAL_TO_ITSELF}. {NAN_CURE}"
            )
        return self.keeper


def _shown(value: Any) -> str:
    text = repr_of(value)
    return text if len(text) <= 80 else text[:77] + "..."
