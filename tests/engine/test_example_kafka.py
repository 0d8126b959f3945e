"""The examples with Kafka, with real servers: each message once, whatever is killed."""

import json
import random
from collections import Counter

import psycopg
import pytest

from support.lives.example_lives import ExampleLife
from support.lives.processes import DRIVER, PYTHON
from support.servers.s3 import BUCKET
from support.suite.seeds import FIRST

PARTITIONS = 4
PAGES = ["/cart", "/checkout", "/search"]

KILLED = "examples that are killed"
"""A matrix, of which test_example_queues.py and test_connectors_avro_away.py have a cell each."""

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


class Orders:
    """Orders in the topic, and those in the table."""

    def __init__(self, kafka, postgres):
        self.kafka, self.postgres, self.sent = kafka, postgres, []

    def send(self, rng, count):
        first = len(self.sent)
        orders = [
            (number, rng.choice(["ann", "bob", "eve"]), rng.randrange(100))
            for number in range(first, first + count)
        ]
        for partition in range(PARTITIONS):
            names = ("number", "customer", "amount")
            values = [
                json.dumps(dict(zip(names, order, strict=True)))
                for order in orders[partition::PARTITIONS]
            ]
            self.kafka.produce("orders", values, partition=partition)
        self.sent += orders

    def rows(self):
        try:
            return self.postgres.run("SELECT number, customer, amount::int FROM orders")
        except psycopg.errors.UndefinedTable:  # the sink makes it
            return []


@pytest.mark.matrix(share=1 / 4, name=KILLED, cell="kafka-to-postgres")
def test_each_order_is_in_the_table_once_whatever_is_killed(tmp_path, kafka, postgres):
    rng = random.Random(FIRST)
    kafka.make_topic("orders", PARTITIONS)
    orders = Orders(kafka, postgres)
    variables = {"KAFKA_BROKERS": kafka.address, "POSTGRES_DSN": postgres.dsn}
    life = ExampleLife("kafka-to-postgres", tmp_path, variables)

    def wait_for(count):
        life.wait_for(lambda: len(orders.rows()) >= count, f"{count} orders")

    orders.send(rng, 500)
    with life.running():
        wait_for(100)
        for harm in (
            lambda: life.kill(PYTHON, rng),
            lambda: life.kill(DRIVER, rng),
            lambda: (kafka.kill(), kafka.start()),
            lambda: (postgres.kill(), postgres.start()),
        ):
            orders.send(rng, 1000)
            harm()
            wait_for(len(orders.sent) - rng.randrange(500))
        kafka.produce("orders", ["no order"], partition=1)
        orders.send(rng, 50)
        wait_for(len(orders.sent))
        life.end()
    assert sorted(orders.rows()) == orders.sent
    [(data, position)] = postgres.run("SELECT data, position FROM malformed_orders")
    assert (data, position.partition("@")[0]) == (b"no order", "orders[1]")


@pytest.mark.matrix(share=1 / 4, name=KILLED, cell="bucket-to-kafka")
def test_each_slow_request_is_in_the_topic_once_whatever_is_killed(tmp_path, kafka, s3_server):
    rng = random.Random(FIRST)
    kafka.make_topic("slow-requests", PARTITIONS)
    folder = s3_server.folder / BUCKET / "requests"
    folder.mkdir()
    variables = {**s3_server.environment(), "KAFKA_BROKERS": kafka.address}
    path = f"spec.spouts[requests].config.path={s3_server.uri('requests/*.jsonl')}"
    life = ExampleLife("bucket-to-kafka", tmp_path, variables, ["--set", path])
    wanted = Counter()

    def put(number, count):
        """A file of requests, and what is to come of them."""
        lines = []
        for _ in range(count):
            # of a million milliseconds, hardly two are equal: a repeated request shows
            request = {
                "page": rng.choice(PAGES),
                "status": rng.choice([200, 200, 404, 503]),
                "milliseconds": rng.choice([rng.randrange(501), rng.randrange(501, 10**6)]),
            }
            lines.append(json.dumps(request) + "\n")
            if request["milliseconds"] > 500 or request["status"] == 503:
                wanted[tuple(request.values())] += 1
        hidden = folder / f"{number}.part"
        hidden.write_text("".join(lines))
        hidden.rename(folder / f"{number}.jsonl")

    def found():
        messages = kafka.read("slow-requests")
        assert all(m.key().decode() == json.loads(m.value())["page"] for m in messages)
        return Counter(tuple(json.loads(message.value()).values()) for message in messages)

    def wait_for(count):
        life.wait_for(lambda: found().total() >= count, f"{count} requests")

    put(0, 500)
    with life.running():
        wait_for(100)
        for number, harm in enumerate(
            (
                lambda: life.kill(PYTHON, rng),
                lambda: life.kill(DRIVER, rng),
                lambda: (kafka.kill(), kafka.start()),
            ),
            1,
        ):
            put(number, 1000)
            harm()
            wait_for(wanted.total() - rng.randrange(300))
        wait_for(wanted.total())
        life.end()
    assert found() == wanted
