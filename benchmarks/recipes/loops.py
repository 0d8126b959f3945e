"""The jobs of the recipes in plain Python: what `benchmarks.recipes` compares with.

Each loop reads what the recipe reads and writes what it writes, with the same clients, up to 10,000
rows at a time, in one thread. None keeps state on a disk, tries anything again or gives a
guarantee. A loop returns how many rows it has read.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

AT_ONCE = 10_000
CHANGES = {"install", "upgrade", "remove", "purge"}
STARTED: list[tuple[float, float]] = []
"""The time and the CPU time when the first message came, of a source that takes seconds to
begin."""
Write = Callable[[list[Any]], None]
Loop = Callable[[], int]


def now() -> tuple[float, float]:
    """The time, and the CPU time of this process, in seconds."""
    return time.monotonic(), time.process_time()


def chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Rows, so many at a time."""
    left = iter(rows)
    while some := list(islice(left, AT_ONCE)):
        yield some


def each(rows: Iterable[Any], write: Write) -> int:
    """Write all rows. Returns how many there were."""
    number = 0
    for some in chunks(rows):
        write(some)
        number += len(some)
    return number


def table(file: str) -> Iterator[dict[str, Any]]:
    """The rows of a CSV file, with None for NA."""
    with Path(file).open(newline="", encoding="utf-8") as opened:
        for row in csv.DictReader(opened):
            yield {name: None if text == "NA" else text for name, text in row.items()}


def changelog_lines() -> Iterator[str]:
    """The lines of all changelogs that are UTF-8."""
    names = sorted(Path("doc").glob("*/changelog.Debian.gz"))
    for path in {path.resolve(): path for path in names}:
        with gzip.open(path, "rb") as file:
            for line in file:
                try:
                    yield line.decode()
                except UnicodeDecodeError:
                    continue


def words(line: str) -> list[str]:
    """The words of a line."""
    return re.findall(r"[a-z]+", line.lower())


# ---- jobs ----------------------------------------------------------------------------------------


class Delays:
    """Counts flights by airline, into a table of SQLite."""

    def __init__(self, database: str) -> None:
        self.names = {row["carrier"]: row["name"] for row in table("airlines.csv")}
        self.counts: dict[str, list[int]] = {}
        self.db = sqlite3.connect(database, check_same_thread=False)
        self.db.execute("CREATE TABLE delays (airline PRIMARY KEY, departed, cancelled, minutes)")

    def write(self, rows: list[tuple[str, int | None]]) -> None:
        """Count rows, and write the counts that have changed."""
        changed = set()
        for carrier, delay in rows:
            airline = self.names[carrier]
            found = self.counts.setdefault(airline, [0, 0, 0])
            found[delay is None] += 1
            found[2] += delay or 0
            changed.add(airline)
        values = [[airline, *self.counts[airline]] for airline in changed]
        self.db.executemany("INSERT OR REPLACE INTO delays VALUES (?, ?, ?, ?)", values)
        self.db.commit()


def flights_parsed() -> Iterator[tuple[str, int | None]]:
    """Carrier and delay of each flight."""
    for row in table("flights.csv"):
        yield row["carrier"], None if row["dep_delay"] is None else int(row["dep_delay"])


def flights() -> int:
    """CSV to counts in SQLite."""
    return each(flights_parsed(), Delays("loop.db").write)


def typed(row: dict[str, Any], kinds: dict[str, Callable[[str], Any]]) -> dict[str, Any]:
    """A row with values of these types."""
    return {n: None if row[n] is None else kind(row[n]) for n, kind in kinds.items()}


def _parquet(file: str, path: str, kinds: dict[str, Any], schema: Any) -> int:
    import pyarrow as pa
    import pyarrow.fs as fs
    import pyarrow.parquet as pq

    store, place = (fs.LocalFileSystem(), path)
    if path.startswith("s3://"):
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ["AWS_ENDPOINT_URL_S3"]
        store = fs.S3FileSystem(endpoint_override=endpoint)
        place = path.removeprefix("s3://")
    with store.open_output_stream(place) as out, pq.ParquetWriter(out, schema) as writer:
        return each(
            (typed(row, kinds) for row in table(file)),
            lambda rows: writer.write_table(pa.Table.from_pylist(rows, schema)),
        )


def planes() -> int:
    """CSV to Parquet."""
    import pyarrow as pa

    kinds = dict.fromkeys(
        ["tailnum", "year", "type", "manufacturer", "model", "engines", "seats", "speed", "engine"],
        str,
    ) | {"year": int, "engines": int, "seats": int, "speed": float}
    of = {str: pa.string(), int: pa.int32(), float: pa.float64()}
    schema = pa.schema([(name, of[kind]) for name, kind in kinds.items()])
    return _parquet("planes.csv", "planes.parquet", kinds, schema)


def weather() -> int:
    """CSV to Parquet in a bucket."""
    import pyarrow as pa

    kinds = {"origin": str, "time_hour": datetime.fromisoformat, "temp": float}
    kinds |= {"wind_gust": float, "precip": lambda text: Decimal(text).quantize(Decimal("0.01"))}
    types = (pa.string(), pa.timestamp("us", "UTC"), pa.float64(), pa.float64())
    types += (pa.decimal128(6, 2),)
    schema = pa.schema(list(zip(kinds, types, strict=True)))
    return _parquet("weather.csv", "s3://fulmen/loop.parquet", kinds, schema)


class WordsInRedis:
    """Counts words, into a hash."""

    def __init__(self) -> None:
        import redis

        self.client = redis.Redis.from_url(os.environ["REDIS_URL"])
        self.counts: Counter[str] = Counter()

    def write(self, lines: list[str]) -> None:
        """Count the words of lines, and write the counts that have changed."""
        found = Counter(word for line in lines for word in words(line))
        self.counts.update(found)
        if found:
            mapping = {word: self.counts[word] for word in found}
            self.client.hset("loop-words", mapping=mapping)


def changelogs() -> int:
    """Compressed lines to counts in Redis."""
    return each(changelog_lines(), WordsInRedis().write)


class Packages:
    """Parses lines of a log, into a table of PostgreSQL by COPY."""

    def __init__(self, name: str = "loop_packages") -> None:
        import psycopg

        with Path("sections.csv").open(newline="") as file:
            self.sections = dict(csv.reader(file))
        self.copy = f"COPY {name} FROM STDIN"
        self.db = psycopg.connect(os.environ["DSN"], autocommit=True)
        self.db.execute(
            f"CREATE TABLE {name} (at timestamp, action text, package text, section text,"
            " architecture text, before text, after text)"
        )

    def parsed(self, line: str) -> tuple[Any, ...] | None:
        """The row of a line, if it is about a change."""
        day, time, action, *rest = line.rstrip("\n").split(" ")
        at = datetime.fromisoformat(f"{day} {time}")
        if action not in CHANGES:
            return None
        name, *versions = rest
        package, _, architecture = name.partition(":")
        known = [None if version == "<none>" else version for version in versions]
        return at, action, package, self.sections.get(package), architecture, *known

    def write(self, lines: list[str]) -> None:
        """Parse lines, and copy their rows."""
        with self.db.cursor() as cursor, cursor.copy(self.copy) as copy:
            for row in map(self.parsed, lines):
                if row is not None:
                    copy.write_row(row)


def log_lines() -> Iterator[str]:
    """The lines of the log."""
    with Path("dpkg.log").open() as file:
        yield from file


def packages() -> int:
    """A log to PostgreSQL."""
    return each(log_lines(), Packages().write)


def airports() -> int:
    """PostgreSQL to Kafka and JSON lines."""
    import orjson
    import psycopg
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": os.environ["KAFKA"]})
    query = "SELECT code, name, place, feet, number, clock FROM airports ORDER BY id"
    with psycopg.connect(os.environ["DSN"]) as db, Path("loop.jsonl").open("wb") as out:
        cursor = db.cursor("rows")
        cursor.itersize = AT_ONCE
        names = ("code", "name", "place", "feet", "number", "clock")

        def write(rows: list[Any]) -> None:
            for row in rows:
                values = dict(zip(names, row, strict=True))
                line = orjson.dumps(values, default=float)
                producer.produce("airports", line, row[0])
                out.write(line + b"\n")
            producer.flush()

        return each(cursor.execute(query), write)


def ages() -> int:
    """Kafka to RabbitMQ."""
    import orjson
    import pika  # type: ignore[import-untyped]
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": os.environ["KAFKA"], "group.id": "loop"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 10})
    consumer.subscribe(["planes"])
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))
    channel = connection.channel()
    channel.queue_declare("loop-ages", durable=True)
    number, wanted = 0, len(Path("planes.csv").read_text().splitlines())
    while number < wanted:
        some = consumer.consume(AT_ONCE, 1.0)
        STARTED.extend([now()] if some and not STARTED else [])
        for row in csv.reader([message.value().decode() for message in some]):
            if row[1].isdigit():
                body = orjson.dumps({"tailnum": row[0], "age": 2013 - int(row[1])})
                properties = pika.BasicProperties(message_id=row[0], delivery_mode=2)
                channel.basic_publish("", "loop-ages", body, properties)
        number += len(some)
    connection.close()
    consumer.close()
    return number


def gusts() -> int:
    """A query in SQLite to compressed CSV."""
    query = "SELECT origin, at, gust FROM weather WHERE gust > 40 OR origin = 'LGA' ORDER BY id"
    with gzip.open("loop.csv.gz", "wt", newline="") as out:
        writer = csv.writer(out)
        rows = sqlite3.connect("weather.db").execute(query)
        return each(
            ((origin, at, "NA" if gust is None else gust) for origin, at, gust in rows),
            writer.writerows,
        )


def hours() -> int:
    """A stream of Redis to CSV."""
    import redis

    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    client.xgroup_create("weather-hours", "loop", "0")
    number = 0
    with Path("loop.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        while answer := client.xreadgroup("loop", "me", {"weather-hours": ">"}, 1000):
            entries = answer[0][1]
            for entry_id, fields in entries:
                names = ("origin", "time_hour", "temp", "wind_gust")
                writer.writerow([entry_id, *(fields.get(name, "NA") for name in names)])
            client.xack("weather-hours", "loop", *(entry_id for entry_id, _ in entries))
            number += len(entries)
    return number


def intake() -> int:
    """CSV to Avro in RabbitMQ, with the schema's id as a registry's clients write it."""
    from io import BytesIO

    import fastavro
    import pika

    nullable = ["null", "int"]
    fields = [("tailnum", "string"), ("manufacturer", "string"), ("seats", "int")]
    columns = [{"name": n, "type": t} for n, t in [*fields, ("year", nullable)]]
    schema = fastavro.parse_schema({"type": "record", "name": "Plane", "fields": columns})
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))
    channel = connection.channel()
    channel.queue_declare("loop-planes", durable=True)

    def write(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            values = typed(row, {"tailnum": str, "manufacturer": str, "seats": int, "year": int})
            body = BytesIO(b"\0\0\0\0\1")
            body.seek(5)
            fastavro.schemaless_writer(body, schema, values)
            properties = pika.BasicProperties(message_id=row["tailnum"], delivery_mode=2)
            channel.basic_publish("", "loop-planes", body.getvalue(), properties)

    number = each(table("planes.csv"), write)
    connection.close()
    return number


def work() -> int:
    """A queue in PostgreSQL to a list of Redis."""
    import psycopg
    import redis

    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    take = (
        "DELETE FROM airport_queue WHERE code IN (SELECT code FROM airport_queue LIMIT 1000"
        " FOR UPDATE SKIP LOCKED) RETURNING code, feet, zone"
    )
    number = 0
    with psycopg.connect(os.environ["DSN"]) as db:
        while rows := db.execute(take).fetchall():
            made = [{"code": c, "meters": round(f * 0.3048), "zone": z} for c, f, z in rows]
            client.rpush("loop-airports", *map(json.dumps, made))
            db.commit()
            number += len(rows)
    return number


def wordtable() -> int:
    """Kafka to counts in PostgreSQL."""
    import psycopg
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": os.environ["KAFKA"], "group.id": "loop"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 10})
    consumer.subscribe(["changelog-lines"])
    number, wanted = 0, sum(1 for _ in changelog_lines_of_all_names())
    with psycopg.connect(os.environ["DSN"], autocommit=True) as db:
        db.execute("CREATE TABLE loop_words (key text PRIMARY KEY, value bigint NOT NULL)")
        upsert = (
            "INSERT INTO loop_words AS w SELECT * FROM unnest(%s::text[], %s::bigint[])"
            " ON CONFLICT (key) DO UPDATE SET value = w.value + excluded.value"
        )
        while number < wanted:
            some = consumer.consume(min(AT_ONCE, wanted - number), 1.0)
            STARTED.extend([now()] if some and not STARTED else [])
            found: Counter[str] = Counter()
            for message in some:
                found.update(words(message.value().decode(errors="replace")))
            if some:
                db.execute(upsert, [list(found), list(found.values())])
                consumer.commit(asynchronous=False)
            number += len(some)
    consumer.close()
    return number


def hooks() -> int:
    """HTTP to SQLite: each request is committed before it is answered."""
    import asyncio

    import orjson
    from aiohttp import web

    db = sqlite3.connect("loop.db")
    db.execute("CREATE TABLE hours (origin TEXT, at TEXT, temp REAL, gust REAL)")
    number, wanted = 0, sum(1 for _ in table("weather.csv"))

    async def serve() -> None:
        is_done = asyncio.Event()

        async def answer(request: web.Request) -> web.Response:
            nonlocal number
            STARTED.extend([] if STARTED else [now()])
            rows = [orjson.loads(line) for line in (await request.read()).splitlines()]
            with db:
                db.executemany("INSERT INTO hours VALUES (:origin, :at, :temp, :gust)", rows)
            number += len(rows)
            if number >= wanted:
                is_done.set()
            return web.json_response({"messages": len(rows)})

        app = web.Application()
        app.add_routes([web.post("/hours", answer)])
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 8080).start()
        await is_done.wait()
        await runner.cleanup()

    asyncio.run(serve())
    return number


def changelog_lines_of_all_names() -> Iterator[bytes]:
    """The lines of all changelogs by all of their names, as the recipe's program sends them."""
    for path in sorted(Path("doc").glob("*/changelog.Debian.gz")):
        with gzip.open(path, "rb") as file:
            yield from file


LOOPS: dict[str, Loop] = {
    loop.__name__: loop
    for loop in (
        *(flights, planes, weather, changelogs, packages, airports),
        *(ages, gusts, hours, intake, work, hooks, wordtable),
    )
}
