"""Aggregates that are kept in a store, exactly once: Trident's persistentAggregate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api.components import FailedException, Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.transactions import (
    BatchOutputCollector,
    Committer,
    TransactionAttempt,
)
from fulmen.api.tuples import Tuple
from fulmen.transactional import PostgresMap, RedisMap, SqliteMap, StoreRefused
from fulmen.windows.transactions.grouped import ERRORS, GroupedBolt, Key
from fulmen.windows.transactions.options import ATTEMPT, PersistentAggregateOptions

MAPS: Mapping[str, Callable[..., Any]] = {
    "sqlite": SqliteMap,
    "postgres": PostgresMap,
    "redis": RedisMap,
}


class PersistentAggregate(GroupedBolt, Committer):
    """Counts, sums, least and greatest values by key, in a map: `PersistentAggregateOptions`.

    A transaction's part is aggregated first, so that each key is one row to write. The key of the
    map is the value of the field of `key`, or a list of several. Its value is the result, or an
    object with the results of several aggregates.

    It emits the attempt as `tx`, the fields of `key`, and the new values of `aggregates`. Rows with
    a key that the map can't take, and those that can't be aggregated, are on the stream `errors`.
    """

    config_model = PersistentAggregateOptions
    options_of_map = ("store", "at", "map")
    """The options that name the map it writes to: `validate` refuses two bolts with one map."""

    @override
    def outputs_for(self, options: PersistentAggregateOptions) -> Outputs:
        return {"default": (ATTEMPT, *options.key, *options.aggregates), **ERRORS}

    @override
    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        super().prepare(conf, context, collector, attempt)
        options: PersistentAggregateOptions = context.options
        self._groups: dict[Key, list[Any]] = {}
        self._keys: dict[Any, Key] = {}
        self._map = MAPS[options.store](
            options.at,
            options.map,
            context,
            rule=options.rule,
            key=options.key_kind,
            value=options.value_type,
        )

    @override
    def _add(self, key: Key, values: Sequence[Any], tup: Tuple) -> None:
        kept = self._groups.get(key)
        if kept is None:
            kept = self._new(key)
        self._aggregates.add([kept], values, 0)

    def _new(self, key: Key) -> list[Any]:
        """The values to keep of a key that is new, as are keys that the map takes as equal.

        Raises:
            FailedException: The map takes no such key.
        """
        try:
            stored = self._map.stored_key(self._of_map(key))
        except StoreRefused as error:
            raise FailedException(str(error)) from None
        first = self._keys.setdefault(stored, key)
        kept = self._groups.get(first)
        self._groups[key] = found = self._aggregates.new() if kept is None else kept
        return found

    def _of_map(self, key: Key) -> Any:
        return key[0] if len(key) == 1 else key

    @override
    def finish_batch(self) -> None:
        is_one = len(self._options.key) == 1
        partials = {self._of_map(key): self._groups[key] for key in self._keys.values()}
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
