"""A bolt that says what there was in each window of event time, by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import BasicBolt, FailedException, Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream, StreamTime
from fulmen.api.event_time import TimeReader, milliseconds
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregations import Aggregation, wanted
from fulmen.windows.inputs import LATE, key_of, late_counter, missing_fields, time_of
from fulmen.windows.options import FIXED, PANE, AggregateOptions, CountWindow, Session
from fulmen.windows.spans import Span, datetime_of

LATE_FIELDS = ("values", "time", "window_start", "window_end")
OPEN_WINDOWS = "Windows that are kept. Of sessions and by count: keys that have some."
EARLY = "early"
"""Begins the keys of timers for what is emitted before a window ends."""
EARLY_PANE, ON_TIME_PANE, LATE_PANE = "early", "on_time", "late"


@dataclass(frozen=True)
class Open:
    """What is kept of one window of one key. It is put into `self.state` anew when it changes.

    Attributes:
        kept: What each aggregation keeps.
        panes: How often the window was emitted.
        has_ended: Whether it was emitted at its end.
        is_new: Whether something has come since it was emitted last.
    """

    kept: list[Any]
    panes: int = 0
    has_ended: bool = False
    is_new: bool = True


class Aggregate(BasicBolt):
    """Counts, sums and more in windows of event time, by key: see `AggregateOptions`.

    It emits, on the stream `default`, the values of `key`, `window_start` and `window_end` (both in
    UTC), and each of `aggregates`: once for each window, when the watermark says that it has
    ended. With `emitEvery` or `allowedLateness` a window may be emitted several times: then `pane`
    says whether early, on_time or late, and `pane_index` counts from 0.

    What comes too late for its windows is on the stream `late`, with the first of these windows.

    The rules are those of Flink's keyed windows: a window holds `start <= time < end`, what is late
    is decided by the watermark at the beginning of the batch, and sessions that touch are one.
    """

    config_model = AggregateOptions
    emits_results = True  # a window that a tuple ends has others in it, which are acked
    own: ClassVar[Mapping[str, type[Aggregation]]] = {}
    """Aggregations of a derived class, by the names that `aggregates` calls them."""

    @override
    def outputs_for(self, options: AggregateOptions) -> Outputs:
        types = dict.fromkeys(FIXED, "timestamp")
        for name, text in options.aggregates.items():
            try:
                kind = wanted(text, self.own).aggregation.type
            except ValueError:  # check_input tells
                continue
            if kind:
                types[name] = kind
        names = (*options.key, *FIXED, *options.aggregates, *(PANE if options.has_panes else ()))
        return {"default": Stream(names, types=types), LATE: Stream(LATE_FIELDS)}

    @override
    def check_input(self, options: AggregateOptions, stream: Stream) -> Iterable[str]:
        return list(self._mistakes(options, stream))

    def _mistakes(self, options: AggregateOptions, stream: Stream) -> Iterator[str]:
        needed = dict.fromkeys(options.key, "key")
        if options.time is not None:
            needed[options.time] = "time"
        elif stream.time is None and not isinstance(options.window, CountWindow):
            yield (
                "time is missing: name the field with the event time, or declare eventTime of what"
                " emits this input"
            )
        for name, text in options.aggregates.items():
            try:
                found = wanted(text, self.own)
            except ValueError as error:
                yield f"aggregates.{name}: {error}"
                continue
            if found.field is not None:
                needed.setdefault(found.field, f"aggregates.{name}")
        yield from missing_fields(needed, stream)

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options: AggregateOptions = context.options
        self._options, self._context = options, context
        self._wanted = [wanted(text, self.own) for text in options.aggregates.values()]
        self._reader = options.reader()
        self._readers: dict[StreamTime, TimeReader] = {}
        self._has_times = options.time is not None or all(
            context.streams[component][stream].time for component, stream in context.sources
        )
        self._lateness = milliseconds(options.allowed_lateness)
        self._early = milliseconds(options.emit_every) / 1000 if options.emit_every else None
        window = options.window
        self._gap = milliseconds(window.gap) if isinstance(window, Session) else 0
        self._size = window.size if isinstance(window, CountWindow) else 0
        self._spans = None if isinstance(window, Session | CountWindow) else window.spans()
        self._late_counter = late_counter(context)
        self._open_windows = context.gauge("open_windows", OPEN_WINDOWS)

    transient = (
        "_options",
        "_context",
        "_wanted",
        "_reader",
        "_readers",
        "_has_times",
        "_lateness",
        "_early",
        "_gap",
        "_size",
        "_spans",
        "_late_counter",
        "_open_windows",
    )

    # A tuple

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if tup.is_tick():
            return
        key = key_of(tup, self._options.key)
        values = self._values(tup)
        time = self._time_of(tup)
        if self._size:
            self._count(key, values, time, collector)
        elif self._gap:
            self._add_to_session(key, values, time, tup, collector)
        else:
            assert self._spans is not None
            self._add(key, values, time, self._spans.of(time), tup, collector)

    def _time_of(self, tup: Tuple) -> int:
        field, reader = self._options.time, self._reader
        if field is None:
            declared = self._context.streams[tup.component][tup.stream].time
            if declared is None:
                return 0
            field = declared.field
            reader = self._readers.get(declared) or TimeReader(declared.unit, declared.timezone)
            self._readers[declared] = reader
        return time_of(tup, field, reader)

    def _values(self, tup: Tuple) -> list[Any]:
        """The value for each aggregation; all of them can be added."""
        found = []
        for aggregation, field in self._wanted:
            value = 1 if field is None else tup[field]
            if value is not None and (wrong := aggregation.check(value)) is not None:
                raise FailedException(f"its field {field!r}: {wrong}")
            found.append(value)
        return found

    def _new(self) -> list[Any]:
        return [one.aggregation.init() for one in self._wanted]

    def _with(self, windows: Sequence[Open], values: Sequence[Any], time: int) -> list[Open]:
        """The windows after a tuple. If this raises, nothing has changed in any of them."""
        kept = [list(window.kept) for window in windows]
        for in_place in (False, True):
            for i, (one, value) in enumerate(zip(self._wanted, values, strict=True)):
                if value is not None and one.aggregation.in_place is in_place:
                    for of_window in kept:
                        of_window[i] = one.aggregation.add(of_window[i], value, time)
        return [
            replace(window, kept=new, is_new=True)
            for window, new in zip(windows, kept, strict=True)
        ]

    def _is_over(self, end: int) -> bool:
        """Whether a window takes nothing any more."""
        watermark = self._context.batch.watermark
        return watermark is not None and end + self._lateness <= watermark

    def _too_late(self, tup: Tuple, time: int, span: Span, collector: BasicOutputCollector) -> None:
        self._late_counter.inc()
        when = [datetime_of(one) for one in (time, *span)]
        collector.emit([tup.as_dict(), *when], LATE)

    # Windows that are where they are

    def _add(
        self,
        key: tuple[Any, ...],
        values: Sequence[Any],
        time: int,
        spans: Sequence[Span],
        tup: Tuple,
        collector: BasicOutputCollector,
    ) -> None:
        live = [span for span in spans if not self._is_over(span[1])]
        if not live:
            self._too_late(tup, time, spans[0], collector)
        places = [(span, key) for span in live]
        found = [self.state.get(place) or Open(self._new()) for place in places]
        for place, window in zip(places, self._with(found, values, time), strict=True):
            span = place[0]
            if place not in self.state:
                self._context.timers.set(place, span[1])
            if window.has_ended:
                self.state[place] = self._emit(key, span, window, LATE_PANE, collector)
                continue
            self.state[place] = window
            self._emit_later(place)

    def _emit_later(self, place: Any) -> None:
        """Have something emitted before its end, if that is wanted and not due already."""
        if self._early is not None and self._context.timers.get((EARLY, place)) is None:
            self._context.timers.set_after((EARLY, place), self._early)

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        if key[0] == EARLY:
            self._emit_early(key[1], collector)
        elif self._gap:
            self._end_sessions(key, int(at), collector)
        else:
            self._end(key, collector)

    def _end(self, place: Any, collector: BasicOutputCollector) -> None:
        """A window has ended; or nothing that is late is taken any more."""
        window = self.state.get(place)
        if window is None:
            return
        span, key = place
        if not window.has_ended:
            window = self._emit(key, span, window, ON_TIME_PANE, collector)
            self._context.timers.cancel((EARLY, place))
            if self._lateness:
                self.state[place] = replace(window, has_ended=True)
                self._context.timers.set(place, span[1] + self._lateness)
                return
        del self.state[place]

    def _emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        if self._gap:
            sessions = self.state.get(place, {})
            self.state[place] = {
                span: self._emit(place[1], span, window, EARLY_PANE, collector)
                if window.is_new and not window.has_ended
                else window
                for span, window in sessions.items()
            }
        elif (window := self.state.get(place)) is not None and window.is_new:
            self.state[place] = self._emit(place[1], place[0], window, EARLY_PANE, collector)

    # Sessions: those of a key are kept together

    def _add_to_session(
        self,
        key: tuple[Any, ...],
        values: Sequence[Any],
        time: int,
        tup: Tuple,
        collector: BasicOutputCollector,
    ) -> None:
        place = ("session", key)
        sessions: dict[Span, Open] = dict(self.state.get(place, {}))
        start, end = time, time + self._gap
        touched = [span for span in sessions if span[0] <= end and start <= span[1]]
        span = min([start, *(s for s, _ in touched)]), max([end, *(e for _, e in touched)])
        if self._is_over(span[1]):
            self._too_late(tup, time, span, collector)
            return
        [window] = self._with([Open(self._new())], values, time)
        for one in sorted(touched):
            window = self._merged(sessions.pop(one), window)
        watermark = self._context.batch.watermark
        if window.has_ended and watermark is not None and span[1] <= watermark:
            window = self._emit(key, span, window, LATE_PANE, collector)
        else:
            window = replace(window, has_ended=False)  # it goes on
        sessions[span] = window
        self._keep(place, sessions)
        self._emit_later(place)

    def _merged(self, one: Open, other: Open) -> Open:
        kept = [
            wanted.aggregation.merge(before, after)
            for wanted, before, after in zip(self._wanted, one.kept, other.kept, strict=True)
        ]
        return Open(kept, max(one.panes, other.panes), one.has_ended or other.has_ended)

    def _end_sessions(self, place: Any, at: int, collector: BasicOutputCollector) -> None:
        sessions: dict[Span, Open] = {}
        for span, window in sorted(self.state.get(place, {}).items()):
            if not window.has_ended and span[1] <= at:
                ended = self._emit(place[1], span, window, ON_TIME_PANE, collector)
                if self._lateness:
                    sessions[span] = replace(ended, has_ended=True)
            elif not (window.has_ended and span[1] + self._lateness <= at):
                sessions[span] = window
        self._keep(place, sessions)

    def _keep(self, place: Any, sessions: dict[Span, Open]) -> None:
        """The sessions of a key, and when the next of them ends, or is forgotten."""
        timers = self._context.timers
        if not sessions:
            self.state.pop(place, None)
            timers.cancel(place)
            timers.cancel((EARLY, place))
            return
        self.state[place] = sessions
        ends = [span[1] + self._lateness * w.has_ended for span, w in sessions.items()]
        timers.set(place, min(ends))

    # Windows by count

    def _count(
        self,
        key: tuple[Any, ...],
        values: Sequence[Any],
        time: int,
        collector: BasicOutputCollector,
    ) -> None:
        count, first, last, window = self.state.get(key) or (0, time, time, Open(self._new()))
        span = min(first, time), max(last, time)
        [window] = self._with([window], values, time)
        if count + 1 < self._size:
            self.state[key] = (count + 1, *span, window)
            return
        self.state.pop(key, None)
        self._emit(key, span, window, ON_TIME_PANE, collector)

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._open_windows.set(len(self.state))

    # What is emitted

    def _emit(
        self,
        key: tuple[Any, ...],
        span: Span,
        window: Open,
        pane: str,
        collector: BasicOutputCollector,
    ) -> Open:
        """Emit a window as it is; what is kept of it then."""
        results = [
            one.aggregation.result(kept)
            for one, kept in zip(self._wanted, window.kept, strict=True)
        ]
        panes = (pane, window.panes) if self._options.has_panes else ()
        when = map(datetime_of, span) if self._has_times else (None, None)
        collector.emit([*key, *when, *results, *panes])
        return replace(window, panes=window.panes + 1, is_new=False)
