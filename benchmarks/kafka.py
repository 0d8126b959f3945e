"""Kafka to a keyed count to PostgreSQL, beside a loop with the same clients and no engine.

`python -m benchmarks.kafka`. A broker and a database are started on this machine, as tests start
them. A topic is filled with messages of 100 bytes, then all of it is counted into a table: by the
bare loop, by Bytewax if it is installed, and by Fulmen with each guarantee. Rates are of the
messages after the warm ones, until the table has all of them. Latency is from the broker's
timestamp of a message to the commit of its row, as PostgreSQL has noted it.

`--first` measures that latency from the first message on, when nothing is warm. `--profile` shows
which functions take the time of one worker, in this process and without Spark.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib.util
import json
import pstats
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer

from benchmarks import goals, running
from benchmarks.kafka_loops import CREATE, message
from benchmarks.machine import machine
from benchmarks.running import Watcher, run_for
from benchmarks.shapes import FIRST_SECONDS
from fulmen.engine.driver.driver import Driver
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.topology.validation.check import check

Result = dict[str, Any]
TOPIC, PARTITIONS = "orders", 4
KEYS = 1_000
RATE = 1_000
END_SECONDS = 300
"""The longest that a run may take after it is warm."""


class Servers:
    """A broker with a full topic, and a database."""

    def __init__(self, kafka: Any, postgres: Any, messages: int) -> None:
        self.kafka, self.postgres, self.messages = kafka, postgres, messages
        postgres.run("ALTER SYSTEM SET track_commit_timestamp = on")
        postgres.kill()
        postgres.start()
        self._fill()

    def _fill(self) -> None:
        self.kafka.make_topic(TOPIC, PARTITIONS)
        keys = random.Random(7)
        some = [message(f"key-{keys.randrange(KEYS)}") for _ in range(100_000)]
        producer = Producer({"bootstrap.servers": self.kafka.address, "linger.ms": 50})
        for number in range(self.messages):
            while True:
                try:
                    producer.produce(TOPIC, some[number % len(some)], partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0

    def new_table(self) -> None:
        """An empty table, without marks."""
        schema = ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        self.postgres.run(*schema, CREATE)

    def counted(self) -> int:
        """How many messages the table has counted."""
        return int(self.postgres.run("SELECT coalesce(sum(count), 0) FROM counts")[0][0])

    def other(self, what: str, *more: object) -> Result:
        """What another process than Fulmen's does with all messages."""
        self.new_table()
        arguments = (self.kafka.address, TOPIC, self.messages, self.postgres.dsn, *more)
        command = [sys.executable, "-m", "benchmarks.kafka_loops", what, *map(str, arguments)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        assert self.counted() == self.messages
        found: Result = json.loads(done.stdout)
        return found

    def topology(self, topic: str, workers: int, guarantee: str) -> dict[str, Any]:
        """The document of Fulmen's."""
        brokers = {"bootstrap.servers": self.kafka.address}
        fields = {"type": "fields", "fields": ["key"]}
        spout = {
            "name": "orders",
            "class": "fulmen.connectors.kafka.KafkaSpout",
            "parallelism": workers,
            "config": {**brokers, "topic": topic, "format": {"type": "json", "fields": ["key"]}},
        }
        count = {
            "name": "count",
            "class": "orders.Count",
            "parallelism": workers,
            "inputs": [{"from": "orders", "grouping": fields}],
        }
        table = {
            "name": "table",
            "class": "fulmen.connectors.postgres.PostgresSink",
            "parallelism": workers,
            "inputs": [{"from": "count", "grouping": fields}],
            "config": {
                "guarantee": guarantee,
                "dsn": self.postgres.dsn,
                "table": "counts",
                "mode": "upsert",
                "key": ["key"],
            },
        }
        return running.document(spout, [count, table], workers=workers)


@contextmanager
def servers(messages: int, address: str = "127.0.0.1") -> Iterator[Servers]:
    """Both on an address of this machine's, until the end."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.servers.kafka_server import running_kafka
    from support.servers.postgres import running_postgres

    try:
        with running_kafka(address) as kafka, running_postgres(address) as postgres:
            yield Servers(kafka, postgres, messages)
    except pytest.skip.Exception as reason:
        sys.exit(str(reason))


def throughput(at: Servers, workers: int, guarantee: str, warm: float) -> Result:
    """Count all messages."""
    at.new_table()
    watcher = Watcher()
    with running.running(at.topology(TOPIC, workers, guarantee), watcher) as driver:
        until = time.monotonic() + warm
        while time.monotonic() < until and sum(watcher.acked) < at.messages / 3:
            driver.step()
        warmed, began = sum(watcher.acked), time.monotonic()
        watcher.seconds.clear()
        _count_the_rest(at, driver, watcher)
        elapsed = time.monotonic() - began
    return {
        "messages_per_second": round((at.messages - warmed) / elapsed),
        "batch_p50_ms": round(float(np.median(watcher.seconds)) * 1000, 1),
    }


def _count_the_rest(at: Servers, driver: Any, watcher: Watcher) -> None:
    """Batches until the table has all messages."""
    until = time.monotonic() + END_SECONDS
    while sum(watcher.acked) < at.messages or (counted := at.counted()) < at.messages:
        driver.step()
        if time.monotonic() > until:
            sys.exit(f"{sum(watcher.acked)} messages are acked after {END_SECONDS} s")
    assert counted == at.messages, f"{counted} counted, {at.messages} there"


def latency(at: Servers, workers: int, guarantee: str, warm: float, seconds: float) -> Result:
    """From the broker's timestamp to the commit of the row, at a fixed rate."""
    at.new_table()
    topic = f"paced-{workers}-{guarantee}"
    at.kafka.make_topic(topic, PARTITIONS, message_timestamp_type="LogAppendTime")
    command = [sys.executable, "-m", "benchmarks.kafka_loops", "produce", at.kafka.address]
    command += [topic, str(RATE), str(warm + seconds)]
    with running.running(at.topology(topic, workers, guarantee), Watcher()) as driver:
        run_for(driver, warm / 2)
        with subprocess.Popen(command) as producer:
            until = time.monotonic() + warm + seconds + END_SECONDS
            while producer.poll() is None or at.counted() < int(RATE * (warm + seconds)):
                run_for(driver, 1)
                assert time.monotonic() < until, "messages are missing"
    sent, rows = _sent_and_written(at, topic)
    begin = min(sent.values()) + 1000 * warm
    times = [row - sent[key] for key, row in rows if sent[key] >= begin]
    p50, p99 = np.percentile(times, (50, 99))
    return {
        "messages": len(times),
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
    }


def first(at: Servers, workers: int) -> Iterator[Result]:
    """The same latency, exactly once, from the first message on, by when the row was there."""
    at.new_table()
    topic = f"first-{workers}"
    at.kafka.make_topic(topic, PARTITIONS, message_timestamp_type="LogAppendTime")
    starts = time.monotonic()
    with (
        running.running(at.topology(topic, workers, "exactly-once"), Watcher()) as driver,
        producing(at, topic) as all_written,
    ):
        started = time.monotonic() - starts
        while not all_written():
            run_for(driver, 0.2)
    yield from of_first_seconds(at, topic, {"workers": workers, "start_s": round(started, 1)})


@contextmanager
def producing(at: Servers, topic: str) -> Iterator[Callable[[], bool]]:
    """Messages for the first seconds; whether all of them are in the table."""
    seconds = FIRST_SECONDS[-1]
    command = [sys.executable, "-m", "benchmarks.kafka_loops", "produce", at.kafka.address]
    until = time.monotonic() + END_SECONDS

    def all_written() -> bool:
        assert time.monotonic() < until, "messages are missing"
        return producer.poll() is not None and at.counted() >= RATE * seconds

    with subprocess.Popen([*command, topic, str(RATE), str(seconds)]) as producer:
        yield all_written


def of_first_seconds(at: Servers, topic: str, run: Result) -> Iterator[Result]:
    """What is known of a run, then latency and backlog in each of the first seconds."""
    sent, rows = _sent_and_written(at, topic)
    began = min(sent.values())
    first_row = (min(row for _, row in rows) - began) / 1000
    yield {**run, "first_row_s": round(first_row, 1)}
    for since, end in pairwise((0, *FIRST_SECONDS)):
        of = [row - sent[key] for key, row in rows if since < (row - began) / 1000 <= end]
        p50, p99 = np.percentile(of, (50, 99)) if of else (np.nan, np.nan)
        written = sum((row - began) / 1000 <= end for _, row in rows)
        yield {
            "workers": run["workers"],
            "seconds": f"{since} to {end}",
            "p50_ms": round(float(p50)) if of else None,
            "p99_ms": round(float(p99)) if of else None,
            "backlog": max(0, RATE * end - written),
        }


def _sent_and_written(at: Servers, topic: str) -> tuple[dict[str, int], list[tuple[str, float]]]:
    """When the broker got each message, and when its row was committed, in milliseconds."""
    sent = {json.loads(m.value())["key"]: m.timestamp()[1] for m in at.kafka.read(topic)}
    rows = at.postgres.run(
        "SELECT key, 1000 * extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM counts"
    )
    return sent, [(key, float(row)) for key, row in rows]


def measure(at: Servers, arguments: argparse.Namespace) -> Iterator[tuple[str, Result]]:
    """All figures, each with the name of its benchmark."""
    if arguments.first:
        for workers in arguments.workers:
            yield from (("kafka-first", found) for found in first(at, workers))
        return
    found = at.other("bare")
    bare = found["messages_per_second"]
    yield "kafka-bare", found
    for workers in arguments.workers if importlib.util.find_spec("bytewax") else ():
        found = at.other("bytewax", workers)
        yield "kafka-bytewax", {"workers": workers, **found, **_of_bare(found, bare)}
    for workers in arguments.workers:
        for guarantee in ("at-least-once", "exactly-once"):
            which = {"workers": workers, "guarantee": guarantee}
            found = throughput(at, workers, guarantee, arguments.warm)
            yield "kafka", {**which, **found, **_of_bare(found, bare)}
    for workers in arguments.workers:
        for guarantee in ("at-least-once", "exactly-once"):
            which = {"workers": workers, "guarantee": guarantee, "rate": RATE}
            found = latency(at, workers, guarantee, arguments.warm, arguments.seconds)
            yield "kafka-latency", {**which, **found}


def _of_bare(found: Mapping[str, Any], bare: float) -> Result:
    return {"of_bare": round(found["messages_per_second"] / bare, 2)}


def profile(at: Servers) -> None:
    """Print the functions that take most of the time."""
    at.new_table()
    content = at.topology(TOPIC, 1, "exactly-once")
    runnable = check(content, running.TOPOLOGIES).runnable(running.TOPOLOGIES)
    watcher, profiler = Watcher(), cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(runnable, InProcessJobs(), f"file://{folder}/checkpoint", watcher).start()
        profiler.runcall(_count_the_rest, at, driver, watcher)
        driver.close()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    """Print a line of JSON for each figure, and the table of goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a look that takes three minutes")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="default: 1 2")
    parser.add_argument("--messages", type=int, default=6_000_000, help="in the topic")
    parser.add_argument("--warm", type=float, default=20, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=30, help="seconds of latency")
    parser.add_argument("--first", action="store_true", help="latency of the first seconds only")
    parser.add_argument("--profile", action="store_true", help="functions instead of figures")
    arguments = parser.parse_args()
    if arguments.small:
        arguments.messages, arguments.warm, arguments.seconds = 400_000, 5.0, 5.0
    results = goals.Results()
    with servers(arguments.messages) as at:
        if arguments.profile:
            profile(at)
            return
        print(machine())
        for benchmark, result in measure(at, arguments):
            results.add(benchmark, result)
            print(json.dumps({"benchmark": benchmark, **result}), flush=True)
    print("\n".join(goals.table(results)))


if __name__ == "__main__":
    main()
