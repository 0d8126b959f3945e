"""What sinks of brokers write to: topics of Kafka, queues of RabbitMQ, and an endpoint of HTTP.

Each is two tables.

A broker is killed and started again, and connections to it are cut: those that are there, or all
once so many bytes more were sent, which is often in the middle of a write. So the topologies
connect through a proxy.
"""

import itertools
import json

from support.parts import sinking_parts as parts
from support.stores.audited_stores import KAFKA, RABBITMQ, restart

MOST_SENT = 20_000
"""In bytes: how far away a cut may be."""
_numbers = itertools.count(1)


def harm_broker(server, proxy, name, rng):
    """Kill a broker for a while, or cut its connections. Returns what was done."""
    dice = rng.random()
    if dice < 0.5:
        restart(server, rng)
        return name
    if dice < 0.75:
        proxy.cut_after(rng.randrange(MOST_SENT))
        return f"{name}'s connections in a write"
    before = proxy.cuts
    proxy.cut()
    return f"{name}'s connections" if proxy.cuts > before else None


def of_json(messages):
    """The values of each message, without their names."""
    return [tuple(json.loads(message).values()) for message in messages]


class KafkaTopics:
    """Two topics of a broker's, of this topology alone."""

    sink = "KafkaRows"
    modes = ("insert",)

    def __init__(self, server, guarantee="exactly-once"):
        self.server, self.guarantee = server, guarantee
        number = next(_numbers)
        self._rows, self._latest = f"rows-{number}", f"latest-{number}"
        for topic in (self._rows, self._latest):
            server.make_topic(topic, parts.PARTITIONS)

    def of_rows(self, _mode):
        """The config of the sink that adds rows."""
        return self._config(self._rows, parts.COLUMNS) | {"partitionField": "partition"}

    def of_latest(self):
        """The config of the sink whose messages of a key are in their order."""
        return self._config(self._latest, ["key", "number"]) | {"keyField": "key"}

    def _config(self, topic, fields):
        form = {"type": "json", "fields": list(fields)}
        return {"bootstrap.servers": self.server.proxied, "topic": topic, "format": form}

    def rows(self):
        """All rows: id, key, number and amount."""
        return of_json(message.value() for message in self.server.read(self._rows))

    def latest(self):
        """Key and number of all messages, those of a key in their order."""
        return of_json(message.value() for message in self.server.read(self._latest))

    def harm(self, rng):
        """Kill the broker for a while, or cut its connections."""
        return harm_broker(self.server, self.server.proxy, KAFKA, rng)


class RabbitQueues:
    """Two queues of a broker's. No queue takes a refused amount."""

    sink = "RabbitRows"
    guarantee = "at-least-once"
    modes = ("insert",)

    def __init__(self, server, proxy):
        self.server, self._proxy = server, proxy
        number = next(_numbers)
        self._rows, self._latest = f"rows-{number}", f"latest-{number}"
        self._taken = {self._rows: [], self._latest: []}
        with server.channel() as channel:
            channel.exchange_declare(self._rows, durable=True)
            for queue in self._taken:
                channel.queue_declare(queue, durable=True)
            for amount in range(parts.REFUSED):
                channel.queue_bind(self._rows, self._rows, str(amount))
        server.settle()

    def of_rows(self, _mode):
        """The config of the sink that adds rows."""
        places = {"exchange": self._rows, "routingKey": "{amount}"}
        return self._config(parts.COLUMNS) | places

    def of_latest(self):
        """The config of the sink that adds key and number."""
        return self._config(["key", "number"]) | {"routingKey": self._latest}

    def _config(self, fields):
        url = self.server.url_through(self._proxy)
        return {"url": url, "format": {"type": "json", "fields": list(fields)}}

    def rows(self):
        """All rows: id, key, number and amount."""
        return self._take(self._rows)

    def latest(self):
        """Key and number of all messages."""
        return self._take(self._latest)

    def _take(self, queue):
        """All messages that there ever were: they are taken out of the queue."""
        taken = self._taken[queue]
        with self.server.channel() as channel:
            while (found := channel.basic_get(queue, auto_ack=True))[0] is not None:
                taken.append(found[2])
        return of_json(taken)

    def harm(self, rng):
        """Kill the broker for a while, or cut its connections."""
        return harm_broker(self.server, self._proxy, RABBITMQ, rng)


class HttpTables:
    """Two tables of an endpoint that honours keys: each row is there once, if a key is stable."""

    sink = "HttpRows"
    guarantee = "exactly-once"
    modes = ("insert",)

    def __init__(self, server, proxy):
        self.server, self._proxy = server, proxy
        number = next(_numbers)
        self._rows, self._latest = f"rows-{number}", f"latest-{number}"

    def of_rows(self, _mode):
        """The config of the sink that adds rows."""
        return self._config(self._rows, parts.COLUMNS)

    def of_latest(self):
        """The config of the sink whose rows of a key are in their order."""
        return self._config(self._latest, ["key", "number"]) | {"orderBy": ["key"]}

    def _config(self, table, fields):
        url = f"http://127.0.0.1:{self._proxy.port}/{table}"
        return {"url": url, "format": {"type": "json", "fields": list(fields)}}

    def rows(self):
        """All rows: id, key, number and amount."""
        return of_json(self.server.rows(self._rows))

    def latest(self):
        """Key and number of all rows, those of a key in their order."""
        return of_json(self.server.rows(self._latest))

    def harm(self, rng):
        """Kill the endpoint for a while, or cut its connections."""
        return harm_broker(self.server, self._proxy, "HTTP", rng)
