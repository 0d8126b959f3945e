"""What a bolt's task has to do with timers: they are restored, written down, and called.

Those of `state_ttl` are the engine's own: one for each key of `self.state`, set anew with each
commit that has written the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typing_extensions import override

from fulmen.api.components import overrides
from fulmen.api.event_time import milliseconds
from fulmen.api.tuples import TICK_COMPONENT, TIMER_STREAM
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import TIMERS
from fulmen.engine.tasks.task_base import TaskBase
from fulmen.engine.time.timers import TaskTimers
from fulmen.engine.tuples.chunk import Chunk

TTL = "__state_ttl"
"""Begins the keys of the timers of `state_ttl`."""


def _seconds(ttl: Any) -> float:
    """A time to live in seconds.

    Raises:
        ValueError: It is none.
    """
    seconds = milliseconds(ttl) / 1000 if isinstance(ttl, str) else 0.0
    if seconds <= 0:
        raise ValueError(f"state_ttl is {ttl!r}, but must be a duration above 0, such as '7d'")
    return seconds


class TimedTask(TaskBase):
    """A task that may have timers.

    Attributes:
        timers: None: a task of a transactional topology has none.
        ttl: How many seconds a key of `self.state` is kept; None: for good.
    """

    timers: TaskTimers | None = None
    ttl: float | None = None

    @override
    def begin(self, journals: Journals) -> None:
        self.timers = timers = TaskTimers(KeyedState.restore(journals, name=TIMERS))
        super().begin(journals)
        found = getattr(self.instance, "state_ttl", None)
        if found is not None:
            self.ttl = self.guarded("reading state_ttl", lambda: _seconds(found))
            keys = self.author.state
            self._without_timer = {key for key in keys if timers.get((TTL, key)) is None}

    @override
    def open(self, call: Callable[[], object]) -> None:
        self._keep_timers()
        super().open(call)
        self._keep_timers()  # `prepare` may have set `on_timer`

    def _keep_timers(self) -> None:
        if self.timers is not None and overrides(self.instance, "on_timer"):
            self.context.timers.keeper = self.timers

    @override
    def record(self, number: int) -> Mapping[str, Update]:
        if self.ttl is not None and self.timers is not None:
            self._keep_for(self.ttl, self.timers)
            self.calls = 0  # so that each write goes on being noted
        return super().record(number)

    def _keep_for(self, seconds: float, timers: TaskTimers) -> None:
        """Set the timers of what was written."""
        state, due = self.author.state, (self.context.timers.clock or 0.0) + seconds
        for key in self._without_timer.union(state.noted):
            if key in state:
                timers.set((TTL, key), float(due))
            else:
                timers.cancel((TTL, key))
        self._without_timer = set()

    def _forget_expired(self, rows: Iterable[list[Any]]) -> list[list[Any]]:
        """Forget keys of the state whose time has come. Gives the timers that are others."""
        state, others = self.author.state, []
        for key, at in rows:
            if not (isinstance(key, tuple) and len(key) == 2 and key[0] == TTL):
                others.append([key, at])
            elif key[1] not in state.noted:  # else it was written just now
                state.pop(key[1], None)
                self.was_called = True
        return others

    @override
    def updates(self, number: int) -> dict[str, Update]:
        found = super().updates(number)
        timers = self.timers
        if timers is not None:
            found |= self.guarded("pickling its timers", lambda: timers.updates(number))
        return found

    @override
    def tell(self, summary: Summary) -> None:
        super().tell(summary)
        if self.timers:
            windows = self.context.timers.windows
            pending = PendingTimers(*self.timers.next, len(self.timers), windows)
            summary.timers[self.task] = pending

    def has_due_timers(self, header: Header) -> bool:
        """Whether a timer is due in this batch."""
        timers = self.timers
        return timers is not None and timers.is_due(self._watermark(header), header.clock)

    def due_timers(self, header: Header) -> Chunk | None:
        """What stands for the timers that are due; None: none is, or the class has no `on_timer`.

        Timers of a class that has lost its `on_timer` stay until it is back.
        """
        has_none = self.context.timers.keeper is None
        if not self.timers or (has_none and self.ttl is None):
            return None
        rows = self.timers.take_due(self._watermark(header), header.clock)
        if self.ttl is not None:
            rows = self._forget_expired(rows)
        if has_none:
            for key, at in rows:
                self.timers.set(key, at)
            return None
        if not rows:
            return None
        if self.component in header.watermarks:
            self.context.batch.watermark = header.watermarks[self.component][0]
        return Chunk(TICK_COMPONENT, TIMER_STREAM, ("key", "at"), -1, None, rows)

    def _watermark(self, header: Header) -> float | None:
        if header.ends_time or header.looks_ahead:
            return float("inf")
        return header.watermarks.get(self.component, (None, None))[0]
