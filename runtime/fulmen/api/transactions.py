"""Transactions: their attempts, and the bolts that process whole batches of tuples.

In a transactional topology each batch of tuples is a transaction with a number, its txid. Several
are processed side by side, and they are committed strictly in the order of their numbers. The names
and their meanings are those of Storm's transactional topologies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import total_ordering
from typing import Any

from fulmen.api.collector import ErrorCollector, Values
from fulmen.api.components import StatefulBolt
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.tuples import Tuple


@total_ordering
class TransactionAttempt:
    """One attempt of one transaction: the first value of every tuple that belongs to it.

    Two are equal if both numbers are. The hash is that of the txid alone, so that all attempts of a
    transaction go to the same task. A later attempt is greater, also after a change of drivers.

    Attributes:
        txid: The number of the transaction, from 1.
        attempt: The number of the attempt. Numbers rise, with gaps.
    """

    __slots__ = ("attempt", "txid")

    txid: int
    attempt: int

    def __init__(self, txid: int, attempt: int) -> None:
        object.__setattr__(self, "txid", txid)
        object.__setattr__(self, "attempt", attempt)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an attempt can't be changed: {name} = {value!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransactionAttempt):
            return NotImplemented
        return self.txid == other.txid and self.attempt == other.attempt

    def __lt__(self, other: TransactionAttempt) -> bool:
        if not isinstance(other, TransactionAttempt):
            return NotImplemented
        return (self.txid, self.attempt) < (other.txid, other.attempt)

    def __hash__(self) -> int:
        return hash(self.txid)

    def __repr__(self) -> str:
        return f"TransactionAttempt(txid={self.txid}, attempt={self.attempt})"

    def __str__(self) -> str:
        return f"{self.txid}:{self.attempt}"

    def __reduce__(self) -> tuple[type[TransactionAttempt], tuple[int, int]]:
        return TransactionAttempt, (self.txid, self.attempt)


class BatchOutputCollector(ErrorCollector):
    """Given to `BatchBolt.prepare` and to the emitters of transactional spouts.

    There are no anchors and no acks: what counts is the transaction.
    """

    @abstractmethod
    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to every bolt that subscribes to `stream`.

        Args:
            values: One value per declared field, in that order. The first is the attempt that the
                tuple belongs to. They are not copied: don't change them afterwards.
            stream: A stream that this component declares, and not a direct one.

        Raises:
            StreamError: `stream` is not declared, is direct, or has another number of fields.
            CollectorError: Not in a callback.
        """

    def emit_many(self, rows: Sequence[Values], stream: str = DEFAULT_STREAM) -> None:
        """Send a tuple for each row, in their order: what `emit` does, for a part of its time.

        Args:
            rows: The values of each tuple, as for `emit`.
            stream: The stream of all of them.

        Raises:
            StreamError: As for `emit`. The rows before the wrong one are sent.
            CollectorError: Not in a callback.
        """
        for values in rows:
            self.emit(values, stream)

    @abstractmethod
    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to one task of a bolt that subscribes with direct grouping.

        Args:
            task: Id of the receiving task. One that does not subscribe receives nothing.
            values: The values, as for `emit`.
            stream: A stream that this component declares as direct.

        Raises:
            StreamError: `stream` is not declared or not direct, or has another number of fields.
            CollectorError: Not in a callback.
        """


class BatchBolt(StatefulBolt):
    """A bolt of a transactional topology that sees the end of each batch.

    For each attempt of a transaction every task has a fresh instance, which sees the tuples of that
    attempt alone, and is gone afterwards. So its fields are not written to a checkpoint, and what
    is expensive to make is best made once in a process: `context.shared`. `self.state` is that of
    the task: what an attempt changes in it is kept when that is committed.

    `finish_batch` is called when all tuples of the attempt have been there. In a committer, and in
    bolts behind one, that is when the transaction is committed: all transactions before it are
    committed then. `execute` may be called before.
    """

    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        """Called once for each instance, before anything else.

        An exception fails the transaction, as in `execute`.

        Args:
            conf: The topology's `config`, with the component's own on top of it.
            context: Names, task ids and streams.
            collector: Keep it in a field. Emitting here is an error.
            attempt: What this instance is for.
        """

    @abstractmethod
    def execute(self, tup: Tuple) -> None:
        """Process one tuple of the attempt.

        Raise FailedException to fail the transaction. Any other exception fails it as well and is
        reported; with `onError: crash` it stops the topology.
        """

    @abstractmethod
    def finish_batch(self) -> None:
        """Called when the attempt has no further tuple for this task, even if it had none.

        May emit. An exception counts as in `execute`. A committer writes here, and nowhere else:
        the same transaction may come again in another attempt, whether or not this one succeeded.
        """


class Committer:
    """Marks a BatchBolt as a committer: its `finish_batch` is called in the order of the txids.

    `class UpdateCount(BatchBolt, Committer)`. In the topology's file `committer: true` does the
    same for one bolt.
    """
