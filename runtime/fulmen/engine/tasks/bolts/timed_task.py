"""What a bolt's task has to do with timers: they are restored, written down, and called."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from fulmen.api.components import overrides
from fulmen.api.tuples import TICK_COMPONENT, TIMER_STREAM
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary
from fulmen.engine.state.journals import TIMERS
from fulmen.engine.state.keyed_state import KeyedState
from fulmen.engine.tasks.task_base import TaskBase
from fulmen.engine.time.timers import TaskTimers
from fulmen.engine.tuples.chunk import Chunk


class TimedTask(TaskBase):
    """A task that may have timers.

    Attributes:
        timers: None: a task of a transactional topology has none.
    """

    timers: TaskTimers | None = None

    @override
    def begin(self, journals: Journals) -> None:
        self.timers = TaskTimers(KeyedState.restore(journals, name=TIMERS))
        super().begin(journals)

    @override
    def open(self, call: Callable[[], object]) -> None:
        self._keep_timers()
        super().open(call)
        self._keep_timers()  # `prepare` may have set `on_timer`

    def _keep_timers(self) -> None:
        if self.timers is not None and overrides(self.instance, "on_timer"):
            self.context.timers.keeper = self.timers

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
            summary.timers[self.task] = PendingTimers(*self.timers.next, len(self.timers))

    def has_due_timers(self, header: Header) -> bool:
        """Whether a timer is due in this batch."""
        timers = self.timers
        return timers is not None and timers.is_due(self._watermark(header), header.clock)

    def due_timers(self, header: Header) -> Chunk | None:
        """What stands for the timers that are due; None: none is, or the class has no `on_timer`.

        Timers of a class that has lost its `on_timer` stay until it is back.
        """
        if not self.timers or self.context.timers.keeper is None:
            return None
        rows = self.timers.take_due(self._watermark(header), header.clock)
        if not rows:
            return None
        if self.component in header.watermarks:
            self.context.batch.watermark = header.watermarks[self.component][0]
        return Chunk(TICK_COMPONENT, TIMER_STREAM, ("key", "at"), -1, None, rows)

    def _watermark(self, header: Header) -> float | None:
        if header.ends_time:
            return float("inf")
        return header.watermarks.get(self.component, (None, None))[0]
