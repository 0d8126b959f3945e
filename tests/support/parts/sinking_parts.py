"""A source that repeats nothing, and sinks that say when they begin to write.

`limits.json` says how many rows each task of the source has by now. What is in a row is random, and
its task keeps it, so that the checkpoint says what was emitted. A row with a high amount is refused
by the table. Under exactly-once it goes to a bolt that keeps it, else its tree fails.
"""

import json
import os
import random
import time
from pathlib import Path

from fulmen import BasicBolt, FailedException, Spout
from fulmen.api import StoreMismatch
from fulmen.connectors.http import HttpSink
from fulmen.connectors.kafka import KafkaSink
from fulmen.connectors.postgres import PostgresSink
from fulmen.connectors.rabbitmq import RabbitSink
from fulmen.connectors.redis import RedisSink
from fulmen.connectors.sqlite import SqliteSink

KEYS = 8
REFUSED = 240
"""Amounts from here on are refused, which are 6 %."""
COLUMNS = ("id", "key", "number", "amount")
PARTITIONS = 3
"""Of a topic: a row that is to be refused there names the one behind the last."""
FAILED = 20
"""Of 256 messages so many fail, which are then emitted again."""
LONGEST_PAUSE = 0.1
UNFORESEEN = random.SystemRandom()


def byte():
    return os.urandom(1)[0]


def tell(folder, file, text=""):
    """Append a line, as one write."""
    with open(Path(folder) / file, "ab", buffering=0) as f:
        f.write(f"{text}\n".encode())


class Source(Spout):
    """Emits random rows up to its limit, and keeps them by their numbers."""

    outputs = (*COLUMNS, "partition")

    def __init__(self):
        self.emitted = 0
        self.failed = []

    def open(self, conf, context, collector):
        self.collector, self.task = collector, context.task_index
        self.file = str(Path(conf["folder"]) / "limits.json")

    def next_tuple(self):
        limit = json.loads(Path(self.file).read_text())[self.task]
        for _ in range(min(byte() % 5, limit - self.emitted)):
            self.emitted += 1
            number = int.from_bytes(os.urandom(7), "little")
            row = number, f"{self.task}-{byte() % KEYS}", self.emitted, byte()
            self.state[self.emitted] = row
            partition = PARTITIONS if row[3] >= REFUSED else None
            self.collector.emit((*row, partition), msg_id=self.emitted)

    def fail(self, msg_id, reason):
        self.failed.append((msg_id, reason))


class Doubtful(BasicBolt):
    """Passes on most of what it gets, and fails the rest."""

    outputs = ("id",)

    def execute(self, tup, collector):
        if byte() < FAILED:
            raise FailedException("not this time")
        collector.emit([tup["id"]])


class Noted:
    """A sink that says when it begins to write, and when it comes too late."""

    def prepare(self, conf, context):
        super().prepare(conf, context)
        self.folder = conf["folder"]

    def write(self, rows, mark):
        tell(self.folder, "commits")
        time.sleep(LONGEST_PAUSE * UNFORESEEN.random() ** 4)
        while (Path(self.folder) / "hold").exists():
            time.sleep(0.02)
        try:
            super().write(rows, mark)
        except StoreMismatch as error:
            tell(self.folder, "refused", error)
            raise


class PostgresRows(Noted, PostgresSink):
    pass


class SqliteRows(Noted, SqliteSink):
    pass


class RedisRows(Noted, RedisSink):
    pass


class KafkaRows(Noted, KafkaSink):
    pass


class RabbitRows(Noted, RabbitSink):
    pass


class HttpRows(Noted, HttpSink):
    pass


def id_in(row):
    """The id of a refused row as its sink describes it; None: it is not in this part of it.

    It is a column, or in the JSON of a message or of what is pushed to a list.
    """
    if isinstance(row, dict) and "id" in row:
        return int(row["id"])
    if isinstance(row, bytes | str):
        return json.loads(row)["id"] if row[:1] in ("{", b"{") else None
    parts = row.values() if isinstance(row, dict) else row if isinstance(row, list | tuple) else ()
    return next((found for part in parts if (found := id_in(part)) is not None), None)


class Refused(BasicBolt):
    """Keeps how often each row was refused."""

    def execute(self, tup, collector):
        number = id_in(tup["row"])
        self.state[number] = self.state.get(number, 0) + 1
