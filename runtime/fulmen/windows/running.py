"""Aggregates of all tuples of a key so far, without windows and without event time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator, Field
from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import Outputs
from fulmen.api.components.many import ManyBolt, ManyCollector, Tuples
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import RETRACTION
from fulmen.api.tuples import Tuple
from fulmen.connectors.options import Options
from fulmen.errors import PASSED_ON
from fulmen.windows.aggregate.adding.aggregates import Aggregates
from fulmen.windows.aggregate.adding.chunk_rows import Places
from fulmen.windows.aggregate.adding.filtered import FilteredFields, with_fields
from fulmen.windows.functions.aggregations import Aggregation
from fulmen.windows.functions.retractable import retractable, retracted_inputs
from fulmen.windows.functions.wanted import result_types, wanted
from fulmen.windows.inputs import aggregated_fields, check_kept, check_key, is_retraction
from fulmen.windows.options import Aggregated, Name, rejoined


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
    retract: bool = False
    """Before the row of a key is emitted once more, it is emitted again as it was, with the field
    `is_retraction`. Of a key that has no rows any more, that is all. Default: each row takes the
    place of the one before, and there is no such field."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are emitted."""
        return (*self.key, *self.aggregates, *((RETRACTION,) if self.retract else ()))

    def kept_as(self) -> dict[str, str]:
        """The options that must not change while there are totals: option -> value."""
        aggregates = ", ".join(self.aggregates.values())
        return {"key": ", ".join(self.key) or "nothing", "aggregates": aggregates}


class _Source(NamedTuple):
    """Where what is in the tuples of a stream.

    Attributes:
        key_of: Takes the key out of a row: a value, or a tuple of several.
        values_at: The values for each aggregate.
        filtered: Gives the values of aggregates with a condition; None: there are none.
        retraction_at: Where it is said that a row takes back an earlier one; None: no row does.
    """

    key_of: Callable[[Sequence[Any]], Any]
    values_at: Places
    filtered: FilteredFields | None
    retraction_at: int | None


class RunningAggregate(ManyBolt):
    """Counts, sums and more of all tuples of a key so far, in the order in which they come.

    It emits the values of `key` and each of `aggregates` for each tuple, anchored to it. An input
    with `is_retraction` takes earlier rows back. With `retract` the row before is taken back, too.
    """

    config_model = RunningOptions
    emits_results = True  # a tuple that comes again would count twice
    takes_filters: ClassVar[bool] = True
    own: ClassVar[Mapping[str, type[Aggregation]]] = {}
    """More aggregations than the built-in ones, as of an `Aggregate`."""
    kept_for: Mapping[str, str] = MappingProxyType({})
    """The options for which the totals in the state were kept."""
    transient: ClassVar[Sequence[str]] = (
        "_options", "_context", "_wanted", "_all", "_may_have_none", "_sources"
    )  # fmt: skip

    @override
    def outputs_for(self, options: RunningOptions) -> Outputs:
        types = result_types(options.aggregates, self.own)
        return Stream(options.names, types=types, parts=[frozenset([n]) for n in options.key])

    @override
    def check_input(self, options: RunningOptions, stream: Stream) -> Iterable[str | Warning]:
        needed = dict.fromkeys(options.key, "key")
        return list(aggregated_fields(options.aggregates, self.own, needed, stream))

    @override
    def check_inputs(
        self, options: RunningOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterable[str | Warning]:
        return list(retracted_inputs(options.aggregates, self.own, inputs))

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
        takes_back = any(RETRACTION in stream.fields for stream in context.inputs.values())
        if takes_back:
            self._wanted = retractable(self._wanted, is_timed=False)
        self._note_what_is_kept(takes_back=takes_back)
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
                changed = self._added(row, source)
                rows += changed
                parents += [i] * len(changed)
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
            for changed in self._added(tup.values, self._source_of(tup)):
                collector.emit(changed)

    def _note_what_is_kept(self, *, takes_back: bool) -> None:
        """Refuse totals of something else, which would be taken for these.

        Raises:
            FulmenError: There are such totals.
        """
        now = self._options.kept_as()
        now[RETRACTION] = "a field of the input" if takes_back else "no field of the input"
        if self.state:
            check_kept("totals", self.kept_for, now)
        self.kept_for = now

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
            fields.index(RETRACTION) if RETRACTION in fields else None,
        )

    def _added(self, row: Sequence[Any], source: _Source) -> list[list[Any]]:
        """Add a row to what is kept of its key. State: key -> how many rows, and what is kept.

        Returns:
            The rows to emit.

        Raises:
            FailedException: It can't be added. Nothing has changed.
        """
        key = source.key_of(row)
        parts = (key,) if len(self._options.key) == 1 else key
        check_key(parts)
        at = source.retraction_at
        change = -1 if at is not None and is_retraction(row[at]) else 1
        if source.filtered is not None:
            row = [*row, *source.filtered.of(row)]
        values = self._all.values(row, source.values_at)
        count, kept = self.state.get(key) or (0, self._all.new())
        kept = copy.deepcopy(kept) if self._may_have_none else list(kept)
        emitted: list[list[Any]] = []
        if self._options.retract and count > 0:
            emitted.append([*parts, *self._all.results(kept), True])
        self._all.add([kept], values, count)  # the order of rows stands for their times
        results = self._all.results(kept)  # of an author's it may raise
        count += change
        if count or kept != self._all.new():
            self.state[key] = count, kept
        else:
            self.state.pop(key, None)
        if not self._options.retract:
            return [[*parts, *results]]
        if count > 0:
            emitted.append([*parts, *results, False])
        return emitted
