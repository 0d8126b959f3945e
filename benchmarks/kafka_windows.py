"""How long after its end a window's result is in the store: `python -m benchmarks.kafka_windows`.

Clicks of 1,000 users come to a topic, 10,000 a second with the time they are made at. They are
counted by user in windows of two seconds, whose rows go to PostgreSQL exactly once. Latency is from
the end of the window to the commit of its row, as PostgreSQL has noted it. Broker and database are
started on this machine, as tests start them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Producer

from benchmarks import goals, running
from benchmarks.kafka import PARTITIONS, Result, Servers, servers
from benchmarks.machine import machine
from benchmarks.running import Watcher, run_for

RATE, USERS = 10_000, 1_000
SIZE_SECONDS = 2
TABLE = (
    'CREATE TABLE windows ("user" text, window_start timestamptz, window_end timestamptz,'
    " clicks bigint)"
)
LATENCIES = (
    "SELECT 1000 * extract(epoch FROM pg_xact_commit_timestamp(xmin) - window_end) FROM windows"
    " WHERE window_start >= to_timestamp({}) AND window_end <= to_timestamp({})"
)


def topology(at: Servers, topic: str, workers: int) -> dict[str, Any]:
    """The document of it."""
    spout = {
        "name": "clicks",
        "class": "fulmen.connectors.kafka.KafkaSpout",
        "parallelism": workers,
        "config": {
            "bootstrap.servers": at.kafka.address,
            "topic": topic,
            "format": {"type": "json", "fields": ["user", "at"]},
        },
        "eventTime": {"field": "at", "unit": "ms"},
    }
    per_user = {
        "name": "per-user",
        "class": "fulmen.windows.Aggregate",
        "parallelism": workers,
        "inputs": [{"from": "clicks", "grouping": {"type": "fields", "fields": ["user"]}}],
        "config": {
            "key": ["user"],
            "window": {"type": "tumbling", "size": f"{SIZE_SECONDS}s"},
            "aggregates": {"clicks": "count"},
        },
    }
    table = {
        "name": "table",
        "class": "fulmen.connectors.postgres.PostgresSink",
        "parallelism": workers,
        "inputs": [{"from": "per-user", "grouping": {"type": "local-or-shuffle"}}],
        "config": {"guarantee": "exactly-once", "dsn": at.postgres.dsn, "table": "windows"},
    }
    return running.document(spout, [per_user, table], workers=workers)


def measure(at: Servers, workers: int, warm: float, seconds: float) -> Result:
    """Windows that began after the warm seconds."""
    at.new_table()
    at.postgres.run(TABLE)
    topic = f"clicks-{workers}"
    at.kafka.make_topic(topic, PARTITIONS)
    command = [sys.executable, "-m", "benchmarks.kafka_windows", "--produce", at.kafka.address]
    command += ["--topic", topic, "--seconds", str(warm + seconds)]
    with (
        running.running(topology(at, topic, workers), Watcher()) as driver,
        subprocess.Popen(command) as producer,
    ):
        began = time.time() + warm
        while producer.poll() is None:
            run_for(driver, 0.2)
        run_for(driver, 5)
    # The last click came before the end of the last window.
    found = at.postgres.run(LATENCIES.format(began, began + seconds - SIZE_SECONDS))
    times = [float(milliseconds) for (milliseconds,) in found]
    p50, p99 = np.percentile(times, (50, 99))
    return {
        "workers": workers,
        "rate": RATE,
        "windows": len(times),
        "p50_ms": round(float(p50)),
        "p99_ms": round(float(p99)),
    }


def produce(brokers: str, topic: str, seconds: float) -> None:
    """Clicks at a fixed rate."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5})
    start = time.monotonic()
    for number in range(int(RATE * seconds)):
        while (wait := start + number / RATE - time.monotonic()) > 0:
            producer.poll(wait)
        click = {"user": f"user-{number % USERS}", "at": time.time_ns() // 1_000_000}
        producer.produce(topic, orjson.dumps(click), partition=number // 10 % PARTITIONS)
    assert producer.flush(30) == 0


def main() -> None:
    """Print a line of JSON for each number of workers, and the table of goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_windows", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="default: 1 2")
    parser.add_argument("--warm", type=float, default=30, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=30, help="seconds of measuring")
    parser.add_argument("--produce", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.produce:
        produce(given.produce, given.topic, given.seconds)
        return
    results = goals.Results()
    print(machine())
    with servers(0) as at:
        for workers in given.workers:
            found = measure(at, workers, given.warm, given.seconds)
            results.add("windows-latency", found)
            print(json.dumps({"benchmark": "windows-latency", **found}), flush=True)
    print("\n".join(goals.table(results)))


if __name__ == "__main__":
    main()
