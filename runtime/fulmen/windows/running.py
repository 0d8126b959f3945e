"""Aggregates of all tuples of a key so far, without windows and without event time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator, Field
from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.many import ManyBolt, ManyCollector, Tuples
from fulmen.api.tuples import Tuple
from fulmen.connectors.options import Options
from fulmen.errors import PASSED_ON
from fulmen.windows.aggregate.adding.aggregates import Aggregates
from fulmen.windows.aggregate.adding.chunk_rows import Places
from fulmen.windows.aggregate.adding.filtered import FilteredFields, with_fields
from fulmen.windows.aggregate_functions import Aggregation
from fulmen.windows.inputs import aggregated_fields, check_key
from fulmen.windows.options import Aggregated, Name, rejoined
from fulmen.windows.wanted_aggregates import result_types, wanted


class RunningOptions(Options):
    """The `config` of a `RunningAggregate`."""

    key: tuple[Name, ...] = ()
    """The fields whose values have aggregates of their own. The input must be grouped by them.
    None: one row of aggregates for all that a task receives."""
    aggregates: Annotated[
        dict[Name, Aggregated],
        BeforeValidator(rejoined),
        Field(min_length=1),
    ]
    """The name of each result, and what it is: `count`, `sum(amount)`, as of an `Aggregate`."""


class _Source(NamedTuple):
    """Where what is in the tuples of a stream.

    Attributes:
        key_of: Takes the key out of a row: a value, or a tuple of several.
        values_at: The values for each aggregate.
        filtered: Gives the values of aggregates with a condition; None: there are none.
    """

    key_of: Callable[[Sequence[Any]], Any]
    values_at: Places
    filtered: FilteredFields | None


class RunningAggregate(ManyBolt):
    """Counts, sums and more of all tuples of a key so far, in the order in which they come.

    It emits the values of `key` and each of `aggregates` for each tuple, anchored to it.
    """

    config_model = RunningOptions
    emits_results = True  # a tuple that comes again would count twice
    takes_filters: ClassVar[bool] = True
    own: ClassVar[Mapping[str, type[Aggregation]]] = {}
    """More aggregations than the built-in ones, as of an `Aggregate`."""
    transient: ClassVar[Sequence[str]] = (
        "_options", "_context", "_wanted", "_all", "_may_have_none", "_sources"
    )  # fmt: skip

    @override
    def outputs_for(self, options: RunningOptions) -> Outputs:
        types = result_types(options.aggregates, self.own)
        return Stream((*options.key, *options.aggregates), types=types)

    @override
    def check_input(self, options: RunningOptions, stream: Stream) -> Iterable[str | Warning]:
        needed = dict.fromkeys(options.key, "key")
        return list(aggregated_fields(options.aggregates, self.own, needed, stream))

    @override
    def grouping_key(self, options: RunningOptions, source: tuple[str, str]) -> Sequence[str]:
        return options.key

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self._options: RunningOptions = context.options
        self._context = context
        self._wanted = [
            (text, wanted(text, self.own)) for text in self._options.aggregates.values()
        ]
        self._all = Aggregates(with_fields(self._wanted))
        kinds = {type(one.aggregation) for _, one in self._wanted}
        self._may_have_none = not kinds.isdisjoint(self.own.values())
        self._sources: dict[tuple[str, str], _Source] = {}

    @override
    def execute_many(self, tuples: Tuples, collector: ManyCollector) -> Sequence[int]:
        source = self._source_of(tuples)
        rows, parents, wrong = [], [], []
        for i, row in enumerate(tuples):
            try:
                rows.append(self._added(row, source))
                parents.append(i)
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (also of an author's aggregation)
                wrong.append(i)
        collector.emit_many(rows, parents=parents)
        return wrong

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Add a tuple that could not be added among others: it raises what is wrong."""
        if not tup.is_tick():
            collector.emit(self._added(tup.values, self._source_of(tup)))

    def _source_of(self, tuples: Tuples | Tuple) -> _Source:
        where = tuples.component, tuples.stream
        if where not in self._sources:
            self._sources[where] = self._source(tuple(tuples.fields), *where)
        return self._sources[where]

    def _source(self, fields: tuple[str, ...], component: str, stream: str) -> _Source:
        key, filtered = self._options.key, None
        if any(one.condition is not None for _, one in self._wanted):
            filtered = FilteredFields(self._wanted, self._context.input(component, stream))
        return _Source(
            itemgetter(*map(fields.index, key)) if key else lambda _: (),
            self._all.places(fields if filtered is None else (*fields, *filtered.names)),
            filtered,
        )

    def _added(self, row: Sequence[Any], source: _Source) -> list[Any]:
        """Add a row to what is kept of its key. State: key -> how many rows, and what is kept.

        Raises:
            FailedException: It can't be added. Nothing has changed.
        """
        key = source.key_of(row)
        parts = (key,) if len(self._options.key) == 1 else key
        check_key(parts)
        if source.filtered is not None:
            row = [*row, *source.filtered.of(row)]
        values = self._all.values(row, source.values_at)
        count, kept = self.state.get(key) or (0, self._all.new())
        kept = copy.deepcopy(kept) if self._may_have_none else list(kept)
        self._all.add([kept], values, count)  # the order of rows stands for their times
        results = self._all.results(kept)  # of an author's it may raise
        self.state[key] = count + 1, kept
        return [*parts, *results]
