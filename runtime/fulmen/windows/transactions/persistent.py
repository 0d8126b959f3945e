"""Aggregates that are kept in a store, exactly once: Trident's persistentAggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.components import Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.transactions import (
    BatchBolt,
    BatchOutputCollector,
    Committer,
    TransactionAttempt,
)
from fulmen.api.tuples import Tuple
from fulmen.transactional import PostgresMap, RedisMap, SqliteMap
from fulmen.windows.aggregate.kept import Aggregates, Places
from fulmen.windows.aggregations import Aggregation
from fulmen.windows.inputs import key_of
from fulmen.windows.transactions.aggregate import aggregates_of
from fulmen.windows.transactions.options import ATTEMPT, PersistentAggregateOptions
from fulmen.windows.wanted import wanted

MAPS: Mapping[str, Callable[..., Any]] = {
    "sqlite": SqliteMap,
    "postgres": PostgresMap,
    "redis": RedisMap,
}


class PersistentAggregate(BatchBolt, Committer):
    """Counts, sums, least and greatest values by key, in a map: `PersistentAggregateOptions`.

    A transaction's part is aggregated first, so that each key is one row to write. The key of the
    map is the value of the field of `key`, or a list of several. Its value is the result, or an
    object with the results of several aggregates.

    It emits the attempt as `tx`, the fields of `key`, and the new values of `aggregates`.
    """

    config_model = PersistentAggregateOptions
    own: ClassVar[Mapping[str, type[Aggregation]]] = {}
    """None: what a store is to keep is a plain value."""
    options_of_map = ("store", "at", "map")
    """Which map it writes to: `validate` refuses one of two bolts."""

    @override
    def outputs_for(self, options: PersistentAggregateOptions) -> Outputs:
        return (ATTEMPT, *options.key, *options.aggregates)

    @override
    def check_input(
        self, options: PersistentAggregateOptions, stream: Stream
    ) -> Iterable[str | Warning]:
        return aggregates_of(
            options.aggregates, self.own, dict.fromkeys(options.key, "key"), stream
        )

    @override
    def grouping_key(
        self, options: PersistentAggregateOptions, source: tuple[str, str]
    ) -> Sequence[str]:
        return options.key

    @override
    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        options: PersistentAggregateOptions = context.options
        self._options, self._collector, self._attempt = options, collector, attempt
        self._aggregates = Aggregates([wanted(t, self.own) for t in options.aggregates.values()])
        self._groups: dict[tuple[Any, ...], list[Any]] = {}
        self._places: dict[tuple[str, str], Places] = {}
        self._map = MAPS[options.store](
            options.at,
            options.map,
            context,
            rule=options.rule,
            key=options.key_kind,
            value=options.value_type,
        )

    @override
    def execute(self, tup: Tuple) -> None:
        where = tup.component, tup.stream
        places = self._places.get(where)
        if places is None:
            places = self._places[where] = self._aggregates.places(tup.fields)
        values = self._aggregates.values(tup.values, places)
        key = key_of(tup, self._options.key)
        if (kept := self._groups.get(key)) is None:
            kept = self._groups[key] = self._aggregates.new()
        self._aggregates.add([kept], values, 0)

    @override
    def finish_batch(self) -> None:
        is_one = len(self._options.key) == 1
        partials = {key[0] if is_one else key: kept for key, kept in self._groups.items()}
        names = [*self._options.aggregates]
        for key, value in self._map.update(self._attempt, partials, self._combined).items():
            of_key = [key] if is_one else key
            results = [value] if len(names) == 1 else [value[name] for name in names]
            self._collector.emit([self._attempt, *of_key, *results])

    def _combined(self, old: Any, partial: Sequence[Any]) -> Any:
        """The value of a key after a transaction."""
        names = [*self._options.aggregates]
        if old is not None:
            none = dict(zip(names, self._aggregates.new(), strict=True))
            before = [old] if len(names) == 1 else [*(none | old).values()]  # it may have fewer
            partial = self._aggregates.merged(before, partial)
        results = self._aggregates.results(partial)
        return results[0] if len(names) == 1 else dict(zip(names, results, strict=True))
