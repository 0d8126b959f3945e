"""Random kills of transactional topologies whose source is a topic of Kafka, and of its broker.

As soaks/transaction_soak.py, but the messages are in a topic. So what an attempt has is what has
arrived by then. Partitions are added while it runs.

    make soak SOAK_ARGS="--kafka --kills 50"
"""

import json
from contextlib import contextmanager

from fulmen.connectors.kafka import OpaqueTransactionalKafkaSpout, TransactionalKafkaSpout
from support.lives.processes import DRIVER, JVM, PAUSE, PYTHON
from support.servers.kafka_server import running_kafka
from support.soaks import transaction_soak
from support.soaks.transaction_run import TransactionRun
from support.soaks.transaction_soak import (
    KAFKA,
    ROUNDS_OF_SHAPE,
    STORE,
    TAKEOVER,
    KilledTransactions,
    running_servers,
)
from support.stores.audited_stores import restart


class KafkaRun(TransactionRun):
    """One topic, one checkpoint and its stores, and the runs on it.

    Args:
        kafka: The broker, which others use as well.
        name: Of the topic.
    """

    row_fields = ("partition", "number")

    def __init__(self, folder, stores, kafka, name, **shape):
        self.kafka, self.topic, self.sent = kafka, name, []
        super().__init__(folder, stores, **shape)

    def source_config(self):
        return {
            "bootstrap.servers": self.kafka.proxied,
            "topic": self.topic,
            "format": {"type": "json", "fields": ["partition", "number"]},
            "maxMessages": 25,
            "refreshSeconds": 1,
        }

    def set_limits(self):
        """Send the messages that there are now."""
        if not self.sent:
            self.kafka.make_topic(self.topic, len(self.limits))
        elif len(self.sent) < len(self.limits):
            self.kafka.add_partitions(self.topic, len(self.limits))
        self.sent += [0] * (len(self.limits) - len(self.sent))
        for partition, limit in enumerate(self.limits):
            new = range(self.sent[partition], limit)
            messages = [json.dumps({"partition": partition, "number": n}) for n in new]
            self.kafka.produce(self.topic, messages, partition=partition)
            self.sent[partition] = limit


class KafkaTransactions(KilledTransactions):
    """One shape, to which things happen; its broker is one of them."""

    spouts = (OpaqueTransactionalKafkaSpout, OpaqueTransactionalKafkaSpout, TransactionalKafkaSpout)
    kinds = (*[PYTHON] * 8, *[KAFKA] * 6, *[STORE] * 3, DRIVER, JVM, TAKEOVER, PAUSE)

    def make_run(self, folder, stores, servers, **shape):
        return KafkaRun(folder, stores, servers.kafka, f"{stores[0].name}", **shape)

    def harm(self, kind):
        if kind != KAFKA:
            return super().harm(kind)
        if self.rng.random() < 0.3:
            self.run.kafka.proxy.cut()
            return "Kafka's connections"
        restart(self.run.kafka, self.rng)
        return KAFKA


@contextmanager
def running():
    """The stores' servers, and a broker."""
    with running_servers() as servers, running_kafka() as servers.kafka:
        yield servers


def soak(seed, seconds, kills=float("inf"), first=1, rounds=ROUNDS_OF_SHAPE):
    """See `transaction_soak.soak`."""
    return transaction_soak.soak(
        seed, seconds, kills, first, rounds, kind=KafkaTransactions, running=running
    )
