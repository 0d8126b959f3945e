"""The windows of one task: kept in its state, called when they are due."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import count
from typing import Any

from fulmen.api.collector import OutputCollector
from fulmen.api.components import Bolt, FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.event_time import TimeReader, milliseconds
from fulmen.api.timers import AT_THE_END, OwnWindows
from fulmen.api.tuples import HELD, Held, Tuple
from fulmen.errors import PASSED_ON
from fulmen.windows.inputs import (
    NoEdgesError,
    key_of,
    late_counter,
    open_windows_gauge,
    time_of,
)
from fulmen.windows.windowed.options import LengthAndSlide, WindowedOptions
from fulmen.windows.windowed.queues import NEVER, Firing, Marks, QueuedTuple, TupleQueue

END = ("end",)
"""The timer that is due when event time has come to its end."""
TIME = ("time",)
"""The key of what is known of event time: the watermark, and the newest time of each stream."""
Key = tuple[Any, ...]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TupleWindow:
    """A window.

    Attributes:
        tuples: All that are in it, by their times, or as they have come. They are acked.
        new: Those that were not in the window before.
        expired: Those that have left since the window before.
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

    def __init__(
        self,
        bolt: Bolt,
        options: WindowedOptions,
        context: TopologyContext,
        collector: OutputCollector,
    ) -> None:
        window = options.window
        assert isinstance(window, LengthAndSlide)  # check_input tells
        self._bolt, self._options, self._context, self._collector = (
            bolt,
            options,
            context,
            collector,
        )
        self._rule = window.rule(options.timestamp_field is not None)
        self._reader: TimeReader = options.reader()
        self._lag = milliseconds(options.lag or "0")
        self._late = late_counter(context)
        self._open_windows = open_windows_gauge(context)
        self._origins: dict[Any, Held] = {}
        self._queues: dict[Key, TupleQueue] | None = None
        self._heap: list[tuple[float, int, Key]] = []
        self._pushed: dict[Key, float] = {}
        self._numbers = count()
        self._next = 0
        self._watermark: int | None = None
        self._newest: dict[tuple[str, str], float] = {}

    # State: ("time",) -> the watermark and the newest times; (key, number) -> a tuple; (key, None)
    # -> marks. Memory: the queues, and which of them is due next.

    def _restored(self) -> dict[Key, TupleQueue]:
        if self._queues is not None:
            return self._queues
        self._queues = {}
        state = self._bolt.state
        self._watermark, newest = state.get(TIME, (None, {}))
        self._newest = {one: newest[one] for one in self._context.sources if one in newest}
        for place, value in state.items():
            if place == TIME:
                continue
            key, number = place
            queue = self._queues.setdefault(key, TupleQueue(self._rule))
            if number is None:
                queue.marks = Marks(*value)
                continue
            time, *item = value
            queue.entries.append(QueuedTuple(time, number, self._tuple(*item)))
            self._next = max(self._next, number + 1)
        for key, queue in self._queues.items():
            queue.entries.sort()  # numbers differ
            self._push(key, queue)
        return self._queues

    def _tuple(self, origin: Any, values: Sequence[Any]) -> Tuple:
        """A tuple of no tree, which is acked already."""
        if origin not in self._origins:
            self._origins[origin] = Held(*origin)
        return Tuple(values, self._origins[origin], ~HELD)

    def take(self, tup: Tuple) -> None:
        """A tuple has come."""
        if tup.is_tick():
            return
        queues, options = self._restored(), self._options
        key = key_of(tup, options.key)
        queue = queues.get(key) or TupleQueue(self._rule)
        if options.timestamp_field is not None:
            try:
                time: float = time_of(tup, options.timestamp_field, self._reader)
            except NoEdgesError:
                self._is_late(tup)
                return
            stream = (tup.component, tup.stream)
            self._newest[stream] = max(time, self._newest.get(stream, time))
            if self._watermark is not None and time < self._watermark:
                self._is_late(tup)
                return
        else:
            time = (self._context.timers.clock or 0.0) * 1000
        origin = (tup.component, tup.stream, tup.fields, tup.task)
        entry = QueuedTuple(time, self._next, self._tuple(origin, tup.values))
        self._next += 1
        queues[key] = queue
        queue.add(entry)
        self._bolt.state[key, entry.number] = (time, origin, tup.values)
        self._collector.ack(tup)
        if options.timestamp_field is not None:
            self._push(key, queue)
            return
        firing = queue.by_arrival(time)
        if firing is not None:
            self._call([(key, queue, firing)])
        elif self._rule.slide.is_duration and self._context.timers.get(key) is None:
            self._context.timers.set_after(key, self._rule.slide.amount / 1000)

    def _is_late(self, tup: Tuple) -> None:
        self._late.inc()
        stream = self._options.late_tuple_stream
        if stream is not None:
            self._collector.emit([tup.as_dict()], stream, anchors=tup)
        else:
            _log.warning("late, and in no window: %r", tup)
        self._collector.ack(tup)

    # Windows

    def _push(self, key: Key, queue: TupleQueue) -> None:
        due = queue.due()
        if self._rule.has_times and due < self._pushed.get(key, NEVER):
            self._pushed[key] = due
            heapq.heappush(self._heap, (due, next(self._numbers), key))

    def end_batch(self) -> None:
        """The watermark goes on, and the windows that are due are called."""
        queues = self._restored()
        try:
            if self._options.timestamp_field is not None:
                self._go_on()
        finally:
            self._open_windows.set(len(queues))
            self._context.timers.windows = self._next_window()

    def _go_on(self) -> None:
        times = self._newest
        if len(times) >= len(
            self._context.sources
        ):  # Storm: something of each stream must have come
            least = int(min(times.values())) - self._lag
            if self._watermark is None or least > self._watermark:
                self._watermark = least
        known = (self._watermark, dict(times))
        if self._bolt.state.get(TIME) != known:
            self._bolt.state[TIME] = known
        if self._queues:
            self._context.timers.set(END, AT_THE_END)
        if self._watermark is not None:
            self._call(self._due(self._watermark))

    def _next_window(self) -> OwnWindows | None:
        """For people: which window ends next, and what it waits for; None: none is known."""
        heap, queues, newest = self._heap, self._restored(), self._newest
        while heap:
            due, _, key = heap[0]
            if self._pushed.get(key) == due:
                if key in queues:
                    break
                del self._pushed[key]
            heapq.heappop(heap)
        if not heap:
            return None
        held_by = min(self._context.sources, key=lambda one: newest.get(one, -NEVER))
        at = newest.get(held_by)
        newest_of_it = None if at is None else int(at)
        return OwnWindows(int(heap[0][0]), self._watermark, held_by, newest_of_it, self._lag)

    def _due(self, watermark: float) -> Iterator[tuple[Key, TupleQueue, Firing]]:
        """The windows that are due, key by key."""
        assert self._queues is not None
        while self._heap and self._heap[0][0] < watermark:
            due, _, key = heapq.heappop(self._heap)
            if self._pushed.get(key) != due:
                continue  # it was due earlier
            del self._pushed[key]
            queue = self._queues.get(key)
            if queue is None:
                continue
            for firing in queue.by_watermark(watermark):
                yield key, queue, firing
            self._push(key, queue)

    def on_timer(self, key: Any) -> None:
        """A window by the clock; or event time has come to its end."""
        queues = self._restored()
        if key == END:
            self._call(
                (key, queue, firing)
                for key, queue in list(queues.items())
                for firing in queue.by_watermark(queue.last_watermark())
            )
            if self._newest:
                self._watermark = int(max(self._newest.values())) + 1
                self._bolt.state[TIME] = (self._watermark, dict(self._newest))
            return
        queue = queues.get(key)
        if queue is None:
            return
        self._call([(key, queue, queue.by_clock((self._context.timers.clock or 0.0) * 1000))])
        if key in queues:
            self._context.timers.set_after(key, self._rule.slide.amount / 1000)

    def _call(self, firings: Iterable[tuple[Key, TupleQueue, Firing]]) -> None:
        """Call some windows, all of them, whatever one raises.

        Raises:
            BaseException: What the first of the author's calls has raised.
        """
        raised: list[BaseException] = []
        calls = self._context.timers.window_calls
        for key, queue, firing in firings:
            for entry in firing.expired:
                del self._bolt.state[key, entry.number]
            if queue.entries:
                self._bolt.state[key, None] = astuple(queue.marks)
            else:
                self._forget(key)
            if firing.tuples and calls.begin(key, firing.end):
                try:
                    self._bolt.execute(self._window(key, firing))  # type: ignore[arg-type]
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

    def _forget(self, key: Key) -> None:
        assert self._queues is not None
        self._queues.pop(key, None)
        self._bolt.state.pop((key, None), None)

    def _window(self, key: Key, firing: Firing) -> TupleWindow:
        tuples, new, expired = (
            [one.item for one in some] for some in (firing.tuples, firing.new, firing.expired)
        )
        length, end = self._rule.length, firing.end
        start = end - length.amount if end is not None and length.is_duration else None
        return TupleWindow(tuples, new, expired, start, end, key)
