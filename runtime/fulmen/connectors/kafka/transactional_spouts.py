"""A topic as the source of a transactional topology. The names are Storm's.

A partition of the topic is a partition of the spout. Of each, a transaction has what has arrived,
at most so many messages: an emitter does not wait for more. See `parts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from typing_extensions import override

from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
)
from fulmen.connectors.base.parts import PartCoordinator, PartSource
from fulmen.connectors.kafka.options import TransactionalKafkaSpoutOptions
from fulmen.connectors.kafka.reading.parts import KafkaParts
from fulmen.connectors.kafka.reading.topic import Topic


class _KafkaSource(PartSource):
    """The base of both spouts."""

    config_model = TransactionalKafkaSpoutOptions

    @override
    def stream(self, options: TransactionalKafkaSpoutOptions) -> Stream:
        return Stream(options.fields)

    @override
    def get_coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> _Coordinator:
        return _Coordinator(context)

    @override
    def parts(self, context: TopologyContext) -> KafkaParts:
        return KafkaParts(context)


class TransactionalKafkaSpout(_KafkaSource, PartitionedTransactionalSpout):
    """Emits the messages of a topic; each attempt has exactly the messages of the one before.

    If some of these are gone from the topic, the transaction fails each time, with that reason.

    The stream `errors` has messages that can't be read in the format, and what is said of messages
    that are gone: the attempt, `data` (bytes or None), `reason`, `position`.
    """


class OpaqueTransactionalKafkaSpout(_KafkaSource, OpaquePartitionedTransactionalSpout):
    """Emits the messages of a topic; each attempt has what there is behind the last transaction.

    Its streams are those of a `TransactionalKafkaSpout`.
    """


class _Coordinator(PartCoordinator):
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
