"""The sources of transactional topologies.

Each has two parts. The coordinator, of which there is one and which the driver hosts, says what a
transaction consists of: its metadata. Emitters, as many as the spout has tasks, emit its tuples.
The names are Storm's.

Which to derive from:

- `TransactionalSpout`: an attempt of a transaction emits exactly what the one before has emitted;
  what that is, the metadata says.
- `PartitionedTransactionalSpout`: the same for a source with partitions, such as files or a topic.
- `OpaquePartitionedTransactionalSpout`: attempts may emit other tuples, but each begins where the
  last transaction ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from fulmen.api.components import Component
from fulmen.api.context import TopologyContext
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt

Metadata = Any
"""Describes a transaction, or a partition's part in one. Picklable, and small."""


class TransactionCoordinator(ABC):
    """The base of the coordinators of all transactional spouts.

    FailedException in any method means: not now. Other exceptions are reported, and the method is
    called again some time later; with `onError: crash` they stop the topology.
    """

    def is_ready(self) -> bool:
        """Whether there is something for another transaction. Must not block for long."""
        return True

    def is_exhausted(self) -> bool:
        """Whether there will never be another transaction: `fulmen run --until-drained` may end."""
        return False

    def lag(self) -> int | None:
        """How many messages of the source are not part of any transaction yet. None: not known."""
        return None

    def close(self) -> None:
        """Called before the coordinator is dropped, if there is time."""


class TransactionEmitter(ABC):
    """The base of the emitters of all transactional spouts."""

    def close(self) -> None:
        """Called before the emitter is dropped, if there is time."""


C = TypeVar("C", bound=TransactionCoordinator)
E = TypeVar("E", bound=TransactionEmitter)


class TransactionalSource(Component, Generic[C, E]):
    """The base of the three kinds of transactional spouts.

    An object of it makes coordinators and emitters, and keeps no state.
    """

    @abstractmethod
    def get_coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> C:
        """Make the coordinator. Called in the driver.

        Args:
            conf: The topology's `config`, with the component's own on top of it.
            context: Names, task ids and streams.
        """

    @abstractmethod
    def get_emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> E:
        """Make an emitter. Called once for each task, in its worker; takes the same."""


class TransactionalSpout(
    TransactionalSource["TransactionalSpout.Coordinator", "TransactionalSpout.Emitter"]
):
    """A source that can emit a transaction again, exactly as it was."""

    class Coordinator(TransactionCoordinator):
        """Says what transactions consist of."""

        @abstractmethod
        def initialize_transaction(self, txid: int, previous_metadata: Metadata) -> Metadata:
            """The metadata of a new transaction.

            Called once for each txid. (Once more if the driver is lost before the transaction was
            processed: nothing of it has left the topology then.)

            Args:
                txid: Its number.
                previous_metadata: That of transaction `txid - 1`; None for the first one.
            """

    class Emitter(TransactionEmitter):
        """Emits the tuples of transactions, in one task."""

        @abstractmethod
        def emit_batch(
            self, attempt: TransactionAttempt, metadata: Metadata, collector: BatchOutputCollector
        ) -> None:
            """Emit this task's part of a transaction.

            For equal metadata the tuples must be the same ones. FailedException fails the attempt.

            Args:
                attempt: The first value of all tuples.
                metadata: What the coordinator gave for the txid.
                collector: To emit with, here and now.
            """

        def cleanup_before(self, txid: int) -> None:
            """All transactions before that one are committed: forget what was kept of them."""


class PartitionCoordinator(TransactionCoordinator):
    """Says how many partitions a source has."""

    @abstractmethod
    def num_partitions(self) -> int:
        """The number of partitions, which are numbered from 0. It may grow."""


class PartitionEmitter(TransactionEmitter):
    """The base of emitters of partitions."""

    def is_exhausted(self) -> bool:
        """Whether this task's partitions will never have more than was emitted.

        When all emitters say so, `fulmen run --until-drained` may end.
        """
        return False


class PartitionedTransactionalSpout(
    TransactionalSource[
        "PartitionedTransactionalSpout.Coordinator", "PartitionedTransactionalSpout.Emitter"
    ]
):
    """A source of partitions, each of which can emit its part of a transaction again as it was.

    The emitter in the task with number i emits partitions i, i + n, i + 2n and so on, where n is
    the number of tasks. Their metadata are kept in the checkpoint.
    """

    class Coordinator(PartitionCoordinator):
        """Says how many partitions there are."""

    class Emitter(PartitionEmitter):
        """Emits partitions, in one task.

        FailedException in any method fails the attempt. A partition that is away for a while is
        waited for that way: give the reason.
        """

        @abstractmethod
        def emit_partition_batch_new(
            self,
            attempt: TransactionAttempt,
            collector: BatchOutputCollector,
            partition: int,
            last_metadata: Metadata,
        ) -> Metadata:
            """Emit a partition's part of a transaction for the first time.

            Args:
                attempt: The first value of all tuples.
                collector: To emit with, here and now.
                partition: Its number.
                last_metadata: Of the partition's part in the transaction before; None: it is the
                    partition's first one.

            Returns:
                By which `emit_partition_batch` can emit the same again.
            """

        @abstractmethod
        def emit_partition_batch(
            self,
            attempt: TransactionAttempt,
            collector: BatchOutputCollector,
            partition: int,
            metadata: Metadata,
        ) -> None:
            """Emit a partition's part of a transaction once more: exactly the tuples of before.

            Args:
                attempt: The first value of all tuples. It differs from that of before.
                collector: To emit with, here and now.
                partition: Its number.
                metadata: What `emit_partition_batch_new` returned.
            """


class OpaquePartitionedTransactionalSpout(
    TransactionalSource[
        "OpaquePartitionedTransactionalSpout.Coordinator",
        "OpaquePartitionedTransactionalSpout.Emitter",
    ]
):
    """A source of partitions that can't promise to emit the same tuples again.

    Each attempt begins where the last transaction ended, so nothing is lost and nothing comes
    twice; but stores need the opaque rule (value, txid, previous value) to be exact.
    """

    class Coordinator(PartitionCoordinator):
        """Says how many partitions there are."""

    class Emitter(PartitionEmitter):
        """Emits partitions, in one task."""

        @abstractmethod
        def emit_partition_batch(
            self,
            attempt: TransactionAttempt,
            collector: BatchOutputCollector,
            partition: int,
            last_metadata: Metadata,
        ) -> Metadata:
            """Emit a partition's part of a transaction, beginning where the last one ended.

            FailedException leaves the partition out of this transaction: nothing that was emitted
            for it is sent, and it goes on from `last_metadata` in the next one. The reason is
            reported.

            Args:
                attempt: The first value of all tuples.
                collector: To emit with, here and now.
                partition: Its number.
                last_metadata: Of the partition's part in the last transaction before that had one;
                    None: it is the partition's first one.

            Returns:
                Where this part ended.
            """
