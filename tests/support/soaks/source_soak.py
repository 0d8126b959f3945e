"""Random kills of topologies that read from a broker and write to SQLite, and of that broker.

A bolt between them fails some messages before they are written, so that they are emitted again.
Trees never time out. So each message must be in the table once: what was emitted, what was acked
and what was written is in one commit. Only messages of RabbitMQ that have no id may be there more
often, as they can't be told from others when they come again. Each run has another number of tasks
of the source. In the end the service keeps nothing for any of them.

    make soak SOAK_ARGS="--sources kafka --kills 50"
"""

import itertools
import json
import random
from collections import Counter
from itertools import pairwise

import pika

from support.servers.cut_proxy import cut_proxy
from support.servers.kafka_server import running_kafka
from support.servers.postgres import running_postgres
from support.servers.rabbitmq_server import running_rabbitmq
from support.servers.redis_server import running_redis
from support.soaks import sink_soak
from support.soaks.sink_soak import KilledSinks, PlainRun, SqliteTables
from support.soaks.transaction_run import Difference
from support.stores.audited_stores import KAFKA, RABBITMQ, AuditedPostgres, AuditedRedis
from support.stores.broker_tables import harm_broker

KINDS = ("kafka", "rabbitmq", "redis-stream", "redis-list", "postgres-queue")
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

    def kept(self):
        """How many messages it keeps for tasks: a topic forgets nothing."""
        return 0


class RabbitSource:
    """A queue of a broker's, of this topology alone; its messages have ids, or have not.

    Attributes:
        is_exact: Whether they have.
        most_tasks: Of the spout: of several, each may get what another one has emitted.
    """

    spout = "fulmen.connectors.rabbitmq.RabbitSpout"

    def __init__(self, server, proxy, rng):
        self.server, self._proxy, self._queue = server, proxy, f"source-{next(_numbers)}"
        self.is_exact = rng.random() < 0.7
        self.most_tasks = 1 if self.is_exact else 3
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

    def kept(self):
        """How many messages are in the queue, or handed out."""
        self.server.settle()
        with self.server.channel() as channel:
            return channel.queue_declare(self._queue, passive=True).method.message_count


class RedisStreamSource(AuditedRedis):
    """A stream, of this topology alone."""

    spout = "fulmen.connectors.redis.RedisStreamSpout"
    is_exact = True
    most_tasks = 4

    def __init__(self, server, _rng):
        self.server, self._key = server, f"source-{next(_numbers)}"

    def config(self):
        """Of the spout. What a process of before has read as it went is looked for soon."""
        server = {"url": self.server.url, "key": self._key, "format": FORMAT, "count": 20}
        return {**server, "group": "g", "mkstream": True, "minIdleTime": 3000}

    def publish(self, numbers):
        """Entries, all or none of them."""
        with self.server.client() as client, client.pipeline() as pipe:
            for number in numbers:
                pipe.xadd(self._key, {"value": body(number)})
            pipe.execute()

    def kept(self):
        """How many entries are pending."""
        with self.server.client() as client:
            return client.xpending(self._key, "g")["pending"]


class RedisListSource(RedisStreamSource):
    """A list, of this topology alone."""

    spout = "fulmen.connectors.redis.RedisListSpout"

    def config(self):
        """Of the spout."""
        return {"url": self.server.url, "key": self._key, "format": FORMAT, "count": 20}

    def publish(self, numbers):
        """Elements."""
        with self.server.client() as client:
            client.rpush(self._key, *map(body, numbers))

    def kept(self):
        """How many elements are in the list, or in the hash that keeps them."""
        with self.server.client() as client:
            names = client.hkeys(f"{self._key}:processing:rows:source")
            return client.llen(self._key) + len({*names} - {"last"})


class PostgresQueueSource(AuditedPostgres):
    """A table as a queue, of this topology alone."""

    spout = "fulmen.connectors.postgres.PostgresQueueSpout"
    is_exact = True
    most_tasks = 4

    def __init__(self, server, _rng):
        self.server, self._table = server, f"source_{next(_numbers)}"
        columns = "id bigint PRIMARY KEY, claimed_by text, claimed_until timestamptz"
        server.run(f"CREATE TABLE {self._table} ({columns})")

    def config(self):
        """Of the spout. What a process of before has claimed as it went is free after a while."""
        rows = {
            "claimSeconds": 60,
            "table": self._table,
            "fields": ["id"],
            "fetchSize": 20,
            "pollSeconds": 0.1,
        }
        return {"dsn": self.server.dsn, **rows}

    def publish(self, numbers):
        """Rows."""
        values = ", ".join(f"({number})" for number in numbers)
        self.server.run(f"INSERT INTO {self._table} (id) VALUES {values}")

    def kept(self):
        """How many rows there are."""
        ((number,),) = self.server.run(f"SELECT count(*) FROM {self._table}")
        return number


class SourceRun(PlainRun):
    """A source, a bolt that fails some messages, and a sink.

    Args:
        folder: For all that it has.
        source: A KafkaSource, or another one of the above.
        workers: How many.
        tasks: Gives the number of the spout's for each run; and how many the bolts have.
        pending: How many trees of a spout's task may be pending.

    Attributes:
        published: How many messages there are.
        repeats: How many rows there were more than messages, when they were last looked at.
        task_numbers: Of the spout, in each run.
    """

    def __init__(self, folder, source, *, workers=2, tasks, pending=50):
        self.source, self.tables = source, SqliteTables(folder)
        self.published = self.repeats = 0
        self._tasks, bolts = tasks
        self.task_numbers = []
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
                    "parallelism": 1,
                    "config": source.config(),
                }
            ],
            "bolts": [
                {
                    "name": "doubtful",
                    "class": "sinking_parts.Doubtful",
                    "parallelism": bolts,
                    "inputs": [{"from": "source", **shuffled}],
                },
                {
                    "name": "rows",
                    "class": "sinking_parts.SqliteRows",
                    "parallelism": bolts,
                    "inputs": [{"from": "doubtful", **shuffled}],
                    "config": {**rows, "guarantee": "exactly-once"},
                },
            ],
        }
        super().__init__(folder, [source, source, self.tables], spec)

    def start(self, *options):
        """Start a run, with another number of tasks."""
        tasks = self._tasks()
        self.task_numbers.append(tasks)
        number = "spec.spouts[source].numTasks", "spec.spouts[source].parallelism"
        return super().start(*options, *(w for n in number for w in ("--set", f"{n}={tasks}")))

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
            "changes of tasks": sum(a != b for a, b in pairwise(self.task_numbers)),
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
        source = make_source(rng)
        of_runs = random.Random(f"{seed} tasks")
        shape = {
            "workers": rng.randint(1, 3),
            "tasks": (lambda: of_runs.randint(1, source.most_tasks), rng.randint(1, 3)),
            "pending": rng.choice([5, 50, 500]),
        }
        self.name = f"{source.spout}, {'once' if source.is_exact else 'at least once'}"
        self.run = SourceRun(folder, source, **shape)
        self.figures, self.is_harmed, self.paused = figures, False, []

    def more_messages(self):
        """There are more messages."""
        self.run.publish(self.rng.randint(100, 600))

    def drain(self):
        """End it, and see that nothing is kept for any task."""
        super().drain()
        assert self.run.source.kept() == 0, self.run.task_numbers


def maker(kind, servers):
    """Makes what makes sources of a kind. Their broker runs as long as a stack is open."""
    if kind == "kafka":
        kafka = servers.enter_context(running_kafka())
        return lambda _folder: lambda rng: KafkaSource(kafka, rng)
    if kind == "postgres-queue":
        postgres = servers.enter_context(running_postgres())
        return lambda _folder: lambda rng: PostgresQueueSource(postgres, rng)
    if kind in ("redis-stream", "redis-list"):
        redis = servers.enter_context(running_redis())
        cls = RedisStreamSource if kind == "redis-stream" else RedisListSource
        return lambda _folder: lambda rng: cls(redis, rng)
    rabbit = servers.enter_context(running_rabbitmq())
    proxy = servers.enter_context(cut_proxy(rabbit.port))
    return lambda _folder: lambda rng: RabbitSource(rabbit, proxy, rng)


def soak(kind, seed, enough):
    """Do harm until there were so many faults. Returns the figures."""
    return sink_soak.soak(kind, seed, enough, maker, KilledSources)
