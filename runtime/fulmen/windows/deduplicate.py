"""A bolt that passes on one tuple of each id, as long as duplicates come within a horizon."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import Outputs
from fulmen.api.components.chunks import ChunkBolt
from fulmen.api.components.many import ManyBolt, ManyCollector, Tuples
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import milliseconds
from fulmen.api.tuples import Tuple
from fulmen.windows.clock import EventClock
from fulmen.windows.columns import Keys, keys_of, times_in
from fulmen.windows.inputs import (
    LATE,
    NoEdgesError,
    are_plain,
    are_within_dates,
    check_kept,
    key_of,
    late_counter,
    missing_fields,
    taken_back,
    time_of,
    times_of,
)
from fulmen.windows.options import DeduplicateOptions
from fulmen.windows.spans import datetime_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from fulmen.api.times.arrow_times import Mask

Id = tuple[Any, ...]
Row = tuple[int, list[Any]]
"""The event time of a tuple, and the values that are passed on."""


class Deduplicate(ChunkBolt, ManyBolt):
    """Passes on the first, or the last, tuple of each id within a horizon: `DeduplicateOptions`.

    With `keep: first`, a tuple is a duplicate if one with its id was passed on whose event time is
    less than `horizon` away. With `keep: last`, the tuples of an id that are less than `horizon`
    after the first of them are one, and the last of them is passed on.

    A late tuple that may be a duplicate of one that is forgotten is on the stream `late`.
    """

    config_model = DeduplicateOptions
    emits_results = True  # a spout's tuple that came again would be a duplicate of itself
    kept_for: Mapping[str, str] = MappingProxyType({})
    """The options for which the ids in the state were kept."""
    took_late: tuple[int, int | None] | None = None
    state_part = "first"
    timer_part = "first"

    @override
    def outputs_for(self, options: DeduplicateOptions) -> Outputs:
        return {"default": Stream(options.fields), LATE: Stream(("values", "time"))}

    @override
    def check_input(self, options: DeduplicateOptions, stream: Stream) -> Iterable[str | Warning]:
        needed = dict.fromkeys(options.id, "id")
        if options.time is not None:
            needed.setdefault(options.time, "time")
        for field in options.fields:
            needed.setdefault(field, "fields")
        return list(missing_fields(needed, stream))

    @override
    def check_inputs(
        self,
        options: DeduplicateOptions,
        inputs: Mapping[tuple[str, str], Stream],
    ) -> Iterable[str | Warning]:
        return list(taken_back(inputs))

    @override
    def grouping_key(self, options: DeduplicateOptions, source: tuple[str, str]) -> Sequence[str]:
        return options.id

    @override
    def lateness(self, options: DeduplicateOptions) -> int | None:
        return None if options.time is None else milliseconds(options.allowed_lateness)

    @override
    def needs_event_time(self, options: DeduplicateOptions) -> str | Warning | None:
        if options.time is None:
            return None
        return "nothing is passed on" if options.keep == "last" else Warning("no id is forgotten")

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options: DeduplicateOptions = context.options
        self._options, self._context, self._reader = options, context, options.reader()
        self._horizon = milliseconds(options.horizon)
        self._clock = EventClock(self, context, options.allowed_lateness)
        self._lateness = self._clock.lateness
        self._duplicates = context.counter("duplicates", "Tuples that were left out.")
        self._late = late_counter(context)
        now = options.kept_as()
        if self.state:
            check_kept("ids", {n: value for n, value in self.kept_for.items() if n in now}, now)
        self.kept_for = now

    transient = (
        "_options",
        "_context",
        "_reader",
        "_horizon",
        "_clock",
        "_lateness",
        "_duplicates",
        "_late",
    )

    @override
    def execute_batch(self, tup: Tuple, batch: pa.RecordBatch) -> Sequence[int] | None:
        """Find those that are duplicates for certain. `execute` tells of the others."""
        options, fields = self._options, tup.fields
        if options.keep == "last" or type(self).execute is not Deduplicate.execute:
            return None
        columns = [batch.column(fields.index(name)) for name in options.id]
        keys = keys_of(columns, batch.num_rows)
        if keys is None:
            return None
        if options.time is None:
            known = [self._is_remembered(self._id(value)) for value in keys.values]
            is_one = np.ones(batch.num_rows, np.bool_)
            is_one[_firsts(keys, is_one)[~np.array(known, np.bool_)]] = False
        else:
            is_one = self._certain(keys, batch.column(fields.index(options.time)))
        if count := int(is_one.sum()):
            self._duplicates.inc(count)
        return np.flatnonzero(~is_one).tolist()

    @override
    def execute_many(self, tuples: Tuples, collector: ManyCollector) -> Sequence[int] | None:
        """Pass on the first ones of ids that are plain. `execute` tells of the others."""
        options = self._options
        is_own = type(self).execute is not Deduplicate.execute
        if options.time is None or options.keep == "last" or is_own:
            return range(len(tuples))
        ids = [tuples.column(name) for name in options.id]
        times = times_of(tuples.column(options.time), self._reader)
        if not all(map(are_plain, ids)) or not are_within_dates(times):
            return range(len(tuples))
        at, late = list[int](), list[int]()
        for place, (one, time) in enumerate(zip(zip(*ids, strict=True), times, strict=True)):
            passes = self._passes(one, time)
            if passes is None:
                late.append(place)
            elif passes:
                at.append(place)
        columns = [tuples.column(name) for name in options.fields] if at else []
        rows = [[column[place] for column in columns] for place in at]
        done = 0
        for place in late:  # each between those that came before and after it
            end = bisect_left(at, place, done)
            collector.emit_many(rows[done:end], parents=at[done:end])
            row = self._late_row(tuples.tuple(place), times[place])
            collector.emit_many([row], LATE, [place])
            done = end
        collector.emit_many(rows[done:], parents=at[done:])
        return None

    def _id(self, value: Any) -> Id:
        """An id of what `keys_of` has found."""
        return (value,) if len(self._options.id) == 1 else value

    def _certain(self, keys: Keys, column: pa.Array) -> Mask:
        """Rows close to one that was passed on, or to the first of their id, which will be."""
        times, usable = times_in(column, self._reader)
        firsts = _firsts(keys, usable)
        bases = times[firsts]
        # one that is late will not be passed on
        has_base = usable[firsts] & (bases >= self._clock.least())
        comes = has_base.copy()
        for i, value in enumerate(keys.values):
            if known := self.state.get(self._id(value)):
                bases[i], has_base[i], comes[i] = known[-1], True, False
        is_close = np.abs(times - bases[keys.codes]) < self._horizon
        is_one: Mask = usable & has_base[keys.codes] & is_close
        is_one[firsts[comes]] = False
        return is_one

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if tup.is_tick():
            return
        options = self._options
        one = key_of(tup, options.id)
        row = [tup[name] for name in options.fields]
        if options.time is None:
            self._by_clock(one, row, collector)
            return
        time: int | None = None
        try:
            time = time_of(tup, options.time, self._reader)
            if options.keep == "last":
                is_late = not self._last(one, time, row)
            else:
                passed = self._passes(one, time)
                is_late = passed is None
                if passed:
                    collector.emit(row)
        except NoEdgesError:
            is_late = True
        if is_late:
            collector.emit(self._late_row(tup, time), LATE)

    def _late_row(self, tup: Tuple, time: int | None) -> list[Any]:
        """What is emitted of a late tuple. None: no datetime can be its time."""
        self._late.inc()
        return [tup.as_dict(), None if time is None else datetime_of(time)]

    def _by_clock(self, one: Id, row: list[Any], collector: BasicOutputCollector) -> None:
        if self._is_remembered(one):
            self._duplicates.inc()
            return
        self.state[one] = self._context.timers.clock
        self._context.timers.set_after(one, self._horizon / 1000)
        collector.emit(row)

    def _is_remembered(self, one: Id) -> bool:
        """Whether a tuple of this id was passed on less than `horizon` ago, by the clock."""
        since: float | None = self.state.get(one)
        return since is not None and self._rest_of(since) > 0

    def _rest_of(self, since: float) -> float:
        """The seconds for which an id that was passed on then is still remembered."""
        return since + self._horizon / 1000 - (self._context.timers.clock or 0.0)

    def _passes(self, one: Id, time: int) -> bool | None:
        """Whether it is passed on, as it is no duplicate. None: that can't be known any more."""
        known: tuple[int, ...] = self.state.get(one, ())
        for other in known:
            if abs(time - other) < self._horizon:
                self._duplicates.inc()
                return False
        if time < self._clock.least():
            return None
        self._remember(one, (*known, time))
        return True

    def _remember(self, one: Id, times: tuple[int, ...]) -> None:
        """Keep the times of what was passed on, until nothing can be a duplicate of the first."""
        self.state[one] = times
        self._context.timers.set(one, min(times) + self._horizon + self._lateness)

    def _last(self, one: Id, time: int, row: list[Any]) -> bool:
        """Keep it. False: it may belong to what was passed on already."""
        rows: list[Row] = self.state.get(one, [])
        watermark = self._context.batch.watermark
        if watermark is not None and time < watermark and not (rows and rows[0][0] <= time):
            return False
        rows = sorted([*rows, (time, row)], key=lambda row: row[0])  # stable: the last to come wins
        start = rows[0][0]
        if watermark is not None and start <= watermark:  # nothing can come before it
            count = self._count_of_first(rows)
            last = max(1, count - 1)
            self._duplicates.inc(last - 1)  # those between are not kept
            rows = [rows[0], *rows[last:]]
        self.state[one] = rows
        self._context.timers.set(one, start + self._horizon)
        return True

    def _count_of_first(self, rows: list[Row]) -> int:
        """The number of rows less than `horizon` after the first; rows are sorted by time."""
        end = rows[0][0] + self._horizon
        return sum(time < end for time, _ in rows)

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        kept = self.state.pop(key, None)
        if kept is None:
            return
        if self._options.time is None:
            if (rest := self._rest_of(kept)) > 0:  # `horizon` was shorter when the timer was set
                self.state[key] = kept
                self._context.timers.set_after(key, rest)
            return
        if self._options.keep == "first":
            end = int(at) - self._horizon - self._lateness
            if left := tuple(time for time in kept if time > end):
                self._remember(key, left)
            return
        if (end := kept[0][0] + self._horizon) > at:  # the same
            self.state[key] = kept
            self._context.timers.set(key, end)
            return
        count = self._count_of_first(kept)
        self._duplicates.inc(max(0, count - 1))
        collector.emit(kept[count - 1][1])
        if left_rows := kept[count:]:
            self.state[key] = left_rows
            self._context.timers.set(key, left_rows[0][0] + self._horizon)


def _firsts(keys: Keys, usable: Mask) -> npt.NDArray[np.int64]:
    """The position of the first usable row of each key; 0 if there is none."""
    found = np.zeros(len(keys.values), np.int64)
    some = np.flatnonzero(usable)[::-1]
    found[keys.codes[some]] = some  # of several the last one stays
    return found
