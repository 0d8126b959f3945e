"""The windows of one task: kept in its state, called when they are due."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from fulmen.api.collector import OutputCollector
from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.tuples import HELD, Held, Tuple
from fulmen.errors import PASSED_ON
from fulmen.windows.clock import EventClock
from fulmen.windows.disk import StateOnDisk, is_on_disk, on_disk
from fulmen.windows.inputs import (
    NoEdgesError,
    key_of,
    late_counter,
    open_windows_gauge,
    time_of,
)
from fulmen.windows.windowed.options import LengthAndSlide, WindowedOptions
from fulmen.windows.windowed.queues import NEVER, Firing, Marks, QueuedTuple, TupleQueue

Key = tuple[Any, ...]
TUPLES = "tuples"
"""Begins the keys of the state."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TupleWindow:
    """A window.

    Attributes:
        tuples: All tuples in it, by time, or in order of arrival. They are acked.
        new: Tuples that were not in the window before.
        expired: Tuples that have left since the window before.
        start: After which time it is, in milliseconds since 1970; None: it is by arrival, or its
            length is a number of tuples.
        end: Until which time it is; None: it is by arrival.
        key: The values of `key`.
    """

    tuples: list[Tuple]
    new: list[Tuple]
    expired: list[Tuple]
    start: int | None = None
    end: int | None = None
    key: Key = ()


class TaskWindows:
    """The windows of one task."""

    # State: (TUPLES, key, number) -> a tuple; (TUPLES, key, None) -> marks. Timers: a key, for its
    # next window. Memory: all queues; if the state is on disk, those that a batch has to do with.

    def __init__(
        self,
        bolt: Any,
        options: WindowedOptions,
        context: TopologyContext,
        collector: OutputCollector,
    ) -> None:
        """`bolt`: the WindowedBolt, whose `execute` takes a window."""
        assert isinstance(options.window, LengthAndSlide)  # check_input tells
        self._bolt, self._options = bolt, options
        self._context, self._timers, self._collector = context, context.timers, collector
        self._rule = options.window.rule(options.timestamp_field is not None)
        self._reader = options.reader()
        self._clock = EventClock(bolt, context, options.lag or "0")
        self._late = late_counter(context)
        self._open_windows = open_windows_gauge(context)
        self._origins: dict[Any, Held] = {}
        self._due: dict[Key, float] = {}  # of which the timer is set
        self._read: tuple[object, float] = object(), -NEVER

    @cached_property
    def _disk(self) -> StateOnDisk | None:
        """The state, if it is on disk."""
        return on_disk(self._bolt.state) if is_on_disk(self._bolt.state) else None

    @cached_property
    def _queues(self) -> dict[Key, TupleQueue]:
        """The queues that are at hand, by key."""
        queues: dict[Key, TupleQueue] = {}
        if self._disk is None:
            of_key: dict[Key, list[tuple[Any, Any]]] = {}
            for (_, key, number), value in self._bolt.state.items():
                of_key.setdefault(key, []).append((number, value))
            for key, items in of_key.items():
                queues[key] = self._queue_of(items)
        return queues

    def _queue(self, key: Key) -> TupleQueue | None:
        """The queue of a key; None: there is none."""
        queue = self._queues.get(key)
        if queue is None and self._disk is not None:
            items = [(at[-1], value) for at, value in self._disk.items_of(TUPLES, key)]
            if items:
                queue = self._queues[key] = self._queue_of(items)
        return queue

    def _queue_of(self, items: Iterable[tuple[int | None, Any]]) -> TupleQueue:
        """The queue that is in the state, by number."""
        queue = TupleQueue(self._rule)
        for number, value in items:
            if number is None:
                queue.marks = Marks(*value)
                continue
            time, *item = value
            queue.entries.append(QueuedTuple(time, number, self._tuple(*item)))
            queue.next = max(queue.next, number + 1)
        queue.entries.sort()  # numbers differ
        return queue

    def _tuple(self, origin: Any, values: Sequence[Any]) -> Tuple:
        """A tuple of no tree, which is acked already."""
        if origin not in self._origins:
            self._origins[origin] = Held(*origin)
        return Tuple(values, self._origins[origin], ~HELD)

    def take(self, tup: Tuple) -> None:
        """A tuple has come."""
        if tup.is_tick():
            return
        field = self._options.timestamp_field
        key = key_of(tup, self._options.key) if self._options.key else ()
        time = (self._timers.clock or 0.0) * 1000
        if field is not None:
            time = self._time_of(tup, field)
            if time < self._clock.least() or time == -NEVER:
                self._too_late(tup)
                return
        queue = self._queue(key)
        if queue is None:
            queue = self._queues[key] = TupleQueue(self._rule)
        origin = (tup.component, tup.stream, tup.fields, tup.task)
        entry = QueuedTuple(time, queue.next, self._tuple(origin, tup.values))
        queue.next += 1
        is_last = queue.add(entry)
        self._bolt.state[TUPLES, key, entry.number] = (time, origin, tup.values)
        self._collector.ack(tup)
        if field is not None:
            if not (is_last and key in self._due):  # else it comes after the next window
                self._wait(key, queue)
        elif (firing := queue.by_arrival(time)) is not None:
            self._call(key, queue, [firing])
        elif self._rule.slide.is_duration and self._timers.get(key) is None:
            self._timers.set_after(key, self._rule.slide.amount / 1000)

    def _time_of(self, tup: Tuple, field: str) -> float:
        """The event time of a tuple; -NEVER: no window has it."""
        value = tup[field]
        if value is self._read[0]:
            return self._read[1]
        try:
            time = time_of(tup, field, self._reader)
        except NoEdgesError:
            return -NEVER
        if type(value) is datetime:  # the end of a window is the same object for all its keys
            self._read = value, time
        return time

    def _too_late(self, tup: Tuple) -> None:
        self._late.inc()
        stream = self._options.late_tuple_stream
        if stream is not None:
            self._collector.emit([tup.as_dict()], stream, anchors=tup)
        else:
            _log.warning("late, and in no window: %r", tup)
        self._collector.ack(tup)

    def _wait(self, key: Key, queue: TupleQueue) -> None:
        """Have the next window of a key called when the watermark is past its end, and the lag."""
        due = queue.due()
        if due != NEVER and due != self._due.get(key):
            self._due[key] = due
            self._timers.set(key, int(due) + 1 + self._clock.lateness)

    def end_batch(self) -> None:
        """Say how many keys have windows. On disk nobody has counted them."""
        if self._disk is None:
            self._open_windows.set(len(self._queues))
        else:
            self._queues.clear()
            self._due.clear()
            self._origins.clear()

    def on_timer(self, key: Any, at: float) -> None:
        """Call the windows of a key that are due: by event time, or by the clock."""
        queue = self._queue(key)
        self._due.pop(key, None)
        if queue is None:
            return
        if not self._rule.has_times:
            self._call(key, queue, [queue.by_clock((self._timers.clock or 0.0) * 1000)])
            if key in self._queues:
                self._timers.set_after(key, self._rule.slide.amount / 1000)
            return
        watermark = self._context.batch.watermark
        if watermark is None or at > watermark:  # event time ends, or is looked ahead of
            self._call(key, queue, queue.by_watermark(queue.last_watermark()))
            return
        try:
            self._call(key, queue, queue.by_watermark(watermark - self._clock.lateness))
        finally:
            self._wait(key, queue)

    def _call(self, key: Key, queue: TupleQueue, firings: Iterable[Firing]) -> None:
        """Call some windows of a key, all of them, whatever one raises.

        Raises:
            BaseException: The first exception of the author's calls.
        """
        raised: list[BaseException] = []
        calls = self._timers.window_calls
        for firing in firings:
            self._write_down(key, queue, firing)
            if firing.tuples and calls.begin(key, firing.end):
                try:
                    self._bolt.execute(self._window(key, firing))
                except PASSED_ON:
                    raise
                except BaseException as error:  # noqa: BLE001 (author's code)
                    raised.append(error)
                calls.end()
        for one in raised:
            if isinstance(one, FailedException) or one is not raised[0]:
                self._collector.report_error(one)
        if raised and not isinstance(raised[0], FailedException):
            raise raised[0]

    def _write_down(self, key: Key, queue: TupleQueue, firing: Firing) -> None:
        """Write what a window has left of a queue."""
        state = self._bolt.state
        gone = [(TUPLES, key, entry.number) for entry in firing.expired]
        if self._disk is not None:
            self._disk.forget(gone)
        else:
            for place in gone:
                del state[place]
        if queue.entries:
            state[TUPLES, key, None] = astuple(queue.marks)
        else:
            self._queues.pop(key, None)
            state.pop((TUPLES, key, None), None)

    def _window(self, key: Key, firing: Firing) -> TupleWindow:
        tuples, new, expired = (
            [one.item for one in some] for some in (firing.tuples, firing.new, firing.expired)
        )
        length, end = self._rule.length, firing.end
        start = end - length.amount if end is not None and length.is_duration else None
        return TupleWindow(tuples, new, expired, start, end, key)
