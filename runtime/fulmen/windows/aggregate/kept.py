"""What all types of windows have in common: what is kept of a window, and how it is emitted."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fulmen.api.arrow_times import ColumnTimes, Numbers
from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.event_time import milliseconds
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.adder import Adder
from fulmen.windows.aggregate.by_columns import adder_for, pairs_for
from fulmen.windows.columns import InWindows, Keys, in_windows
from fulmen.windows.inputs import LATE, Lateness, late_counter
from fulmen.windows.options import AggregateOptions
from fulmen.windows.spans import Span, Spans, datetime_of
from fulmen.windows.wanted import WantedAggregate

if TYPE_CHECKING:
    import pyarrow as pa

EARLY = "early"
"""Begins the keys of timers for what is emitted before a window ends."""
EARLY_PANE, ON_TIME_PANE, LATE_PANE = "early", "on_time", "late"
Key = tuple[Any, ...]
Shown = tuple[Span, list[Any], str, int]
"""How a window was emitted: start and end, the results, the pane, and which one it was."""


class Places(NamedTuple):
    """Where the values for each aggregate are in the tuples of a stream.

    Attributes:
        fields: One for each aggregate; -1: it needs none.
        bys: Where the second field is: of each aggregate that has one, with its number.
    """

    fields: Sequence[int]
    bys: Sequence[tuple[int, int]]

    @property
    def all(self) -> set[int]:
        """All that are needed."""
        return {*self.fields, *(at for _, at in self.bys)} - {-1}


class Aggregates:
    """The aggregates of a bolt, all of which get each tuple."""

    def __init__(self, wanted: Sequence[WantedAggregate]) -> None:
        self._all = [one.aggregation for one in wanted]
        self._fields = [one.field for one in wanted]
        self._bys = [(i, one.by) for i, one in enumerate(wanted) if one.by is not None]
        self._checks = [one.check for one in self._all]
        order = sorted(range(len(wanted)), key=lambda i: self._all[i].in_place)
        self._order = [(i, self._all[i].add) for i in order]  # what may raise comes first
        self._absorbs = [(i, self._all[i].absorb) for i in order]
        self.only_counts = all(field is None for field in self._fields)
        """Whether each of them only counts tuples, and keeps a number."""

    def adders(
        self, columns: Mapping[int, pa.Array], places: Places, times: Numbers
    ) -> list[Adder] | None:
        """What adds rows to each of them; None: each row has to be dealt with by itself."""
        found: list[Adder] = []
        bys = dict(places.bys)
        for i, (one, place) in enumerate(zip(self._all, places.fields, strict=True)):
            column = None if place < 0 else columns[place]
            if i in bys:
                adder = pairs_for(one, column, columns[bys[i]], times)
            else:
                adder = adder_for(one, column, times)
            if adder is None:
                return None
            found.append(adder)
        return found

    def new(self) -> list[Any]:
        """What is kept of no tuple."""
        return [one.init() for one in self._all]

    def places(self, fields: Sequence[str]) -> Places:
        """Where the values of a stream's tuples are."""
        places = [-1 if field is None else fields.index(field) for field in self._fields]
        return Places(places, [(i, fields.index(by)) for i, by in self._bys])

    def values(self, row: Sequence[Any], places: Places) -> list[Any]:
        """The value of a tuple for each aggregate; all of them can be added.

        Args:
            row: The tuple's values.
            places: What `places` says of its stream.

        Raises:
            FailedException: One can't be added.
        """
        found: list[Any] = []
        for i, (check, place) in enumerate(zip(self._checks, places.fields, strict=True)):
            value = 1 if place < 0 else row[place]
            if place >= 0 and value is not None and (wrong := check(value)) is not None:
                raise FailedException(f"its field {self._fields[i]!r}: {wrong}")
            found.append(value)
        for i, at in places.bys:
            found[i] = None if row[at] is None else (found[i], row[at])
        return found

    def add(self, windows: Sequence[list[Any]], values: Sequence[Any], time: int) -> None:
        """Add the values of a tuple to what is kept. If this raises, nothing has changed.

        Args:
            windows: What is kept of each window; what is behind its aggregates is left alone.
            values: One for each aggregate.
            time: The event time.
        """
        added = [list(kept) for kept in windows]
        for i, add in self._order:
            value = values[i]
            if value is not None:
                for kept in added:
                    kept[i] = add(kept[i], value, time)
        for kept, new in zip(windows, added, strict=True):
            kept[:] = new

    def absorb(self, windows: Sequence[list[Any]], other: Sequence[Any]) -> None:
        """Add what is kept of some tuples to each of some windows. As `add` does."""
        added = [list(kept) for kept in windows]
        for i, absorb in self._absorbs:
            for kept in added:
                more = other[i] if len(added) == 1 else copy.deepcopy(other[i])
                kept[i] = absorb(kept[i], more)
        for kept, new in zip(windows, added, strict=True):
            kept[:] = new

    def merged(self, one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        """What is kept of two windows that have become one."""
        return [
            aggregation.merge(before, after)
            for aggregation, before, after in zip(self._all, one, other, strict=False)
        ]

    def results(self, kept: Iterable[Any]) -> list[Any]:
        """The result of each aggregate."""
        return [one.result(value) for one, value in zip(self._all, kept, strict=False)]


class ColumnRows(NamedTuple):
    """Rows by their columns.

    Attributes:
        columns: The values for aggregates, by where they are.
        keys: Their keys.
        times: Their event times.
        values_at: Where the values for each aggregate are.
    """

    columns: Mapping[int, pa.Array]
    keys: Keys
    times: ColumnTimes
    values_at: Places


class Windows(ABC):
    """The windows of one task: the part that all types have in common.

    Attributes:
        state: The bolt's keyed state.
    """

    def __init__(
        self,
        state: MutableMapping[Any, Any],
        options: AggregateOptions,
        context: TopologyContext,
        aggregates: Aggregates,
        has_times: bool,
        takes: Lateness,
    ) -> None:
        """`has_times`: whether windows have a start and an end."""
        self.state = state
        self._options, self._context, self._aggregates = options, context, aggregates
        self._timers = context.timers
        self._has_times, self._has_panes = has_times, options.has_panes
        self._takes, self._lateness = takes, takes.length
        self._is_final = options.emit == "final"
        self._wait = self._lateness if self._is_final else 0
        """How long after its end a window is emitted."""
        self._retracts = options.retract
        self._early = milliseconds(options.emit_every) / 1000 if options.emit_every else None
        self._late = late_counter(context)
        self._when: tuple[Span | None, tuple[Any, Any]] = None, (None, None)

    @abstractmethod
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        """Add a tuple.

        Args:
            key: Its key.
            time: Its event time.
            values: Its value for each aggregate.
            tup: Itself.
            collector: Takes what is emitted for it.
        """

    def merge(self, key: Key, time: int, other: Sequence[Any]) -> None:  # noqa: ARG002 (for those below)
        """Add what is kept of tuples that were aggregated before they came: see `partial`.

        Args:
            key: Their key.
            time: One that is in the same windows as theirs.
            other: What each aggregate keeps of them.

        Raises:
            FailedException: A window has ended, so each of them must be dealt with by itself.
        """
        raise FailedException("its windows are of another type by now")

    def add_columns(self, rows: ColumnRows) -> Sequence[int] | None:  # noqa: ARG002 (for those below)
        """Add rows by their columns.

        Returns:
            The positions of those that `add` must be called for; None: all.
        """
        return None

    def in_windows(self, rows: ColumnRows, spans: Spans) -> InWindows | None:
        """The windows that rows are in; None: each row has to be dealt with by itself."""
        return in_windows(rows.times, rows.keys, spans, self.is_past, self._lateness)

    @abstractmethod
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        """A timer is due."""

    @abstractmethod
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        """Emit what has not ended, and was not emitted as it is.

        Args:
            place: What the timer of its end is for.
            collector: Takes it.
        """

    def end_batch(self) -> None:
        """What has changed is in `state` afterwards. Default: it is already."""

    def is_past(self, time: int) -> bool:
        """Whether the watermark has come to a time."""
        watermark = self._context.batch.watermark
        return watermark is not None and time <= watermark

    def too_late(
        self, tup: Tuple, time: int | None, span: Span | None, collector: BasicOutputCollector
    ) -> None:
        """Emit a tuple on the stream of what is late, with its time and window, if it has them."""
        self._late.inc()
        edges = (None, None) if span is None else (datetime_of(span[0]), datetime_of(span[1]))
        at = None if time is None else datetime_of(time)
        collector.emit([tup.as_dict(), at, *edges], LATE)

    def emit_pane(
        self, key: Key, now: Shown, before: Iterable[Shown], collector: BasicOutputCollector
    ) -> Sequence[Shown]:
        """Emit a window that may be emitted several times.

        Args:
            key: Its key.
            now: How it is emitted.
            before: How it was emitted last. Sessions that have become one have several rows.
            collector: Takes it.

        Returns:
            What is to be taken back when it is emitted again.
        """
        rows: list[tuple[Shown, tuple[bool, ...]]] = [(now, ())]
        if self._retracts:
            rows = [*((one, (True,)) for one in before), (now, (False,))]
        for (span, results, *pane), more in rows:
            collector.emit([*key, *self.when(span), *results, *pane, *more])
        return (copy.deepcopy(now),) if self._retracts else ()  # others may change what they gave

    def emit_later(self, place: Any) -> None:
        """Have something emitted before its end, if that is wanted and not due already."""
        if self._early is not None and self._timers.get((EARLY, place)) is None:
            self._timers.set_after((EARLY, place), self._early)

    def when(self, span: Span) -> tuple[Any, Any]:
        """Start and end of a window as they are emitted: the same objects for all its keys.

        An object that comes again costs next to nothing where rows are pickled.
        """
        if not self._has_times:
            return None, None
        if span != self._when[0]:
            self._when = span, (datetime_of(span[0]), datetime_of(span[1]))
        return self._when[1]
