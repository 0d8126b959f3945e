"""Kafka: topics as sources and sinks.

Uses `formats`, and Kafka's own client (librdkafka, by confluent-kafka), which is the extra `kafka`.
`spout` reads and `sink` writes; `options` is what both are told in a topology's file.
"""

from fulmen.connectors.kafka.options import KafkaSinkOptions, KafkaSpoutOptions
from fulmen.connectors.kafka.sink import KafkaSink
from fulmen.connectors.kafka.spout import KafkaSpout

__all__ = ["KafkaSink", "KafkaSinkOptions", "KafkaSpout", "KafkaSpoutOptions"]
