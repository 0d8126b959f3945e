"""What Fulmen has written beside what the plain loop has, in the folder where both ran."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

Written = Counter[Any]
"""How often each row was written."""
Check = Callable[[], tuple[Written, Written]]
"""Gives what Fulmen has written, and what the loop has."""


def difference(check: Check) -> str:
    """What is not equal; "": all is."""
    try:
        ours, of_loop = check()
    except Exception as error:  # noqa: BLE001 (of any client: other jobs are still measured)
        return f"{type(error).__name__}: {error}"
    if not of_loop:
        return "the loop has written nothing"
    more, less = ours - of_loop, of_loop - ours
    if not (more or less):
        return ""
    some = [f"{list(one.items())[:2]!r:.200}" for one in (more, less)]
    return (
        f"{more.total()} rows too many, such as {some[0]}; {less.total()} lack, such as {some[1]}"
    )


def _sqlite(file: str, query: str) -> Written:
    with closing(sqlite3.connect(file)) as db:
        return Counter(db.execute(query))


def flights() -> tuple[Written, Written]:
    """Counts by airline."""
    query = "SELECT airline, departed, cancelled, minutes FROM delays"
    return _sqlite("carriers.db", query), _sqlite("loop.db", query)


def hooks() -> tuple[Written, Written]:
    """How many hours of each airport are there, and the strongest gusts. Times differ in form."""
    query = "SELECT origin, count(*), count(temp), count(gust), max(gust) FROM hours GROUP BY 1"
    return _sqlite("hours.db", query), _sqlite("loop.db", query)


def _parquet(ours: str, of_loop: str, **options: Any) -> tuple[Written, Written]:
    import pyarrow.dataset as ds

    theirs = ds.dataset(of_loop, **options).to_table()
    found = ds.dataset(ours, format="parquet", **options).to_table(columns=theirs.column_names)
    written = [
        Counter(zip(*(t[name].to_pylist() for name in t.column_names), strict=True))
        for t in (found, theirs)
    ]
    return written[0], written[1]


def planes() -> tuple[Written, Written]:
    """All rows."""
    return _parquet("planes", "planes.parquet")


def weather() -> tuple[Written, Written]:
    """All rows, in the bucket."""
    import pyarrow.fs as fs

    endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ["AWS_ENDPOINT_URL_S3"]
    store = fs.S3FileSystem(endpoint_override=endpoint)
    return _parquet("fulmen/weather", "fulmen/loop.parquet", filesystem=store)


def _redis() -> Any:
    import redis

    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def changelogs() -> tuple[Written, Written]:
    """All counts."""
    client = _redis()
    return Counter(client.hgetall("changelog-words").items()), Counter(
        client.hgetall("loop-words").items()
    )


def work() -> tuple[Written, Written]:
    """The entries of the lists."""
    client = _redis()
    keys = ("airports", "loop-airports")
    ours, theirs = (_objects(client.lrange(key, 0, -1)) for key in keys)
    return ours, theirs


def _objects(lines: Iterable[str | bytes]) -> Written:
    """Objects of JSON, with equal texts for equal ones."""
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def _postgres(query: str) -> Written:
    import psycopg

    with psycopg.connect(os.environ["DSN"]) as db:
        return Counter(db.execute(query))


def packages() -> tuple[Written, Written]:
    """All rows."""
    return _postgres("SELECT * FROM packages"), _postgres("SELECT * FROM loop_packages")


def wordtable() -> tuple[Written, Written]:
    """All counts."""
    ours, theirs = (f"SELECT key, value FROM {t}" for t in ("changelog_words", "loop_words"))
    return _postgres(ours), _postgres(theirs)


def airports() -> tuple[Written, Written]:
    """All lines; and of the topic, to which both have written, what is there not exactly twice."""
    from confluent_kafka import Consumer

    files = Path("airports").glob("*.jsonl")
    ours = _objects(line for path in files for line in path.read_bytes().splitlines())
    theirs = _objects(Path("loop.jsonl").read_bytes().splitlines())
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA"],
            "group.id": "check",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["airports"])
    sent: Counter[Any] = Counter()
    while some := consumer.consume(10_000, 10.0):
        sent.update(_objects(message.value() for message in some))
    consumer.close()
    ours.update({one: n - 2 for one, n in sent.items()})
    return ours, theirs


def _queues(*names: str) -> tuple[Written, Written]:
    """How many messages are in queues."""
    import pika  # type: ignore[import-untyped]

    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))
    channel = connection.channel()
    counts = [channel.queue_declare(name, passive=True).method.message_count for name in names]
    connection.close()
    return Counter(messages=counts[0]), Counter(messages=counts[1])


def ages() -> tuple[Written, Written]:
    """The number of messages."""
    return _queues("ages", "loop-ages")


def intake() -> tuple[Written, Written]:
    """The number of messages."""
    return _queues("planes", "loop-planes")


def _csv(paths: Iterable[Path], header: tuple[str, ...]) -> Written:
    rows: Written = Counter()
    for path in paths:
        unpacked = gzip.open if path.suffix == ".gz" else open
        with unpacked(path, "rt", newline="") as file:
            rows.update(map(tuple, csv.reader(file)))
    del rows[header]
    return rows


def gusts() -> tuple[Written, Written]:
    """All rows."""
    header = ("origin", "at", "gust")
    return _csv(Path("gusts").glob("*.csv.gz"), header), _csv([Path("loop.csv.gz")], header)


def hours() -> tuple[Written, Written]:
    """All rows."""
    header = ("id", "origin", "time_hour", "temp", "wind_gust")
    return _csv(Path("hours").glob("*.csv"), header), _csv([Path("loop.csv")], header)


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        *(flights, planes, weather, changelogs, packages, airports),
        *(ages, gusts, hours, intake, work, hooks, wordtable),
    )
}
