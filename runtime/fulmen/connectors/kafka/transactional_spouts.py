"""A topic as the source of a transactional topology. The names are Storm's.

A partition of the topic is a partition of the spout. Of each, a transaction has what has arrived,
at most so many messages: an emitter does not wait for more. See `parts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from typing_extensions import override

from fulmen.api.components import FailedException, Outputs
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.sinks import ERRORS_STREAM
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSource,
)
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.connectors.kafka.options import TransactionalKafkaSpoutOptions
from fulmen.connectors.kafka.reading.parts import PartitionPart, Parts
from fulmen.connectors.kafka.reading.topic import Topic
from fulmen.connectors.options import ATTEMPT


class _KafkaSource(TransactionalSource):
    """What both spouts have in common."""

    config_model = TransactionalKafkaSpoutOptions

    @override
    def outputs_for(self, options: TransactionalKafkaSpoutOptions) -> Outputs:
        return {
            DEFAULT_STREAM: (ATTEMPT, *options.fields),
            ERRORS_STREAM: (ATTEMPT, "data", "reason", "position"),
        }

    @override
    def get_coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> _Coordinator:
        return _Coordinator(context)


class TransactionalKafkaSpout(_KafkaSource, PartitionedTransactionalSpout):
    """Emits the messages of a topic; each attempt has exactly the messages of the one before.

    If some of these are in the topic no more, the transaction fails each time, with that reason.

    The stream `errors` has messages that can't be read in the format, and what is said of messages
    that are gone: the attempt, `data` (bytes or None), `reason`, `position`.
    """

    @override
    def get_emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> _Emitter:
        return _Emitter(context)


class OpaqueTransactionalKafkaSpout(_KafkaSource, OpaquePartitionedTransactionalSpout):
    """Emits the messages of a topic; each attempt has what there is behind the last transaction.

    Its streams are those of a `TransactionalKafkaSpout`.
    """

    @override
    def get_emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> _OpaqueEmitter:
        return _OpaqueEmitter(context)


class _Coordinator(
    PartitionedTransactionalSpout.Coordinator, OpaquePartitionedTransactionalSpout.Coordinator
):
    """Counts partitions. It begins no transactions while it knows that the topic is away.

    There are at least as many as the spout has tasks, whether or not the topic has them: so each
    task has a part in the first transaction, see `parts`.
    """

    def __init__(self, context: TopologyContext) -> None:
        options: TransactionalKafkaSpoutOptions = context.options
        self._least = len(context.tasks(context.component))
        self._brokers = options.brokers()
        self._topic = Topic(self._brokers, options.topic, options.refresh_seconds)
        self._count = len(self._topic.connect().partitions)
        self._is_away = False

    @override
    def num_partitions(self) -> int:
        try:
            news = self._topic.news()
        except KafkaException as error:
            self._is_away = True
            self._topic.ask()  # the driver does not wait for the answer
            raise self._brokers.unavailable(error) from None
        if news is not None:
            self._brokers.forget()
            self._count, self._is_away = len(news.partitions), False
        elif self._is_away:
            raise FailedException("the brokers have not answered yet")
        return max(self._count, self._least)


class _EmitterOfParts:
    """What both emitters have in common."""

    def __init__(self, context: TopologyContext) -> None:
        self._parts = Parts(context)

    def cleanup_before(self, txid: int) -> None:
        """Tell the group."""
        self._parts.committed_before(txid)

    def close(self) -> None:
        """Let go of the clients."""
        self._parts.close()


class _Emitter(_EmitterOfParts, PartitionedTransactionalSpout.Emitter):
    @override
    def emit_partition_batch_new(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last_metadata: PartitionPart | None,
    ) -> PartitionPart | None:
        return self._parts.emit_new(attempt, collector, partition, last_metadata)

    @override
    def emit_partition_batch(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        metadata: PartitionPart | None,
    ) -> None:
        self._parts.emit_again(attempt, collector, partition, metadata)


class _OpaqueEmitter(_EmitterOfParts, OpaquePartitionedTransactionalSpout.Emitter):
    @override
    def emit_partition_batch(
        self,
        attempt: TransactionAttempt,
        collector: BatchOutputCollector,
        partition: int,
        last_metadata: PartitionPart | None,
    ) -> PartitionPart | None:
        return self._parts.emit_new(attempt, collector, partition, last_metadata)
