"""A source whose rows are part of the topology: for tests and examples. The name is Storm's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.api.declarer import OutputFieldsDeclarer
from fulmen.api.transactional_spouts import TransactionalSpout
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt

Row = Sequence[Any]
Span = tuple[int, int]
"""From which row, and up to which, which is not part of it."""


class MemoryTransactionalSpout(TransactionalSpout):
    """Emits rows that are given by partition; a transaction has some of each partition.

    The first field is `tx`, the attempt; the others are those of the rows. It is derived from, with
    class attributes of the same names as its arguments, or made as an object:

        words = MemoryTransactionalSpout({0: [["a"], ["b"]]}, ["word"], 3)
        builder = TransactionalTopologyBuilder("counts", "words", words)

    Attributes:
        data: The rows of each partition, in their order.
        fields: The names of a row's values.
        take_amount: How many rows of each partition a transaction has at most.
    """

    data: Mapping[int, Sequence[Row]] = {}
    fields: Sequence[str] = ()
    take_amount: int = 1

    def __init__(
        self,
        data: Mapping[int, Sequence[Row]] | None = None,
        fields: Sequence[str] | None = None,
        take_amount: int | None = None,
    ) -> None:
        """Make a source. What is not given is that of the class.

        Raises:
            ValueError: `take_amount` is below 1.
        """
        if data is not None:
            self.data = {partition: list(rows) for partition, rows in data.items()}
        if fields is not None:
            self.fields = list(fields)
        if take_amount is not None:
            self.take_amount = take_amount
        if self.take_amount < 1:
            raise ValueError(f"take_amount is {self.take_amount}, but must be 1 or more")

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the attempt and the fields of the rows."""
        declarer.declare(["tx", *self.fields])

    def get_coordinator(
        self,
        conf: Mapping[str, Any],  # noqa: ARG002 (all is in the class)
        context: TopologyContext,  # noqa: ARG002
    ) -> _Coordinator:
        """Make the coordinator."""
        return _Coordinator(_partitions(self.data), self.take_amount)

    def get_emitter(
        self,
        conf: Mapping[str, Any],  # noqa: ARG002 (all is in the class)
        context: TopologyContext,
    ) -> TransactionalSpout.Emitter:
        """Make an emitter."""
        tasks = len(context.tasks(context.component))
        return _Emitter(_partitions(self.data), range(context.task_index, len(self.data), tasks))


def _partitions(data: Mapping[int, Sequence[Row]]) -> list[Sequence[Row]]:
    return [data[partition] for partition in sorted(data)]


class _Coordinator(TransactionalSpout.Coordinator):
    """Metadata are the span of each partition. Where the last one ends is known from then on."""

    def __init__(self, partitions: Sequence[Sequence[Row]], take_amount: int) -> None:
        self._lengths = [len(rows) for rows in partitions]
        self._take_amount = take_amount
        self._ends: list[int] | None = None

    def initialize_transaction(
        self,
        txid: int,  # noqa: ARG002 (what it is made of does not depend on it)
        previous_metadata: Sequence[Span] | None,
    ) -> Sequence[Span]:
        """The next rows of each partition."""
        starts = [end for _, end in previous_metadata or [(0, 0)] * len(self._lengths)]
        self._ends = [
            min(start + self._take_amount, length)
            for start, length in zip(starts, self._lengths, strict=True)
        ]
        return list(zip(starts, self._ends, strict=True))

    def is_ready(self) -> bool:
        """Whether there are rows; not known before the first transaction."""
        return self.lag() != 0

    def is_exhausted(self) -> bool:
        """Whether all rows are in transactions."""
        return self.lag() == 0

    def lag(self) -> int | None:
        """The number of rows in no transaction."""
        return None if self._ends is None else sum(self._lengths) - sum(self._ends)


class _Emitter(TransactionalSpout.Emitter):
    def __init__(self, partitions: Sequence[Sequence[Row]], mine: range) -> None:
        self._partitions = partitions
        self._mine = mine

    def emit_batch(
        self,
        attempt: TransactionAttempt,
        metadata: Sequence[Span],
        collector: BatchOutputCollector,
    ) -> None:
        """Emit what a transaction has of this task's partitions."""
        for partition in self._mine:
            start, end = metadata[partition]
            for row in self._partitions[partition][start:end]:
                collector.emit([attempt, *row])
