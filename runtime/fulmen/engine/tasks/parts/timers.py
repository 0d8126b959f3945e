"""The timers of a bolt's task.

Those of `state_ttl` are the engine's own: one for each key of `self.state`, set anew with each
commit that has written the key.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api.components import overrides
from fulmen.api.times.event_time import milliseconds
from fulmen.api.times.timers import Timers
from fulmen.api.tuples import TICK_COMPONENT, TIMER_STREAM
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.keyed.homes import TTL, is_of_ttl
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary
from fulmen.engine.state.entries.disk_journals import TaskState
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart
from fulmen.engine.time.timers import TaskTimers
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows

PAGE, PAGE_ON_DISK = 100_000, 25_000
"""So many results of event time are brought in a batch at most, if there may be more. What they are
made of takes longer to read, and to forget, on disk."""


def _seconds(ttl: Any) -> float:
    """A time to live in seconds.

    Raises:
        ValueError: It is none.
    """
    seconds = milliseconds(ttl) / 1000 if isinstance(ttl, str) else 0.0
    if seconds <= 0:
        raise ValueError(f"state_ttl is {ttl!r}, but must be a duration above 0, such as '7d'")
    return seconds


class AuthorTimers(TaskPart):
    """The timers of a task.

    Attributes:
        waiting: Those that are not due yet.
    """

    def __init__(self, task: Task, journals: Journals) -> None:
        """Restore the timers; call `settle` when the author's instance is opened."""
        self.waiting = task.guarded("restoring its timers", lambda: TaskTimers.restored(journals))
        self._task = task
        self._page = PAGE_ON_DISK if self.waiting.is_on_disk else PAGE
        self._now: float | None = None  # until when all that is due is to come before spouts emit
        self._ttl: float | None = None  # how long a key of `self.state` is kept; None: for good
        self._without_timer: Iterator[Collection[Any]] = iter(())

    def settle(self) -> None:
        """Look whether the author makes use of timers."""
        task = self._task
        self.look()
        found = getattr(task.instance, "state_ttl", None)
        if found is not None:
            self._ttl = task.guarded("reading state_ttl", lambda: _seconds(found))
            self._without_timer = self._looked_through(task.author.state)

    def _looked_through(self, state: TaskState) -> Iterator[Collection[Any]]:
        """The keys that have no timer: of a state on disk, those of a few keys for each commit.

        It had no time to live until now, or somebody has set them by hand.
        """
        for keys in state.key_pages():
            self.waiting.fetch([(TTL, key) for key in keys])
            yield [key for key in keys if self.waiting.get((TTL, key)) is None]

    def look(self) -> None:
        """Let the author set timers, if the class has `on_timer` by now: `prepare` may set it."""
        if overrides(self._task.instance, "on_timer"):
            self._task.context.timers.keeper = self.waiting

    def begin_batch(self, header: Header) -> None:
        """A batch begins."""
        component = self._task.component
        is_paged = component in header.paged and not header.looks_ahead
        self._timers.room = self._page if is_paged else math.inf
        self._now = None if component in header.ends_time else self._watermark(header)

    @property
    def _timers(self) -> Timers:
        return self._task.context.timers

    @property
    def _is_behind(self) -> bool:
        """Whether not all that is due fits into the batch."""
        at = self.waiting.next[0] if self._timers.room <= 0 else None
        return at is not None and self._now is not None and at <= self._now

    @property
    @override
    def wants_batch(self) -> bool:
        return self._is_behind

    @override
    def confirm(self, tag: str) -> None:
        self._task.guarded("writing its timers to disk", lambda: self.waiting.begin_batch(tag))

    @override
    def record(self, number: int) -> Mapping[str, Update]:
        """Set the timers of assigned keys. It comes before the state, which forgets these."""
        if self._ttl is None:
            return {}
        state, due = self._task.author.state, (self._task.context.timers.clock or 0.0) + self._ttl
        keys = {*next(self._without_timer, ()), *state.noted}
        self.waiting.fetch([(TTL, key) for key in keys])
        for key in keys:
            if key in state:
                self.waiting.set((TTL, key), float(due))
            else:
                self.waiting.cancel((TTL, key))
        self._task.calls = 0  # so that each write goes on being noted
        return {}

    @override
    def updates(self, number: int) -> Mapping[str, Update]:
        return self._task.guarded("pickling its timers", lambda: self.waiting.updates(number))

    @override
    def tell(self, summary: Summary) -> None:
        if not self.waiting:
            return
        number, task = len(self.waiting), self._task.task
        are_many = (
            self._timers.keeper is not None and max(number, self._timers.results) > self._page
        )
        summary.timers[task] = PendingTimers(*self.waiting.next, number, are_many)
        if self._is_behind:
            summary.holds[task] = "more is due by event time than fits into a batch"

    def _forget_expired(self, rows: Sequence[list[Any]]) -> list[list[Any]]:
        """Forget keys of the state whose time has come. Gives the timers that are others."""
        state, others = self._task.author.state, []
        state.fetch([key[1] for key, _ in rows if is_of_ttl(key)])
        for key, at in rows:
            if not is_of_ttl(key):
                others.append([key, at])
            elif key[1] not in state.noted:  # else it was written just now
                state.pop(key[1], None)
                self._task.was_called = True
        return others

    def are_due(self, header: Header) -> bool:
        """Whether a timer is due in this batch."""
        watermark = self._watermark(header) if self._timers.room > 0 else None
        return self.waiting.is_due(watermark, header.clock)

    def due(self, header: Header) -> Chunk | None:
        """The chunk of the timers that are due; None: none is, or the class has no `on_timer`.

        AuthorTimers of a class that has lost its `on_timer` stay until it is back.
        """
        context, component = self._task.context, self._task.component
        has_none = context.timers.keeper is None
        if not self.waiting or (has_none and self._ttl is None):
            return None
        room = self._timers.room
        watermark = self._watermark(header) if room > 0 else None
        most = None if room == math.inf else int(room)
        rows = self.waiting.take_due(watermark, header.clock, most)
        if not has_none:
            self._timers.room -= sum(type(at) is int for _, at in rows)
        if self._ttl is not None:
            rows = self._forget_expired(rows)
        if has_none:
            for key, at in rows:
                self.waiting.set(key, at)
            return None
        if not rows:
            return None
        if component in header.watermarks:
            context.batch.watermark = header.watermarks[component][0]
        return Chunk(TICK_COMPONENT, TIMER_STREAM, ("key", "at"), -1, None, TupleRows(rows))

    def _watermark(self, header: Header) -> float | None:
        component = self._task.component
        if component in header.ends_time or header.looks_ahead:
            return float("inf")
        return header.watermarks.get(component, (None, None))[0]
