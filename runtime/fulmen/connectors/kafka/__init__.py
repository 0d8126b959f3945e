"""Kafka: topics as sources and sinks.

Uses `formats` and `services.kafka`. The spouts use `reading`, and the sink `writing`;
`options` is what all are told in a topology's file.
"""

import fulmen.services.kafka  # noqa: F401 (says so if the client is missing)
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
