"""Aggregates of what a transaction brings, or of windows over several transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from fulmen.api.collector import Values
from fulmen.api.components import Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import milliseconds
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.api.tuples import Tuple
from fulmen.errors import repr_of
from fulmen.windows.aggregate.adding.aggregates import Aggregates
from fulmen.windows.functions.wanted import result_types
from fulmen.windows.inputs import (
    LATE,
    NoEdgesError,
    late_counter,
    spans_of,
    time_of,
)
from fulmen.windows.options import CountWindow
from fulmen.windows.spans import Span, datetime_of
from fulmen.windows.transactions.grouped import ERRORS, GroupedBolt, Key, row_of
from fulmen.windows.transactions.options import (
    ATTEMPT,
    TransactionAggregateOptions,
    TransactionWindow,
)

Kept = list[Any]
State = MutableMapping[Any, Any]
LATE_FIELDS = (ATTEMPT, "values", "time")
WINDOW = "window"
"""Begins the keys of windows in the state; then comes the tuple of their key's values."""
NEWEST, FIRST = "newest", "first"
"""Keys of the state for all windows of a task: the newest time that was seen, negated, and the
first end of a window. Of those of several tasks the least counts, see `StatefulBolt.state_part`."""


class AggregatedTuple(NamedTuple):
    """The parts of a tuple that are needed.

    Attributes:
        key: The key.
        values: The value for each aggregate.
        time: The event time; 0 without one.
    """

    key: Key
    values: Sequence[Any]
    time: int = 0


class TransactionWindows(ABC):
    """Tuples that are aggregated together."""

    def __init__(
        self,
        options: TransactionAggregateOptions,
        aggregates: Aggregates,
        state: State,
        attempt: TransactionAttempt,
    ) -> None:
        self._options, self._aggregates = options, aggregates
        self._state, self._attempt = state, attempt

    @abstractmethod
    def add(self, row: AggregatedTuple) -> bool:
        """Add a tuple. False: it came too late."""

    @abstractmethod
    def end(self) -> Iterator[Values]:
        """The transaction has no more. Gives what is to be emitted, without the attempt."""

    def _add_to(self, groups: MutableMapping[Any, Kept], place: Any, row: AggregatedTuple) -> None:
        kept = groups.get(place)
        if kept is None:
            kept = self._aggregates.new()
        self._aggregates.add([kept], row.values, row.time)
        groups[place] = kept

    def _rows(self, groups: Mapping[Key, Kept]) -> Iterator[Values]:
        for key, kept in groups.items():
            yield [*key, *self._aggregates.results(kept)]


class OneTransaction(TransactionWindows):
    """The tuples of one transaction. Nothing is kept."""

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self._groups: dict[Key, Kept] = {}

    @override
    def add(self, row: AggregatedTuple) -> bool:
        self._add_to(self._groups, row.key, row)
        return True

    @override
    def end(self) -> Iterator[Values]:
        yield from self._rows(self._groups)


class SomeTransactions(OneTransaction):
    """The tuples of so many transactions.

    State: (`WINDOW`, key) -> (number of the open window, what is kept).

    The last transaction of a window may be given up: then the next one finds the window open. All
    tasks have the same one, so a key may go to another task meanwhile.
    """

    @override
    def end(self) -> Iterator[Values]:
        assert isinstance(self._options.window, TransactionWindow)
        size, txid = self._options.window.size, self._attempt.txid
        window = (txid - 1) // size
        if next((number for number, _ in self._state.values()), window) != window:
            yield from self._ended()
        for key, kept in self._groups.items():
            before = self._state.get((WINDOW, key))
            both = kept if before is None else self._aggregates.merged(before[1], kept)
            self._state[WINDOW, key] = window, both
        if txid % size == 0:
            yield from self._ended()

    def _ended(self) -> Iterator[Values]:
        yield from self._rows({key: kept for (_, key), (_, kept) in self._state.items()})
        self._state.clear()


class SomeTuples(TransactionWindows):
    """So many tuples of a key.

    State: (`WINDOW`, key) -> (how many there are, what is kept of them).

    Order of arrival must not decide which tuples of a transaction are in a window: another attempt
    may have them in another order. So they are sorted.
    """

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self._by_key: dict[Key, list[AggregatedTuple]] = {}

    @override
    def add(self, row: AggregatedTuple) -> bool:
        self._by_key.setdefault(row.key, []).append(row)
        return True

    @override
    def end(self) -> Iterator[Values]:
        assert isinstance(self._options.window, CountWindow)
        size = self._options.window.size
        for key, rows in self._by_key.items():
            count, kept = self._state.pop((WINDOW, key), None) or (0, self._aggregates.new())
            for row in sorted(rows, key=lambda row: (row.time, repr_of(row.values))):
                self._aggregates.add([kept], row.values, row.time)
                count += 1
                if count == size:
                    yield [*key, *self._aggregates.results(kept)]
                    count, kept = 0, self._aggregates.new()
            if count:
                self._state[WINDOW, key] = (count, kept)


class Timed(TransactionWindows):
    """Windows of event time. State: (`WINDOW`, key, end, start) -> what is kept; `NEWEST`; `FIRST`.

    A window ends with the transaction in which this task has seen a time behind its end: it goes by
    what transactions bring, and by no clock. What is late is decided by what was seen before the
    transaction. A task that has taken over from others has seen what any of them has.
    """

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        assert self._options.window is not None
        self._spans = self._options.window.spans()  # type: ignore[union-attr]
        self._delay = milliseconds(self._options.max_delay)
        newest = self._state.get(NEWEST)
        self._newest = None if newest is None else -newest
        self._first = self._state.get(FIRST)
        self._least = None if self._newest is None else self._newest - self._delay

    @override
    def add(self, row: AggregatedTuple) -> bool:
        open_ = [span for span in spans_of(self._spans, row.time) if not self._has_ended(span)]
        for start, end in open_:
            self._add_to(self._state, (WINDOW, row.key, end, start), row)
            self._first = end if self._first is None else min(end, self._first)
        if self._newest is None or row.time > self._newest:
            self._newest = row.time
        return bool(open_)

    def _has_ended(self, span: Span) -> bool:
        return self._least is not None and span[1] <= self._least

    @override
    def end(self) -> Iterator[Values]:
        if self._newest is None:
            return
        until = self._newest - self._delay
        if self._first is not None and self._first <= until:
            yield from self._ended(until)
        self._keep(NEWEST, -self._newest)
        self._keep(FIRST, self._first)

    def _keep(self, name: str, value: int | None) -> None:
        if value is None:
            self._state.pop(name, None)
        elif self._state.get(name) != value:
            self._state[name] = value

    def _ended(self, until: int) -> Iterator[Values]:
        """Emit the windows that end until then, the earliest first."""
        places = [place for place in self._state if place not in (NEWEST, FIRST)]
        ended = sorted((place for place in places if place[2] <= until), key=lambda one: one[2:])
        for place in ended:
            _, key, end, start = place
            results = self._aggregates.results(self._state.pop(place))
            yield [*key, datetime_of(start), datetime_of(end), *results]
        self._first = min((end for _, _, end, _ in places if end > until), default=None)


class TransactionAggregate(GroupedBolt):
    """Counts, sums and more of what transactions bring, by key: `TransactionAggregateOptions`.

    It emits, on the stream `default`, the attempt as `tx`, the values of `key`, of windows by time
    `window_start` and `window_end` (both in UTC), and each of `aggregates`. Without `window`, a row
    for each key of a transaction. With one, when the window is full or has ended: what is open is
    kept in `self.state`.

    What comes too late for its windows is on the stream `late`; what can't be aggregated, on
    `errors`.
    """

    config_model = TransactionAggregateOptions
    state_part = "rows"

    @override
    def outputs_for(self, options: TransactionAggregateOptions) -> Outputs:
        types = dict.fromkeys(options.fixed, "timestamp")
        types |= result_types(options.aggregates, self.own)
        names = (ATTEMPT, *options.key, *options.fixed, *options.aggregates)
        late = {LATE: LATE_FIELDS} if options.has_times else {}
        return {"default": Stream(names, types=types), **late, **ERRORS}

    def keeps_state(self, options: TransactionAggregateOptions | None) -> bool:
        """Whether later transactions depend on earlier ones."""
        return options is not None and options.window is not None

    @override
    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        super().prepare(conf, context, collector, attempt)
        self._reader = self._options.reader()
        self._windows = self._windows_for(self._options.window)
        if self._options.has_times:
            self._late = late_counter(context)

    def _windows_for(self, window: Any) -> TransactionWindows:
        kind: type[TransactionWindows] = Timed
        if window is None:
            kind = OneTransaction
        elif isinstance(window, TransactionWindow):
            kind = SomeTransactions
        elif isinstance(window, CountWindow):
            kind = SomeTuples
        return kind(self._options, self._aggregates, self.state, self._attempt)

    @override
    def _add(self, key: Key, values: Sequence[Any], tup: Tuple) -> None:
        field = self._options.time
        try:
            time = 0 if field is None else time_of(tup, field, self._reader)
            if self._windows.add(AggregatedTuple(key, values, time)):
                return
            at = datetime_of(time)
        except NoEdgesError:
            at = None
        self._late.inc()
        self._collector.emit([self._attempt, row_of(tup), at], LATE)

    @override
    def finish_batch(self) -> None:
        for row in self._windows.end():
            self._collector.emit([self._attempt, *row])
