"""Which timers of bolts are next: a batch in which one is due must not leave its bolt out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary
from fulmen.plan import Plan

RARE = 8
"""A due timer of a task is rare if none was due in so many batches before."""


class NextTimers:
    """When the next timers of each task are due."""

    def __init__(self) -> None:
        self._run = ""
        self._parts: dict[tuple[int, int], Mapping[int, PendingTimers]] = {}  # by stage and worker
        self._batches = 0
        self._last_due: dict[int, int] = {}  # task -> the batch

    def committed(self, run: str, summaries: Sequence[Summary]) -> None:
        """A batch counted. Stages that it left out are as they were.

        Args:
            run: Of the placement. In a new one all tasks are made anew, and say it again.
            summaries: What its stages said.
        """
        if run != self._run:
            self._run, self._parts, self._last_due = run, {}, {}
        self._parts |= {(s.stage, s.partition): s.timers for s in summaries}

    def many_after(self, run: str, summaries: Sequence[Summary], plan: Plan) -> Mapping[str, int]:
        """When timers of event time are due next that may bring too much for one batch.

        Args:
            run: As of `committed`.
            summaries: Of a batch that does not count yet.
            plan: Which tasks components have.

        Returns:
            By component.
        """
        after = NextTimers()
        after._run, after._parts = self._run, dict(self._parts)
        after.committed(run, summaries)
        return after.many(plan)

    def many(self, plan: Plan) -> Mapping[str, int]:
        """The same after the last batch."""
        many = {plan.component_of(task) for task, timers in self.by_task() if timers.are_many}
        due: dict[str, int] = {}
        for task, (at, *_) in self.by_task() if many else ():
            if at is not None and (name := plan.component_of(task)) in many:
                due[name] = min(at, due.get(name, at))
        return due

    def copy(self) -> NextTimers:
        """Copy it, to be read while this one changes."""
        same = NextTimers()
        same._parts = dict(self._parts)
        return same

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

    def is_rarely_due(self, watermarks: Mapping[str, tuple[int, int | None]], plan: Plan) -> bool:
        """Whether event time has come to a timer of a task that has rarely one due.

        This is asked once for each batch.
        """
        self._batches += 1
        is_due = False
        for task, (at, *_) in self.by_task():
            watermark = watermarks.get(plan.component_of(task), (None, None))[0]
            if at is not None and watermark is not None and at <= watermark:
                is_due |= self._batches - self._last_due.get(task, -RARE) > RARE
                self._last_due[task] = self._batches
        return is_due

    def seconds_until(self, clock: float, by_clock: Mapping[int, int]) -> Iterator[float]:
        """Yield the seconds until the next timers of the batch clock, and of the time of day.

        Args:
            clock: The batch clock.
            by_clock: Task that goes by the time of day -> this, in milliseconds.
        """
        for task, timers in self.by_task():
            if timers.clock is not None:
                yield max(0.0, timers.clock - clock)
            if timers.event is not None and task in by_clock:
                yield max(0.0, (timers.event - by_clock[task]) / 1000)
