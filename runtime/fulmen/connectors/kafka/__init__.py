"""Kafka: topics as sources and sinks.

Uses `formats`, and Kafka's own client (librdkafka, by confluent-kafka), which is the extra `kafka`.
`spout` and `transactional_spouts` read and `sink` writes; `options` is what they are told in a
topology's file.
"""

from fulmen.connectors.kafka.options import (
    KafkaSinkOptions,
    KafkaSpoutOptions,
    TransactionalKafkaSpoutOptions,
)
from fulmen.connectors.kafka.sink import KafkaSink
from fulmen.connectors.kafka.spout import KafkaSpout
from fulmen.connectors.kafka.transactional_spouts import (
    OpaqueTransactionalKafkaSpout,
    TransactionalKafkaSpout,
)

__all__ = [
    "KafkaSink",
    "KafkaSinkOptions",
    "KafkaSpout",
    "KafkaSpoutOptions",
    "OpaqueTransactionalKafkaSpout",
    "TransactionalKafkaSpout",
    "TransactionalKafkaSpoutOptions",
]
