"""The windows of tuples, as in Storm. Pure.

A queue holds the tuples of one key that a window may still have, by event time, or in order of
arrival. A window is a part of it: tuples before it have expired. The rules are those of Storm's
`WindowManager` with its triggers and evictions:

- A window of duration L that ends at E holds `E - L < t <= E`; one of count L the last L up to E.
- A window is called when the watermark is past E. Storm calls it at E already: then it depends on
  how tuples are cut into batches whether the window has a tuple of that time.
- Slides by duration end at multiples of it; slides by count after each so many tuples.
- Windows without a tuple are passed over, and nothing tells what has expired in them.

One rule is not Storm's: in a gap of fifty years, a window of the last so many tuples would be the
same in each slide of a duration. Not all of these are called: see `MOST_REPEATED`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

NEVER = float("inf")
MOST_REPEATED = 1000
"""After so many equal windows by count in a row, windows until the next tuple are passed over."""


class Extent(NamedTuple):
    """A number of tuples, or a duration in milliseconds."""

    amount: int
    is_duration: bool = False


class WindowRule(NamedTuple):
    """The rule of a bolt's windows.

    Attributes:
        length: The length of a window.
        slide: The interval between windows.
        has_times: Whether they are by event time; else by arrival.
    """

    length: Extent
    slide: Extent
    has_times: bool


class QueuedTuple(NamedTuple):
    """A tuple in a queue.

    Attributes:
        time: Its event time in milliseconds, or when it came by the batch clock.
        number: The number in the order of arrival.
        item: The tuple.
    """

    time: float
    number: int
    item: Any


@dataclass(frozen=True)
class Firing:
    """A window. Without tuples it is not called, and only tells what is to be forgotten.

    Attributes:
        tuples: The tuples in it.
        new: Tuples that were not in the window before.
        expired: Tuples that have left the queue since the window before.
        end: The end; None: it is by arrival.
    """

    tuples: list[QueuedTuple]
    new: list[QueuedTuple]
    expired: list[QueuedTuple]
    end: int | None


@dataclass(frozen=True)
class Marks:
    """The state of the last windows.

    Attributes:
        seen: The number of tuples from the queue's beginning that were in the last window.
        fired: The position in the queue that the slide has reached, if it is a count.
        at: By event time: the end of the next window, if known; by arrival: the last window's time.
        repeated: The number of equal windows in a row, up to now.
    """

    seen: int = 0
    fired: int = 0
    at: float | None = None
    repeated: int = 0


@dataclass
class TupleQueue:
    """The tuples of one key.

    Attributes:
        rule: The rule of its windows.
        entries: By time; with equal times, in order of arrival.
        marks: Changed by each window.
        next: The number of the next tuple.
    """

    rule: WindowRule
    entries: list[QueuedTuple] = field(default_factory=list)
    marks: Marks = field(default_factory=Marks)
    next: int = 0

    def add(self, entry: QueuedTuple) -> bool:
        """A tuple has come, which is not late. Returns whether it is the last one by time."""
        is_last = not self.entries or entry.time >= self.entries[-1].time
        if is_last:
            self.entries.append(entry)
        else:
            insort(self.entries, entry, key=_time)
        return is_last

    def due(self) -> float:
        """The end of the next window; NEVER: more tuples must come first."""
        length, slide, _ = self.rule
        if not slide.is_duration:
            last = self.marks.fired + slide.amount - 1
            return self.entries[last].time if last < len(self.entries) else NEVER
        after = self.marks.at
        if not self.entries:
            return NEVER
        if after is None:
            return self._end_after(self.entries[0].time)
        if self.marks.repeated >= MOST_REPEATED and not length.is_duration:
            new = self.entries[self.marks.seen :]
            return max(after, self._end_after(new[0].time)) if new else NEVER
        begin = after - length.amount if length.is_duration else -NEVER
        first = self._count(begin)
        if first < len(self.entries) and self.entries[first].time > after:
            return self._end_after(self.entries[first].time)
        return after  # if there is nothing in it, the queue is emptied then

    def _end_after(self, time: float) -> float:
        return -(-time // self.rule.slide.amount) * self.rule.slide.amount

    def by_watermark(self, watermark: float) -> Iterator[Firing]:
        """The windows that have ended before the watermark, in order."""
        length, slide, _ = self.rule
        while (at := self.due()) < watermark:
            if slide.is_duration:
                after = self.marks.at
                is_after_gap = length.is_duration and after is not None and at > after
                up_to = self._count(at)
            else:
                is_after_gap = False
                fired = self.marks.fired + slide.amount
                up_to = self._count(at) if length.is_duration else fired
                self.marks = replace(self.marks, fired=fired)
            begin = self._count(at - length.amount) if length.is_duration else up_to - length.amount
            firing = self._fire(max(0, begin), up_to, int(at))
            if slide.is_duration and firing.tuples:
                repeated = 0 if firing.new or firing.expired else self.marks.repeated + 1
                self.marks = replace(self.marks, at=at + slide.amount, repeated=repeated)
            yield replace(firing, expired=[]) if is_after_gap else firing
            if is_after_gap and firing.expired:
                yield Firing([], [], firing.expired, None)

    def by_arrival(self, now: float) -> Firing | None:
        """The window that is due after a tuple has come, if there is one."""
        slide = self.rule.slide
        if slide.is_duration or len(self.entries) - self.marks.fired < slide.amount:
            return None
        self.marks = replace(self.marks, fired=len(self.entries))
        return self._up_to(now, 0)

    def by_clock(self, now: float) -> Firing:
        """The window that is due by the clock. All that has come since the last is in it."""
        last = self.marks.at
        drift = NEVER if last is None else now - last - self.rule.slide.amount
        self.marks = replace(self.marks, at=now)
        return self._up_to(now, drift)

    def _up_to(self, now: float, drift: float) -> Firing:
        length = self.rule.length
        if length.is_duration:
            begin = self._count(now - length.amount - drift)
        else:
            begin = max(0, len(self.entries) - length.amount)
        return self._fire(begin, len(self.entries), None)

    def _count(self, time: float) -> int:
        """The number of tuples that are not later than a time."""
        return bisect_right(self.entries, time, key=_time)

    def _fire(self, begin: int, end: int, at: int | None) -> Firing:
        """The window of these entries. What is before it leaves the queue."""
        seen, fired = self.marks.seen, self.marks.fired
        firing = Firing(
            self.entries[begin:end],
            self.entries[max(begin, min(seen, end)) : end],
            self.entries[:begin],
            at,
        )
        del self.entries[:begin]
        self.marks = replace(self.marks, seen=end - begin, fired=max(0, fired - begin))
        return firing

    def last_watermark(self) -> float:
        """The watermark at which all windows of its tuples are due, if no other tuples come."""
        if not self.entries:
            return -NEVER
        length, last = self.rule.length, self.entries[-1].time
        if not self.rule.slide.is_duration:
            return last + 1
        if length.is_duration:
            return last + length.amount + self.rule.slide.amount + 1  # with that, it is emptied
        return self._end_after(last) + 1


def _time(entry: QueuedTuple) -> float:
    return entry.time
