"""Leaves out tuples whose id came in one of the last transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api.components import Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.transactions import BatchBolt, BatchOutputCollector, TransactionAttempt
from fulmen.api.tuples import Tuple
from fulmen.windows.inputs import key_of, missing_fields, taken_back
from fulmen.windows.transactions.options import ATTEMPT, TransactionDeduplicateOptions

ID = "id"


class TransactionDeduplicate(BatchBolt):
    """Passes on the first tuple of each id in some transactions: `TransactionDeduplicateOptions`.

    It emits the attempt as `tx`, and `fields`.
    """

    # State: (ID, id) -> the txid that has brought it; txid -> the keys of the ids it has brought.

    config_model = TransactionDeduplicateOptions
    state_part = "rows"

    @override
    def outputs_for(self, options: TransactionDeduplicateOptions) -> Outputs:
        return (ATTEMPT, *options.fields)

    @override
    def check_input(
        self, options: TransactionDeduplicateOptions, stream: Stream
    ) -> Iterable[str | Warning]:
        needed = dict.fromkeys(options.id, "id")
        for field in options.fields:
            needed.setdefault(field, "fields")
        return list(missing_fields(needed, stream))

    @override
    def check_inputs(
        self,
        options: TransactionDeduplicateOptions,
        inputs: Mapping[tuple[str, str], Stream],
    ) -> Iterable[str | Warning]:
        return list(taken_back(inputs))

    @override
    def grouping_key(
        self, options: TransactionDeduplicateOptions, source: tuple[str, str]
    ) -> Sequence[str]:
        return options.id

    def keeps_state(self, options: TransactionDeduplicateOptions | None) -> bool:  # noqa: ARG002 (as of others)
        """Whether later transactions depend on earlier ones."""
        return True

    @override
    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self._options: TransactionDeduplicateOptions = context.options
        self._collector, self._attempt = collector, attempt
        self._duplicates = context.counter("duplicates", "Tuples that were left out.")
        self._new: list[tuple[str, tuple[Any, ...]]] = []
        since = attempt.txid - self._options.transactions
        for txid in [one for one in self.state if type(one) is int and one <= since]:
            for one in self.state.pop(txid):
                del self.state[one]

    @override
    def execute(self, tup: Tuple) -> None:
        one = ID, key_of(tup, self._options.id)
        if one in self.state:
            self._duplicates.inc()
            return
        self.state[one] = self._attempt.txid
        self._new.append(one)
        row = [tup[name] for name in self._options.fields]
        self._collector.emit([self._attempt, *row])

    @override
    def finish_batch(self) -> None:
        if self._new:
            self.state[self._attempt.txid] = self._new
