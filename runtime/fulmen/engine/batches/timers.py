"""Which timers of bolts are next: a batch in which one is due must not leave its bolt out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary
from fulmen.plan import Plan


class NextTimers:
    """When the next timers of each task are due."""

    def __init__(self) -> None:
        self._run = ""
        self._parts: dict[tuple[int, int], Mapping[int, PendingTimers]] = {}  # by stage and worker

    def committed(self, run: str, summaries: Sequence[Summary]) -> None:
        """A batch counted. Stages that it left out are as they were.

        Args:
            run: Of the placement. In a new one all tasks are made anew, and say it again.
            summaries: What its stages said.
        """
        if run != self._run:
            self._run, self._parts = run, {}
        self._parts |= {(s.stage, s.partition): s.timers for s in summaries}

    def by_task(self) -> Iterator[tuple[int, PendingTimers]]:
        """The tasks that have timers, and these."""
        for timers in self._parts.values():
            yield from timers.items()

    def is_due(self, header: Header, plan: Plan) -> bool:
        """Whether one is due in a batch."""
        for task, (at, by_clock, *_) in self.by_task():
            watermark = header.watermarks.get(plan.component_of(task), (None, None))[0]
            if at is not None and watermark is not None and at <= watermark:
                return True
            if by_clock is not None and by_clock <= header.clock:
                return True
        return False

    def seconds_until(self, clock: float) -> Iterator[float]:
        """How long it is to the next timers of the batch clock."""
        for _, timers in self.by_task():
            if timers.clock is not None:
                yield max(0.0, timers.clock - clock)
