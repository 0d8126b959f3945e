"""The base of bolts of transactional topologies with aggregates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.components import FailedException
from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.transactions import BatchBolt, BatchOutputCollector, TransactionAttempt
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.adding.aggregates import Aggregates
from fulmen.windows.aggregate.adding.chunk_rows import Places
from fulmen.windows.functions.aggregations import Aggregation
from fulmen.windows.functions.wanted import wanted
from fulmen.windows.inputs import aggregated_fields, key_of, taken_back
from fulmen.windows.transactions.options import GroupedOptions

Key = tuple[Any, ...]
ERRORS = {ERRORS_STREAM: ("tx", "row", "reason")}


class GroupedBolt(BatchBolt):
    """Aggregates by key. A row that can't be is on the stream `errors`, and the others count.

    If it failed its transaction, that would fail again and again: it comes with the same rows.
    """

    own: ClassVar[Mapping[str, type[Aggregation]]] = {}
    """Aggregations of a derived class, by the names that `aggregates` calls them."""

    @override
    def check_input(self, options: GroupedOptions, stream: Stream) -> Iterable[str | Warning]:
        needed = dict.fromkeys(options.key, "key")
        if (time := getattr(options, "time", None)) is not None:
            needed[time] = "time"
        return list(aggregated_fields(options.aggregates, self.own, needed, stream))

    @override
    def check_inputs(
        self,
        options: GroupedOptions,
        inputs: Mapping[tuple[str, str], Stream],
    ) -> Iterable[str | Warning]:
        return list(taken_back(inputs))

    @override
    def grouping_key(self, options: GroupedOptions, source: tuple[str, str]) -> Sequence[str]:
        return options.key

    @override
    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self._options, self._collector, self._attempt = context.options, collector, attempt
        texts = self._options.aggregates.values()
        self._aggregates = Aggregates([wanted(text, self.own) for text in texts])
        self._places: dict[tuple[str, str], Places] = {}

    @override
    def execute(self, tup: Tuple) -> None:
        where = tup.component, tup.stream
        places = self._places.get(where)
        if places is None:
            places = self._places[where] = self._aggregates.places(tup.fields)
        try:
            values = self._aggregates.values(tup.values, places)
            self._add(key_of(tup, self._options.key), values, tup)
        except FailedException as error:
            self._collector.emit([self._attempt, row_of(tup), str(error)], ERRORS_STREAM)

    @abstractmethod
    def _add(self, key: Key, values: Sequence[Any], tup: Tuple) -> None:
        """Add the values of a tuple.

        Raises:
            FailedException: A value can't be added; nothing has changed.
        """


def row_of(tup: Tuple) -> dict[str, Any]:
    """The fields of a tuple without the attempt."""
    return {name: tup[name] for name in tup.fields[1:]}
