"""Random kills of topologies that read from a broker and write to SQLite, and of that broker.

A bolt between them fails some messages before they are written, so that they are emitted again.
Trees never time out. So each message must be in the table once: what was emitted, what was acked
and what was written is in one commit. Only messages of RabbitMQ that have no id may be there more
often, as they can't be told from others when they come again.

    make soak SOAK_ARGS="--sources kafka --kills 50"
"""

import itertools
import json
import random
from collections import Counter

import pika

from support.servers.cut_proxy import cut_proxy
from support.servers.kafka_server import running_kafka
from support.servers.rabbitmq_server import running_rabbitmq
from support.soaks import sink_soak
from support.soaks.sink_soak import KilledSinks, PlainRun, SqliteTables
from support.soaks.transaction_run import Difference
from support.stores.audited_stores import KAFKA, RABBITMQ
from support.stores.broker_tables import harm_broker

KINDS = ("kafka", "rabbitmq")
PARTITIONS = 3
FORMAT = {"type": "json", "fields": ["id"]}
NEVER_SECONDS = 86_400
_numbers = itertools.count(1)


def body(number):
    """The message with that number."""
    return json.dumps({"id": number}).encode()


class KafkaSource:
    """A topic of a broker's, of this topology alone."""

    spout = "fulmen.connectors.kafka.KafkaSpout"
    is_exact = True
    most_tasks = PARTITIONS

    def __init__(self, server, _rng):
        self.server, self._topic = server, f"source-{next(_numbers)}"
        server.make_topic(self._topic, PARTITIONS)

    def config(self):
        """Of the spout."""
        servers = {"bootstrap.servers": self.server.proxied}
        return {**servers, "topic": self._topic, "format": FORMAT}

    def publish(self, numbers):
        """Messages, each in one of the partitions."""
        for partition in range(PARTITIONS):
            mine = [body(n) for n in numbers if n % PARTITIONS == partition]
            self.server.produce(self._topic, mine, partition=partition)

    def harm(self, rng):
        """Kill the broker for a while, or cut its connections."""
        return harm_broker(self.server, self.server.proxy, KAFKA, rng)


class RabbitSource:
    """A queue of a broker's, of this topology alone; its messages have ids, or have not.

    Attributes:
        is_exact: Whether they have.
    """

    spout = "fulmen.connectors.rabbitmq.RabbitSpout"
    most_tasks = 1

    def __init__(self, server, proxy, rng):
        self.server, self._proxy, self._queue = server, proxy, f"source-{next(_numbers)}"
        self.is_exact = rng.random() < 0.7
        with server.channel() as channel:
            channel.queue_declare(self._queue, durable=True)
        server.settle()

    def config(self):
        """Of the spout. Messages of a driver that is stopped come back when it is silent."""
        url = self.server.url_through(self._proxy)
        return {"url": url, "queue": self._queue, "heartbeat": 5, "format": FORMAT}

    def publish(self, numbers):
        """Messages, confirmed by the broker."""
        with self.server.channel() as channel:
            channel.confirm_delivery()
            for number in numbers:
                message_id = str(number) if self.is_exact else None
                properties = pika.BasicProperties(message_id=message_id, delivery_mode=2)
                channel.basic_publish("", self._queue, body(number), properties)

    def harm(self, rng):
        """Kill the broker for a while, or cut its connections."""
        return harm_broker(self.server, self._proxy, RABBITMQ, rng)


class SourceRun(PlainRun):
    """A source, a bolt that fails some messages, and a sink.

    Args:
        folder: For all that it has.
        source: A KafkaSource or RabbitSource.
        workers: How many.
        tasks: Of the spout; and of the bolts.
        pending: How many trees of a spout's task may be pending.

    Attributes:
        published: How many messages there are.
        repeats: How many rows there were more than messages, when they were last looked at.
    """

    def __init__(self, folder, source, *, workers=2, tasks=(2, 2), pending=50):
        self.source, self.tables = source, SqliteTables(folder)
        self.published = self.repeats = 0
        shuffled = {"grouping": {"type": "shuffle"}}
        rows = {**self.tables.of_rows("insert"), "columns": {"id": "id"}}
        spec = {
            "workers": workers,
            "maxSpoutPending": pending,
            "messageTimeoutSeconds": NEVER_SECONDS,
            "spouts": [
                {
                    "name": "source",
                    "class": source.spout,
                    "parallelism": min(tasks[0], source.most_tasks),
                    "config": source.config(),
                }
            ],
            "bolts": [
                {
                    "name": "doubtful",
                    "class": "sinking_parts.Doubtful",
                    "parallelism": tasks[1],
                    "inputs": [{"from": "source", **shuffled}],
                },
                {
                    "name": "rows",
                    "class": "sinking_parts.SqliteRows",
                    "parallelism": tasks[1],
                    "inputs": [{"from": "doubtful", **shuffled}],
                    "config": {**rows, "guarantee": "exactly-once"},
                },
            ],
        }
        super().__init__(folder, [source, source, self.tables], spec)

    def publish(self, count):
        """Let there be more messages."""
        first = self.published
        self.published += count
        self.source.publish(range(first, self.published))

    def wait_for_commit_phase(self, keep=lambda: None):
        """Wait until the sink begins to write, for which there are more messages."""
        self.publish(100)
        super().wait_for_commit_phase(keep)

    def totals(self):
        """What it has done, for people."""
        return {
            "messages": self.published,
            "late writes refused": self.refused(),
            "rows more than messages": self.repeats,
        }

    def is_complete(self):
        """Whether all messages are in the table.

        Raises:
            Difference: There is a row of no message, or of one there are too many.
        """
        found = Counter(row[0] for row in self.tables.rows())
        messages = set(range(self.published))
        most = 1 if self.source.is_exact else found.total()
        wrong = {n: times for n, times in found.items() if n not in messages or times > most}
        if wrong:
            raise Difference(f"rows: {dict(list(wrong.items())[:5])}")
        self.repeats = found.total() - len(found)
        return found.keys() == messages


class KilledSources(KilledSinks):
    """One topology, to which things happen.

    Args:
        folder: For all that it has.
        seed: What it follows from.
        make_source: Makes a source, given a generator.
        figures: Counts what happens.
    """

    def __init__(self, folder, seed, make_source, figures):
        self.rng = rng = random.Random(seed)
        shape = {
            "workers": rng.randint(1, 3),
            "tasks": (rng.randint(1, 3), rng.randint(1, 3)),
            "pending": rng.choice([5, 50, 500]),
        }
        source = make_source(rng)
        self.name = f"{shape}, {'once' if source.is_exact else 'at least once'}"
        self.run = SourceRun(folder, source, **shape)
        self.figures, self.is_harmed, self.paused = figures, False, []

    def more_messages(self):
        """There are more messages."""
        self.run.publish(self.rng.randint(100, 600))


def maker(kind, servers):
    """Makes what makes sources of a kind. Their broker runs as long as a stack is open."""
    if kind == "kafka":
        kafka = servers.enter_context(running_kafka())
        return lambda _folder: lambda rng: KafkaSource(kafka, rng)
    rabbit = servers.enter_context(running_rabbitmq())
    proxy = servers.enter_context(cut_proxy(rabbit.port))
    return lambda _folder: lambda rng: RabbitSource(rabbit, proxy, rng)


def soak(kind, seed, enough):
    """Do harm until there were so many faults. Returns the figures."""
    return sink_soak.soak(kind, seed, enough, maker, KilledSources)
