"""What the Kafka benchmark is compared with, and the load that it gets. Each is a process.

python -m benchmarks.kafka_loops bare BROKERS TOPIC MESSAGES DSN
python -m benchmarks.kafka_loops bytewax BROKERS TOPIC MESSAGES DSN THREADS
python -m benchmarks.kafka_loops produce BROKERS TOPIC RATE SECONDS

`bare` and `bytewax` print how many messages a second they count into the table `counts`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, Producer

MESSAGE_BYTES = 100
AT_ONCE = 10_000
"""So many messages are taken, counted and written together."""
CREATE = "CREATE TABLE counts (key text PRIMARY KEY, count bigint NOT NULL)"
UPSERT = (
    "INSERT INTO counts (key, count) SELECT * FROM unnest(%s::text[], %s::bigint[])"
    " ON CONFLICT (key) DO UPDATE SET count = excluded.count"
)


def message(key: str) -> bytes:
    """100 bytes of JSON."""
    bare = orjson.dumps({"key": key, "text": ""})
    return orjson.dumps({"key": key, "text": "x" * (MESSAGE_BYTES - len(bare))})


def upsert(db: psycopg.Connection[Any], counts: dict[str, int]) -> None:
    """Write counts in one statement."""
    db.execute(UPSERT, [list(counts), list(counts.values())])


def bare(brokers: str, topic: str, messages: int, dsn: str) -> float:
    """One loop, with the same clients and no engine: at least once, without state on a disk."""
    settings = {"bootstrap.servers": brokers, "group.id": "bare", "enable.auto.commit": False}
    settings |= {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 10}  # as Fulmen's
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    counts: dict[str, int] = {}
    with psycopg.connect(dsn, autocommit=True) as db:
        left, began = messages, 0.0
        while left:
            found = consumer.consume(min(AT_ONCE, left), 1.0)
            began = began or (time.monotonic() if found else 0.0)  # the group has formed
            changed: set[str] = set()
            for one in found:
                assert one.error() is None, one.error()
                key = orjson.loads(one.value() or b"")["key"]
                counts[key] = counts.get(key, 0) + 1
                changed.add(key)
            if found:
                upsert(db, {key: counts[key] for key in changed})
                consumer.commit(asynchronous=False)
            left -= len(found)
        elapsed = time.monotonic() - began
    consumer.close()
    return messages / elapsed


def bytewax(brokers: str, topic: str, messages: int, dsn: str, threads: int) -> float:
    """Bytewax with its own source of Kafka, without recovery: it keeps no state on a disk."""
    import bytewax.operators as op
    from bytewax.connectors.kafka import KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import cluster_main

    class Part(StatelessSinkPartition[tuple[str, int]]):
        def __init__(self) -> None:
            self.db = psycopg.connect(dsn, autocommit=True)

        def write_batch(self, items: list[tuple[str, int]]) -> None:
            upsert(self.db, dict(items))  # of several of one key, the last

    class Table(DynamicSink[tuple[str, int]]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
            del step_id, worker_index, worker_count
            return Part()

    def count(state: int | None, more: int) -> tuple[int, int]:
        number = (state or 0) + more
        return number, number

    def keys(found: Any) -> Iterable[tuple[str, int]]:
        return [(orjson.loads(found.value)["key"], 1)]

    flow = Dataflow("counts")
    source = KafkaSource([brokers], [topic], tail=False, batch_size=AT_ONCE)
    keyed = op.flat_map("key", op.input("messages", flow, source), keys)
    op.output("table", op.stateful_map("count", keyed, count), Table())
    began = time.monotonic()
    cluster_main(flow, [], 0, worker_count_per_proc=threads)
    return messages / (time.monotonic() - began)


def produce(brokers: str, topic: str, rate: float, seconds: float) -> None:
    """Messages at a fixed rate, each with a key of its own."""
    producer = Producer({"bootstrap.servers": brokers})
    start = time.monotonic()
    for number in range(int(rate * seconds)):
        while (wait := start + number / rate - time.monotonic()) > 0:
            producer.poll(wait)
        producer.produce(topic, message(f"key-{number}"))
    assert producer.flush(30) == 0


def main(what: str, brokers: str, topic: str, *more: str) -> None:
    """Do it, and print the figure."""
    if what == "produce":
        produce(brokers, topic, float(more[0]), float(more[1]))
        return
    if what == "bare":
        rate = bare(brokers, topic, int(more[0]), more[1])
    else:
        rate = bytewax(brokers, topic, int(more[0]), more[1], int(more[2]))
    print(json.dumps({"messages_per_second": round(rate)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
