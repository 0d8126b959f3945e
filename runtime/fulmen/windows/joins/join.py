"""The base of all joins: a tuple's side, key and time, and what is emitted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector, ErrorCollector
from fulmen.api.components import FailedException, KeyPart, Outputs
from fulmen.api.components.many import ManyBolt, ManyCollector, Tuples
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.keys import has_nan
from fulmen.api.times.event_time import RETRACTION, TimeReader, milliseconds
from fulmen.api.tuples import Tuple
from fulmen.expressions.condition import RowCondition
from fulmen.windows.clock import EventClock
from fulmen.windows.inputs import (
    LATE,
    NoEdgesError,
    are_within_dates,
    check_kept,
    hashable_key,
    is_retraction,
    late_counter,
    missing_fields,
    needless_ttl,
    plain_types,
    taken_back,
    time_field,
    time_of,
    times_of,
)
from fulmen.windows.joins.options import JoinOptions, LateOptions, Side
from fulmen.windows.joins.pairs import mistaken_where, pairs_of, tracked
from fulmen.windows.joins.side_rows import (
    MAY_EQUAL_NONE,
    Columns,
    Emits,
    JoinedRows,
    Key,
    Row,
    SideRows,
)
from fulmen.windows.options import FIXED
from fulmen.windows.spans import datetime_of

LEFT, RIGHT = 0, 1
NAMES = ("left", "right")
LATE_OF = tuple(f"{LATE}_{name}" for name in NAMES)
"""The streams of what comes too late, with the fields of the stream `default`."""
LATE_FIELDS = ("side", "values", "time")


class Join(ManyBolt):
    """Joins two streams, in tasks that receive equal keys of both.

    A key with None equals no other one, as in SQL. What is late is on the stream `late`; and, as it
    would be emitted without a match, on `late_left` or `late_right`.
    """

    emits_results = True  # a spout's tuple that came again would be kept, and joined, twice
    state_part: KeyPart | None = "rows"
    timer_part: KeyPart | Literal["every"] | None = "rows"
    _without_times: ClassVar[str] = ""
    """What else there is where a side has no event time, for a message."""
    takes_retractions: ClassVar[bool] = False
    """Whether a row with `is_retraction` takes back an earlier one."""
    kept_for: Mapping[str, str] = MappingProxyType({})
    """The options for which the rows in the state were kept."""
    took_late: tuple[int, int | None] | None = None
    transient: ClassVar[Sequence[str]] = (
        "_context",
        "_times",
        "_sides",
        "_fields",
        "_keys",
        "_of_key",
        "_retracts",
        "_outer",
        "_late",
        "_clock",
        "_kind",
        "_tracks",
        "_condition",
        "_undecided",
        "_untold",
    )

    @override
    def outputs_for(self, options: JoinOptions) -> Outputs:
        names = (*options.names, *options.more_outputs())
        late = dict.fromkeys(LATE_OF, Stream(names)) if self.needs_times(options) else {}
        types = dict.fromkeys((n for n in options.more_outputs() if n in FIXED), "timestamp")
        rows = Stream(
            names,
            types=types,
            no_key=options.no_key(),
            parts=options.parts(),
            goes_by_clock=options.goes_by_clock,
        )
        return {"default": rows, LATE: Stream(LATE_FIELDS), **late}

    @override
    def check_inputs(
        self, options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterable[str | Warning]:
        return list(self._mistakes(options, inputs))

    @override
    def grouping_key(self, options: JoinOptions, source: tuple[str, str]) -> Sequence[str]:
        sides = [side for side in options.sides if (side.from_, side.stream) == source]
        return options.key_of(sides[0]) if sides else ()

    @override
    def lateness(self, options: JoinOptions) -> int | None:
        if not isinstance(options, LateOptions) or options.goes_by_clock:
            return None
        return milliseconds(options.allowed_lateness) + options.delay

    def needs_times(self, options: JoinOptions) -> bool:
        """Whether each side must have an event time."""
        return not options.goes_by_clock

    @override
    def goes_by_clock(self, options: JoinOptions) -> bool:
        return options.goes_by_clock

    @override
    def needs_event_time(self, options: JoinOptions) -> str | Warning | None:
        """A side without `time` has the time that its component declares, which is seen to."""
        is_named = self.needs_times(options) and all(
            side.time is not None for side in options.sides
        )
        return "nothing is joined" if is_named else None

    def _mistakes(
        self, options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterator[str | Warning]:
        yield from () if self.takes_retractions else taken_back(inputs)
        if self.needs_times(options) or options.goes_by_clock:
            yield from needless_ttl(self)
        sides = {(side.from_, side.stream): side for side in options.sides}
        for (place, side), name in zip(sides.items(), NAMES, strict=True):
            if place in inputs:
                yield from self._of_side(name, side, options, inputs[place])
                continue
            there = ", ".join(f"{stream!r} of {source!r}" for source, stream in inputs)
            yield (
                f"{name}.from: it has no input of stream {side.stream!r} of {side.from_!r}. It"
                f" has: {there}"
            )
        if options.where is not None:
            yield from mistaken_where(options, inputs)
        for source, name in inputs:
            if (source, name) not in sides:
                yield f"stream {name!r} of {source!r} is neither left nor right"

    def _of_side(
        self, name: str, side: Side, options: JoinOptions, stream: Stream
    ) -> Iterator[str | Warning]:
        needed = dict.fromkeys(options.key_of(side), f"{name}.key" if side.key else "key")
        if side.time is not None:
            time, _ = time_field(side.time, options.reader(), stream)
            needed.setdefault(time or "", f"{name}.time")
        elif self.needs_times(options) and stream.time is None:
            yield (
                f"{name}.time is missing: name the field with the event time, or declare"
                f" eventTime of {side.from_!r}{self._without_times}"
            )
        for field in side.outputs.values():
            needed.setdefault(field, f"{name}.fields")
        yield from missing_fields(needed, stream)

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options: JoinOptions = context.options
        self._context = context
        self._times = [self._time_of(side, options) for side in options.sides]
        self._sides = {(one.from_, one.stream): i for i, one in enumerate(options.sides)}
        self._fields = [tuple(one.outputs.values()) for one in options.sides]
        self._keys = [options.key_of(one) for one in options.sides]
        self._of_key = [options.of_key(one) for one in options.sides]
        self._retracts = [
            self.takes_retractions and RETRACTION in context.input(one.from_, one.stream).fields
            for one in options.sides
        ]
        """Whether rows of a side may take back earlier ones."""
        self._outer, self._kind = options.outer, options.kind
        self._tracks = tracked(self._kind)
        """Whether it is noted which rows of the left, and of the right side have had a match."""
        self._condition: RowCondition | None = None
        if options.where is not None:
            self._condition = RowCondition(options.where, pairs_of(options, context.inputs))
            self._undecided = context.counter(
                "undecided", "Pairs for which the condition of a join has no value."
            )
        self._untold = ""
        self._late = late_counter(context)
        self._clock = EventClock(self, context, options.takes_late)
        self._note_what_is_kept(options.kept_as())

    def _note_what_is_kept(self, now: dict[str, str]) -> None:
        """Refuse rows in the state that were kept for something else: results would be wrong.

        Raises:
            ValueError: They were.
        """
        for name, (field, _) in zip(NAMES, self._times, strict=True):
            if field is not None:
                now[f"{name}.time"] = field
        if self.state:
            needed = {n: value for n, value in self.kept_for.items() if self.needs_same(n)}
            check_kept("rows", needed, now)
        self.kept_for = now

    def keeps_state(self, options: JoinOptions | None) -> bool:  # noqa: ARG002 (as of others)
        """Whether results depend on earlier input."""
        return True

    def needs_same(self, option: str) -> bool:
        """Whether kept rows are of no use with another value of an option.

        On a side that was not emitted without a match, the rows with a match are not known.
        """
        before = self.kept_for.get("type")
        return option != "type" or any(
            wanted and not was
            for wanted, was in zip(self._tracks, tracked(before or "inner"), strict=True)
        )

    @override
    def execute_many(self, tuples: Tuples, collector: ManyCollector) -> Sequence[int] | None:
        """Join tuples whose keys and times are plain. `execute` tells of the others."""
        side = self._sides.get((tuples.component, tuples.stream))
        if side is None or type(self).execute is not Join.execute:  # ticks; a derived class's own
            return range(len(tuples))
        arrivals = self._side_rows(side, tuples)
        if arrivals is None:
            return range(len(tuples))
        joined = JoinedRows()
        self.add_all(side, arrivals, joined)
        done = 0
        for place in joined.late:
            end = bisect_left(joined.places, place, done)
            collector.emit_many(joined.rows[done:end], parents=joined.places[done:end])
            done = end
            of = arrivals.keys[place], arrivals.times[place], arrivals.rows[place]
            for late, stream in self._late_rows(side, *of, tuples.tuple(place)):
                collector.emit_many([late], stream, [place])
        if done or joined.places != [*range(len(tuples))]:
            collector.emit_many(joined.rows[done:], parents=joined.places[done:])
        else:  # no place has to be looked at
            collector.emit_many(joined.rows)
        for place, error in joined.failed:
            collector.fail(place, error)
        self._tell(collector)
        return None

    def _side_rows(self, side: int, tuples: Tuples) -> SideRows | None:
        """Read many tuples of a side. None: one has no time, or its key may not be hashable."""
        columns, alone = [tuples.column(name) for name in self._keys[side]], set[int]()
        for column in columns:
            types = plain_types(column)
            if types is None:
                return None
            if not types.isdisjoint(MAY_EQUAL_NONE):
                alone |= {i for i, v in enumerate(column) if v is None or has_nan(v)}
        name, reader = self._times[side]
        times: Sequence[int] = [self._arrival] * len(tuples)
        if name is not None:
            found = times_of(tuples.column(name), reader)
            if not are_within_dates(found):
                return None
            times = found
        retracted = set[int]()
        if self._retracts[side]:
            marks = tuples.column(RETRACTION)
            if set(map(type, marks)) != {bool}:
                return None
            retracted = {i for i, mark in enumerate(marks) if mark}
        names = self._fields[side]
        rows = _rows_of(tuples, [tuples.fields.index(name) for name in names])
        keys = list(zip(*columns, strict=True))
        by_columns = partial(_columns_of, tuples, columns, names)
        return SideRows(keys, times, rows, alone, retracted, columns=by_columns)

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if tup.is_tick():
            return
        side = self._sides[tup.component, tup.stream]
        key = hashable_key(tup, self._keys[side])
        name, reader = self._times[side]
        time: int | None = None
        row = [tup[name] for name in self._fields[side]]
        alone = {0} if any(value is None or has_nan(value) for value in key) else set[int]()
        retracted = {0} if self._retracts[side] and is_retraction(tup[RETRACTION]) else set[int]()
        joined = JoinedRows()
        try:
            time = self._arrival if name is None else time_of(tup, name, reader)
            self.add_all(side, SideRows([key], [time], [row], alone, retracted), joined)
        except NoEdgesError:
            joined.late.append(0)
        self._tell(collector)
        for _, error in joined.failed:
            raise error
        for one in joined.rows:
            collector.emit(one)
        if joined.late:
            for late, stream in self._late_rows(side, key, time, row, tup):
                collector.emit(late, stream)

    def _late_rows(
        self, side: int, key: Key, time: int | None, row: Row, tup: Tuple
    ) -> Iterator[tuple[Row, str]]:
        """What is emitted of a late tuple, each with its stream."""
        self._late.inc()
        at = None if time is None else datetime_of(time)
        yield [NAMES[side], tup.as_dict(), at], LATE
        if self.needs_times(self._context.options):
            alone = self._unmatched_row(side, key, row)
            yield [*alone, *self.more_of(time, tup)], LATE_OF[side]

    @property
    def _arrival(self) -> int:
        """The time of tuples without an event time: when their batch began, by the clock."""
        goes_by_clock = self._context.options.goes_by_clock
        return (self._context.batch.next_watermark or 0) if goes_by_clock else 0

    def _time_of(self, side: Side, options: JoinOptions) -> tuple[str | None, TimeReader]:
        """The field with the time of a side, and what reads it."""
        if side.time is None and not self.needs_times(options):
            return None, options.reader()
        stream = self._context.input(side.from_, side.stream)
        return time_field(side.time, options.reader(), stream)

    def add_all(self, side: int, arrivals: SideRows, joined: JoinedRows) -> None:
        """Tuples have come."""
        for place, (key, time, row) in enumerate(zip(*arrivals[:3], strict=True)):
            joined.place = place
            add = self.add_without_key if place in arrivals.alone else self.add
            try:
                if not add(side, key, time, row, joined):
                    joined.late.append(place)
            except NoEdgesError:
                joined.late.append(place)
            except FailedException as error:
                joined.failed.append((place, error))

    def add(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        """A tuple has come. False: it is late. Needed where `add_all` is not overridden."""
        raise NotImplementedError

    def add_without_key(
        self,
        side: int,
        key: Key,
        time: int,  # noqa: ARG002 (as `add`)
        row: Row,
        joined: Emits,
    ) -> bool:
        """Take a tuple whose key has None. False: it is late."""
        self.unmatched(side, key, row, joined)
        return True

    def is_late(self, time: int) -> bool:
        """Whether a time is further below the watermark than is allowed."""
        return time < self._clock.least()

    def more_of(self, time: int | None, tup: Tuple) -> Row:  # noqa: ARG002 (as above)
        """The values to emit of a late tuple besides the fields of both sides."""
        return []

    def chosen(self, side: int, row: Row, others: Sequence[Row]) -> Sequence[int]:
        """The numbers of the other side's rows with which a row is a pair."""
        if self._condition is None or not others:
            return range(len(others))
        pairs = [[*row, *other] if side == LEFT else [*other, *row] for other in others]
        taken, failed = self._condition.of(pairs)
        if failed:
            self._undecided.inc(len(failed))
            self._untold = next(iter(failed.values()))
        return taken

    def _tell(self, collector: ErrorCollector) -> None:
        """Report that the condition had no value for a pair: nobody's tuple is at fault."""
        if self._untold:
            collector.report_error(f"{self._untold}. Such a pair is none")
            self._untold = ""

    def matched(
        self,
        side: int,
        row: Row,
        other: Row,
        collector: Emits,
        more: Row = [],  # noqa: B006 (never changed)
    ) -> None:
        """Emit a row of a side with one of the other."""
        left, right = (row, other) if side == LEFT else (other, row)
        if self._kind == "semi":
            collector.emit([*left, *more])
        elif self._kind != "anti":
            collector.emit([*left, *right, *more])

    def unmatched(
        self,
        side: int,
        key: Key,
        row: Row,
        collector: Emits,
        more: Row = [],  # noqa: B006 (never changed)
    ) -> None:
        """Emit a row of a side that has no match, if that is wanted."""
        if self._outer[side]:
            collector.emit([*self._unmatched_row(side, key, row), *more])

    def _unmatched_row(self, side: int, key: Key, row: Row) -> Row:
        """A row of a side as it is emitted without a match."""
        nothing: Row = [None] * len(self._fields[1 - side])
        for place, part in self._of_key[1 - side]:
            nothing[place] = key[part]
        if self._kind in ("semi", "anti"):
            return row if side == LEFT else nothing
        return [*row, *nothing] if side == LEFT else [*nothing, *row]


def _columns_of(tuples: Tuples, keys: Columns, names: Sequence[str]) -> tuple[Columns, Columns]:
    return keys, [tuples.column(name) for name in names]


def _rows_of(tuples: Tuples, places: Sequence[int]) -> list[Row]:
    """The values at some places of each tuple. Where these are all, it is the row that came."""
    if [*places] == [*range(len(tuples.fields))]:
        return [row if type(row) is list else [*row] for row in tuples]
    if len(places) < 2:
        return [[row[i] for i in places] for row in tuples]
    return [*map(list, map(itemgetter(*places), tuples))]
