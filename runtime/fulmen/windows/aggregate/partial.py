"""Windows of tuples that are still in the worker of who emits them: their part of one batch.

What is late is decided as it is where the window is: in a batch each task has the same watermark.
What is late, and what can't be added to a window, is left to the window as it is. The tuples of a
key come to a window in the order in which they were emitted: of equal values the first one counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from math import copysign
from typing import Any, NamedTuple, cast

from typing_extensions import override

from fulmen.api.components import FailedException
from fulmen.api.components.combiner import ANY_TIME, IN_ORDER, Combiner
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import TimeReader
from fulmen.errors import PASSED_ON
from fulmen.windows.aggregate.adding.aggregates import Aggregates
from fulmen.windows.aggregate.adding.chunk_rows import ChunkRows, Groups
from fulmen.windows.functions.aggregations import Aggregation
from fulmen.windows.functions.wanted import wanted
from fulmen.windows.inputs import are_plain, spans_of, time_field, times_of
from fulmen.windows.options import AggregateOptions

Kinds = Sequence[frozenset[type]]
"""The types of the values of each field of a key, but for None."""
SAMPLE = 512
"""Whether there are few keys is estimated from so many keys of a chunk."""


def partial_windows(
    options: AggregateOptions,
    stream: Stream,
    grouped_by: Sequence[str],
    own: Mapping[str, type[Aggregation]],
) -> PartialWindows | None:
    """The combiner of a stream's tuples; None: they are not combined.

    Args:
        options: Those of the bolt.
        stream: The stream of the tuples.
        grouped_by: The fields that the input is grouped by.
        own: Aggregations of the bolt's class.
    """
    window = options.window
    if options.partial is False or window.type in ("session", "count"):
        return None
    if not set(grouped_by) <= set(options.key):
        return None  # equal keys may go to several tasks
    aggregates = [wanted(text, own) for text in options.aggregates.values()]
    if any(one.condition is not None for one in aggregates):
        return None
    if options.partial == "auto" and not all(one.aggregation.splits for one in aggregates):
        return None
    time, reader = time_field(options.time, options.reader(), stream)
    if options.goes_by_clock:
        time = None
    elif time is None:
        return None
    return PartialWindows(options, stream, time, reader, Aggregates(aggregates))


class PartialWindows(Combiner):
    """Windows of one input, aggregated in one worker.

    A row has the values of the key, a time, and what each aggregate keeps: of all tuples of the key
    that are in the same windows as that time.
    """

    def __init__(
        self,
        options: AggregateOptions,
        stream: Stream,
        time: str | None,
        reader: TimeReader,
        aggregates: Aggregates,
    ) -> None:
        """`time`: the field with the event time; None: it is when the batch began."""
        self._always = options.partial is True
        self._aggregates, self._reader = aggregates, reader
        self._spans = options.window.spans()  # type: ignore[union-attr]
        self._time_at = None if time is None else stream.fields.index(time)
        self._key_at = [stream.fields.index(name) for name in options.key]
        self._values_at = aggregates.places(stream.fields)
        self._plain_at = {*self._key_at, *self._values_at.all}
        self._kinds: Kinds = []
        self.begin(None)

    @override
    def begin(self, watermark: float | None, next_watermark: int | None = None) -> None:
        self._watermark, self._arrival = watermark, next_watermark
        self._since, self._until, self._is_open, self._is_over = 0, 0, False, True
        self._forget()

    def _forget(self) -> None:
        self._new_number = count().__next__
        self._numbers: dict[int, dict[Any, int]] = {}  # by place, by key
        self._rows: list[_Row] = []
        self._counts: Counter[int] = Counter()

    @override
    def add(self, columns: Sequence[Sequence[Any]]) -> Sequence[int] | None:
        if not all(are_plain(columns[i]) for i in self._plain_at):
            return None
        some = [columns[i] for i in self._key_at]
        if not self._are_of_one_kind(some):
            return None
        keys: Sequence[Any] = some[0] if len(some) == 1 else list(zip(*some, strict=True))
        if not some:
            keys = [()] * len(columns[0])
        if not (self._always or _are_few(keys)):
            return None
        times: Sequence[int | None] = [self._arrival] * len(keys)
        if self._time_at is not None:
            times = times_of(columns[self._time_at], self._reader)
        at_hand = {place: columns[place] for place in self._values_at.all}
        rows = self._aggregates.chunk_rows(keys, times, at_hand, self._values_at)
        if self._are_here(times):
            return self._combined(range(len(keys)), rows)
        places = self._by_place(times)
        if places is None:
            return None
        found = [ANY_TIME] * len(keys)
        for since, positions in places.items():
            self._go_to(since)
            for i, number in zip(positions, self._combined(positions, rows), strict=True):
                found[i] = number
        return found

    def _are_of_one_kind(self, columns: Sequence[Sequence[Any]]) -> bool:
        """Whether equal keys are the same, and go to one task: 1 and True are two keys there."""
        before = self._kinds
        self._kinds = [frozenset(map(type, column)) - {type(None)} for column in columns]
        if any(len(kinds) > 1 for kinds in self._kinds):
            return False
        if any(float in kinds for kinds in self._kinds) and any(map(_has_negative_zero, columns)):
            return False
        return self._kinds == before or not self._numbers

    # Places: times that are in the same windows, known by the first of them

    def _go_to(self, time: int) -> None:
        """Find the place of a time. It is kept at hand, as the next one is near."""
        if self._since <= time < self._until:
            return
        try:
            spans = spans_of(self._spans, time)
        except FailedException:
            self._since, self._until = time, time + 1
            self._is_open, self._is_over = False, True
            return
        self._since, self._until = self._spans.same(spans)
        watermark = self._watermark
        self._is_open = watermark is None or spans[0][1] > watermark
        self._is_over = watermark is not None and spans[-1][1] <= watermark

    def _are_here(self, times: Sequence[Any]) -> bool:
        """Whether all times are in the current place, and its windows have not ended."""
        if None in times:
            return False
        some = cast("Sequence[int]", times)
        self._go_to(some[0])
        return self._is_open and self._since <= min(some) and max(some) < self._until

    def _by_place(self, times: Sequence[int | None]) -> dict[int, list[int]] | None:
        """The positions of times whose windows have not ended, by place.

        None: some windows of a time have ended, others not: its tuple must not overtake the rows.
        """
        found: dict[int, list[int]] = {}
        for i, time in enumerate(times):
            if time is None:
                continue
            self._go_to(time)
            if self._is_open:
                found.setdefault(self._since, []).append(i)
            elif not self._is_over:
                return None
        return found

    # What is kept

    def _combined(self, at: Sequence[int], rows: ChunkRows) -> Sequence[int]:
        """Add tuples that are in the place at hand. Gives the numbers of their rows."""
        numbers = self._numbers.setdefault(self._since, defaultdict(self._new_number))
        if self._aggregates.only_counts:
            found = list(map(numbers.__getitem__, map(rows.keys.__getitem__, at)))
            self._counts.update(found)
            return found
        are_whole = not any(values.has_none for values in rows.columns.values())
        if self._aggregates.takes_groups and are_whole and not (rows.refused or rows.unusual):
            by_number = self._added_at_once(numbers, at, rows)
            if by_number is not None:
                return [by_number[i] for i in at]
        return [self._added(numbers, i, rows) for i in at]

    def _added_at_once(
        self, numbers: dict[Any, int], at: Sequence[int], rows: ChunkRows
    ) -> Mapping[int, int] | None:
        """Add tuples whose fields all have values: the number of the row of each, by position.

        None: each must be added by itself. Nothing has changed.
        """
        ats = rows.by_key(None if len(at) == len(rows.keys) else at)
        known = [numbers.get(key) for key in ats]
        kept = [
            self._aggregates.new()
            if number is None or self._rows[number].nones
            else self._rows[number].kept
            for number in known
        ]
        groups = Groups(rows, [*ats.values()])
        try:
            additions = self._aggregates.added(kept, groups)
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (values that can't be compared)
            return None
        self._aggregates.put(kept, groups, additions)
        found: dict[int, int] = {}
        for (key, some), values, number in zip(ats.items(), kept, known, strict=True):
            if number is None or self._rows[number].nones:
                number = self._new_row(numbers, key, (), values)
            found.update(dict.fromkeys(some, number))
        return found

    def _added(self, numbers: dict[Any, int], i: int, rows: ChunkRows) -> int:
        """Add the tuple at a position. Gives the number of its row."""
        key = rows.keys[i]
        number = numbers.get(key)
        try:
            values = self._aggregates.values(rows.row(i), self._values_at)
            nones = _nones(values)
            if number is not None and self._rows[number].nones != nones:
                number = None
            kept = self._aggregates.new() if number is None else self._rows[number].kept
            self._aggregates.add([kept], values, rows.times[i])  # type: ignore[arg-type]
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's aggregation may raise anything)
            return IN_ORDER
        if number is None:
            number = self._new_row(numbers, key, nones, kept)
        return number

    def _new_row(
        self, numbers: dict[Any, int], key: Any, nones: Sequence[int], kept: list[Any]
    ) -> int:
        number = numbers[key] = self._new_number()
        self._rows.append(_Row(key, self._since, nones, kept))
        return number

    @override
    def take(self) -> Sequence[Sequence[Any]]:
        is_single = len(self._key_at) == 1
        found: list[list[Any]] = [
            [*((row.key,) if is_single else row.key), row.since, *row.kept] for row in self._rows
        ]
        if not found:  # of counts alone
            counts, width = self._counts, len(self._values_at.fields)
            found = [[]] * sum(map(len, self._numbers.values()))
            for since, numbers in self._numbers.items():
                for key, number in numbers.items():
                    kept = [counts[number]] * width
                    found[number] = [*((key,) if is_single else key), since, *kept]
        self._forget()
        return found


class _Row(NamedTuple):
    """Tuples combined into one row.

    Attributes:
        key: A value alone if it is of one field.
        since: The place.
        nones: The aggregates without a value. Rows differ by these: a row must not fail because
            another one has a value of a wrong type.
        kept: What each aggregate keeps.
    """

    key: Any
    since: int
    nones: Sequence[int]
    kept: list[Any]


def _nones(values: Sequence[Any]) -> Sequence[int]:
    if None not in values:
        return ()
    return tuple(i for i, value in enumerate(values) if value is None)


def _has_negative_zero(column: Sequence[Any]) -> bool:
    return any(value == 0 and type(value) is float and copysign(1, value) < 0 for value in column)


def _are_few(keys: Sequence[Any]) -> bool:
    """Whether there are fewer keys than tuples, estimated from the first ones."""
    some = keys[:SAMPLE]
    return 2 * len(set(some)) <= len(some)
