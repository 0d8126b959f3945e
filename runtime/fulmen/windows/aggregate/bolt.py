"""A bolt that says what there was in each window, by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import Outputs
from fulmen.api.components.chunks import ChunkBolt, ChunkValues
from fulmen.api.components.combiner import COMBINED, Combiner
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import RETRACTION, TimeReader, milliseconds
from fulmen.api.tuples import Tuple
from fulmen.errors import FulmenError
from fulmen.windows.aggregate.adding.aggregates import Aggregates, ColumnRows
from fulmen.windows.aggregate.adding.chunk_rows import Places
from fulmen.windows.aggregate.adding.filtered import FilteredFields, with_fields
from fulmen.windows.aggregate.kinds.counted import CountedWindows
from fulmen.windows.aggregate.kinds.disk_windows import DiskWindows
from fulmen.windows.aggregate.kinds.fixed import FixedWindows
from fulmen.windows.aggregate.kinds.panes import EARLY, Panes
from fulmen.windows.aggregate.kinds.sessions import Sessions
from fulmen.windows.aggregate.kinds.windower import Windower
from fulmen.windows.aggregate.partial import partial_windows
from fulmen.windows.clock import EventClock
from fulmen.windows.columns import ArrowValues, all_at, keys_of, times_in
from fulmen.windows.disk import is_on_disk
from fulmen.windows.functions.aggregations import Aggregation
from fulmen.windows.functions.retractable import retractable, retracted_inputs
from fulmen.windows.functions.wanted import result_types, wanted
from fulmen.windows.inputs import (
    LATE,
    NO_WINDOW_ENDS,
    NoEdgesError,
    aggregated_fields,
    are_alike,
    is_retraction,
    key_of,
    needless_ttl,
    open_windows_gauge,
    taken_back,
    time_field,
    time_of,
    times_of,
)
from fulmen.windows.options import FIXED, AggregateOptions, CountWindow, Session

if TYPE_CHECKING:
    import pyarrow as pa

LATE_FIELDS = ("values", "time", "window_start", "window_end")


@dataclass(frozen=True)
class StreamFields:
    """The places of key, values and time in the tuples of one stream.

    Attributes:
        key_at: The fields of the key.
        values_at: The values for each aggregate.
        time_at: The event time; None: there is none.
        reader: Reads event times.
        filtered: Gives the values of aggregates with a condition; None: there are none.
    """

    key_at: Sequence[int]
    values_at: Places
    time_at: int | None
    reader: TimeReader
    filtered: FilteredFields | None = None


class Aggregate(ChunkBolt):
    """Counts, sums and more in windows of event time or the clock: see `AggregateOptions`.

    It emits, on the stream `default`, the values of `key`, `window_start` and `window_end` (both in
    UTC), and each of `aggregates`: once for each window, when the watermark says that it has
    ended. With `emitEvery` or `allowedLateness` a window may be emitted several times: then `pane`
    says whether early, on_time or late, and `pane_index` counts from 0. With `retract` the row
    before comes again then, first, and `is_retraction` says so.

    What comes too late for its windows is on the stream `late`, with the first of these windows.

    The rules are those of Flink's keyed windows: a window holds `start <= time < end`, what is late
    is decided by the watermark at the beginning of the batch, and sessions that touch are one.
    """

    config_model = AggregateOptions
    emits_results = True  # a window that a tuple ends has others in it, which are acked
    takes_filters: ClassVar[bool] = True
    """Whether aggregates may have a condition."""
    own: ClassVar[Mapping[str, type[Aggregation]]] = {}
    """Aggregations of a derived class, by the names that `aggregates` calls them."""
    kept_for: str = ""
    """A description of the windows in the state."""
    took_late: tuple[int, int | None] | None = None
    never_takes_back: bool = False
    """Whether windows may have been emitted several times without retracting the row before."""

    @override
    def outputs_for(self, options: AggregateOptions) -> Outputs:
        types = dict.fromkeys(FIXED, "timestamp") | result_types(options.aggregates, self.own)
        names = (*options.key, *FIXED, *options.aggregates, *options.pane_fields)
        rows = Stream(names, types=types, parts=[frozenset([name]) for name in options.key])
        return {"default": rows, LATE: Stream(LATE_FIELDS)}

    @override
    def check_input(self, options: AggregateOptions, stream: Stream) -> Iterable[str | Warning]:
        return list(self._mistakes(options, stream))

    @override
    def check_inputs(
        self, options: AggregateOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterable[str | Warning]:
        if isinstance(options.window, CountWindow) or options.goes_by_clock:
            return list(taken_back(inputs))
        takes_back = any(RETRACTION in stream.fields for stream in inputs.values())
        if takes_back and options.partial is True:
            return ["partial: true is not for rows that may be taken back. Leave it out"]
        return list(retracted_inputs(options.aggregates, self.own, inputs))

    @override
    def grouping_key(self, options: AggregateOptions, source: tuple[str, str]) -> Sequence[str]:
        return options.key

    @override
    def is_of_all_rows(self, options: AggregateOptions) -> bool:
        return not options.key

    @override
    def lateness(self, options: AggregateOptions) -> int | None:
        has_none_late = isinstance(options.window, CountWindow) or options.goes_by_clock
        return None if has_none_late else options.lateness

    @override
    def goes_by_clock(self, options: AggregateOptions) -> bool:
        return options.goes_by_clock

    @override
    def needs_event_time(self, options: AggregateOptions) -> str | None:
        is_by_count = isinstance(options.window, CountWindow)
        return None if is_by_count or options.time is None else NO_WINDOW_ENDS

    def _mistakes(self, options: AggregateOptions, stream: Stream) -> Iterator[str | Warning]:
        yield from needless_ttl(self)
        needed = dict.fromkeys(options.key, "key")
        if options.time is not None:
            name, _ = time_field(options.time, options.reader(), stream)
            needed[name or ""] = "time"
        elif stream.time is None and not (
            isinstance(options.window, CountWindow) or options.goes_by_clock
        ):
            yield (
                "time is missing: name the field with the event time, or declare eventTime of what"
                " emits this input. For windows by the clock: by: clock"
            )
        yield from aggregated_fields(options.aggregates, self.own, needed, stream)

    @override
    @classmethod
    def combiner_for(
        cls, options: AggregateOptions, stream: Stream, grouped_by: Sequence[str]
    ) -> Combiner | None:
        if not cls._looks_at_none() or RETRACTION in stream.fields:
            return None
        return partial_windows(options, stream, grouped_by, cls.own)

    @classmethod
    def _looks_at_none(cls) -> bool:
        """Whether a derived class does nothing with single tuples."""
        return cls.execute is Aggregate.execute

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options: AggregateOptions = context.options
        self._options, self._context = options, context
        self._sources: dict[tuple[str, str], StreamFields] = {}
        texts = options.aggregates.values()
        self._wanted = [(text, wanted(text, self.own)) for text in texts]
        self._takes_back = any(RETRACTION in stream.fields for stream in context.inputs.values())
        if self._takes_back:
            self._wanted = retractable(self._wanted, is_timed=True)
        self._aggregates = Aggregates(with_fields(self._wanted))
        self._note_what_is_kept()
        self._windows = self._windower(options.window)
        self.state_part, self.timer_part = self._windows.state_part, self._windows.timer_part
        looks_at_none = self._looks_at_none()
        self._takes_columns = looks_at_none and self._windows.takes_columns
        self._takes_chunks = (
            looks_at_none and self._windows.takes_chunks and self._aggregates.takes_groups
        )
        self._open_windows = open_windows_gauge(context)
        self._count_windows()
        self._forget_origin()

    def _note_what_is_kept(self) -> None:
        """Refuse a state with windows of another kind: they would silently never end.

        Raises:
            FulmenError: The state has such windows.
        """
        fields = {self._time_of(*source)[0] for source in self._context.sources}
        now = self._options.kept_as()
        if times := ", ".join(sorted(field for field in fields if field is not None)):
            now += f" at {times}"
        if self._takes_back:
            now += ", with rows that are taken back"
        if self.state and self.kept_for != now:
            raise FulmenError(
                f"the checkpoint has open windows: {self.kept_for}. Now they would be: {now}."
                " Change it back, or give the component another name, and its windows begin anew"
            )
        if self.state and self.never_takes_back and self._options.retract:
            raise FulmenError(
                "the checkpoint has windows that were emitted without retract: their rows can't be"
                " taken back. Leave retract out, or give the component another name, and its"
                " windows begin anew"
            )
        self.kept_for = now
        self.never_takes_back = self._options.has_panes and not self._options.retract

    def _windower(self, window: Any) -> Windower:
        options, context = self._options, self._context
        has_times = (
            options.goes_by_clock
            or options.time is not None
            or all(context.input(component, stream).time for component, stream in context.sources)
        )
        clock = EventClock(self, context, options.allowed_lateness)
        panes = Panes(options, context, self._aggregates, has_times)
        rest = self.state, context.timers, clock, self._aggregates, panes
        has_plain_keys = len(options.key) == 1
        if isinstance(window, Session):
            return Sessions(milliseconds(window.gap), has_plain_keys, *rest)
        if isinstance(window, CountWindow):
            return CountedWindows(window.size, window.every or window.size, *rest)
        fixed = DiskWindows if is_on_disk(self.state) else FixedWindows
        return fixed(window.spans(), has_plain_keys, *rest)

    transient = (
        "state_part",
        "timer_part",
        "_options",
        "_wanted",
        "_context",
        "_aggregates",
        "_takes_back",
        "_windows",
        "_takes_columns",
        "_takes_chunks",
        "_open_windows",
        "_sources",
        "_source",
        "_origin",
        "_is_partial",
    )

    # Where what is in the tuples at hand: the same for all of a chunk

    def _forget_origin(self) -> None:
        """Let go of the chunk."""
        self._origin: Any = None
        self._source: StreamFields | None = None
        self._is_partial = False

    def _source_at(self, tup: Tuple) -> StreamFields | None:
        """Look at the chunk that a tuple is of."""
        self._forget_origin()
        self._origin = tup._origin
        if tup.is_tick():
            return None
        if tup.fields[:1] == (COMBINED,):
            self._is_partial = True
            return None
        where = tup.component, tup.stream
        if where not in self._sources:
            self._sources[where] = self._source_of(tup)
        self._source = self._sources[where]
        return self._source

    def _source_of(self, tup: Tuple) -> StreamFields:
        fields = tup.fields
        time, reader = self._time_of(tup.component, tup.stream)
        key_at = [fields.index(name) for name in self._options.key]
        filtered = None
        if any(one.condition is not None for _, one in self._wanted):
            of = self._context.input(tup.component, tup.stream)
            filtered = FilteredFields(self._wanted, of)
        return StreamFields(
            key_at,
            self._aggregates.places(fields if filtered is None else (*fields, *filtered.names)),
            None if time is None else fields.index(time),
            reader,
            filtered,
        )

    def _time_of(self, component: str, stream: str) -> tuple[str | None, TimeReader]:
        """The field with the event time of an input, and what reads it."""
        options, of = self._options, self._context.input(component, stream)
        if options.goes_by_clock:
            return None, TimeReader()
        return time_field(options.time, options.reader(), of)

    @property
    def _arrival(self) -> int:
        """The time of tuples without an event time: when their batch began, by the clock."""
        return (self._context.batch.next_watermark or 0) if self._options.goes_by_clock else 0

    # Tuples

    @override
    def execute_chunk(self, tup: Tuple, rows: ChunkValues) -> Sequence[int] | None:
        source = self._source_at(tup) if self._takes_chunks else None
        if source is None or (source.time_at is None and not self._options.goes_by_clock):
            return None
        some = [rows.values(i) for i in source.key_at]
        if not all(map(are_alike, some)):
            return None
        times: Sequence[int | None] = [self._arrival] * len(rows)
        if source.time_at is not None:
            times = times_of(rows.values(source.time_at), source.reader)
        keys = some[0] if len(some) == 1 else list(zip(*some, strict=True)) or [()] * len(times)
        more: Sequence[Sequence[Any]] = ()
        if source.filtered is not None:
            found = source.filtered.columns(list(rows))
            if found is None:
                return None
            more = found
        own = len(tup.fields)
        columns = {
            place: rows.values(place) if place < own else more[place - own]
            for place in source.values_at.all
        }
        return self._windows.add_chunk(
            self._aggregates.chunk_rows(keys, times, columns, source.values_at)
        )

    @override
    def execute_batch(self, tup: Tuple, batch: pa.RecordBatch) -> Sequence[int] | None:
        left = self._add_columns(tup, batch)
        return self.execute_chunk(tup, ArrowValues(batch)) if left is None else left

    def _add_columns(self, tup: Tuple, batch: pa.RecordBatch) -> Sequence[int] | None:
        """Add the rows of a batch without a value of Python for each; None: that can't be."""
        source = self._source_at(tup) if self._takes_columns else None
        if source is None or source.filtered is not None:
            return None
        keys = keys_of([batch.column(i) for i in source.key_at], batch.num_rows)
        if keys is None:
            return None
        values = {at: batch.column(at) for at in source.values_at.all}
        if source.time_at is not None:
            times = times_in(batch.column(source.time_at), source.reader)
        elif self._options.goes_by_clock:
            times = all_at(self._arrival, batch.num_rows)
        else:
            return None
        return self._windows.add_columns(ColumnRows(values, keys, times, source.values_at))

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        source = self._source if tup._origin is self._origin else self._source_at(tup)
        if source is None:  # a tick, or tuples that were aggregated already
            if self._is_partial:
                place, made = len(self._options.key), tup.values
                self._windows.merge(tuple(made[:place]), made[place], made[place + 1 :])
            return
        key = key_of(tup, source.key_at)
        row: Sequence[Any] = tup.values
        if self._takes_back:
            is_retraction(tup[RETRACTION])  # None would count for nothing
        if source.filtered is not None:
            row = [*row, *source.filtered.of(row)]
        values = self._aggregates.values(row, source.values_at)
        at, time = source.time_at, None
        try:
            time = self._arrival if at is None else time_of(tup, at, source.reader)
            self._windows.add(key, time, values, tup, collector)
        except NoEdgesError:
            self._windows.too_late(tup, time, collector)

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._forget_origin()
        self._windows.end_batch()
        self._count_windows()

    def _count_windows(self) -> None:
        count = self._windows.count
        self._open_windows.set(count)
        self._context.timers.results = count

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        if self._context.batch.looks_ahead:
            if self._options.emit != "final":  # it is emitted when it can't change any more
                self._windows.emit_early(key, collector)
        elif key[0] != EARLY or self._options.emit_every is not None:  # else it is of a run before
            self._windows.on_timer(key, int(at), collector)
