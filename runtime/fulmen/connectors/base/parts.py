"""Sources of transactional topologies: a transaction has a part of each partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from fulmen.api.components import Outputs
from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSource,
)
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.connectors.formats import ERRORS
from fulmen.connectors.options import ATTEMPT


class TransactionParts(ABC):
    """Emits the parts of one task's partitions, the attempt before the values of each tuple."""

    @abstractmethod
    def emit_part(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last: Any,
    ) -> Any:
        """Emit the next part, and return what identifies it.

        Raises:
            ServiceUnavailable: Nothing can be read.
        """

    @abstractmethod
    def repeat_part(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        part: Any,
    ) -> None:
        """Emit a part once more, exactly as it was. Any exception says that this can't be done.

        Raises:
            ServiceUnavailable: It can't be done now.
        """

    @abstractmethod
    def committed_before(self, txid: int) -> None:
        """All transactions before that one are committed."""

    def is_exhausted(self) -> bool:
        """Whether there will never be more than was emitted."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


class PartSource(TransactionalSource[Any, Any]):
    """A source with such parts; a spout derives from it and from one of Storm's two."""

    @abstractmethod
    def stream(self, options: Any) -> Stream:
        """The stream that messages are emitted on, without the attempt."""

    @override
    def outputs_for(self, options: Any) -> Outputs:
        stream = self.stream(options)
        return {
            DEFAULT_STREAM: Stream((ATTEMPT, *stream.fields), types=stream.types),
            ERRORS_STREAM: Stream((ATTEMPT, *ERRORS.fields), types=ERRORS.types),
        }

    @abstractmethod
    def parts(self, context: TopologyContext) -> TransactionParts:
        """The transactions' parts for a task."""

    @override
    def get_emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> Any:
        is_opaque = isinstance(self, OpaquePartitionedTransactionalSpout)
        return (_OpaqueEmitter if is_opaque else _Emitter)(self.parts(context))


class PartCoordinator(
    PartitionedTransactionalSpout.Coordinator, OpaquePartitionedTransactionalSpout.Coordinator
):
    """Counts partitions, for both."""


class _EmitterOfParts:
    def __init__(self, parts: TransactionParts) -> None:
        self._parts = parts

    def is_exhausted(self) -> bool:
        return self._parts.is_exhausted()

    def cleanup_before(self, txid: int) -> None:
        self._parts.committed_before(txid)

    def close(self) -> None:
        self._parts.close()


class _Emitter(_EmitterOfParts, PartitionedTransactionalSpout.Emitter):
    @override
    def emit_partition_batch_new(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last_metadata: Any,
    ) -> Any:
        return self._parts.emit_part(attempt, collector, partition, last_metadata)

    @override
    def emit_partition_batch(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        metadata: Any,
    ) -> None:
        self._parts.repeat_part(attempt, collector, partition, metadata)


class _OpaqueEmitter(_EmitterOfParts, OpaquePartitionedTransactionalSpout.Emitter):
    @override
    def emit_partition_batch(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last_metadata: Any,
    ) -> Any:
        return self._parts.emit_part(attempt, collector, partition, last_metadata)
