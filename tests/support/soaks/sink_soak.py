"""Random kills of topologies with sinks, and of the servers that these write to.

Under exactly-once a table, the lists of a Redis, or a topic must have each row that was committed,
once, and no other one. Under at-least-once a topic or a queue must have each, and may have more.
After each round they are compared with what the checkpoint says was emitted.

    make soak SOAK_ARGS="--sinks postgres --kills 50"
"""

import json
import random
import shutil
import signal
import sqlite3
import tempfile
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from fulmen.checkpoint import Store, read_newest
from support.lives.processes import PAUSE
from support.parts import sinking_parts as parts
from support.runs.spark_topologies import Committed
from support.servers.cut_proxy import cut_proxy
from support.servers.kafka_server import running_kafka
from support.servers.keyed_endpoint import running_endpoint
from support.servers.postgres import running_postgres
from support.servers.rabbitmq_server import running_rabbitmq
from support.servers.redis_server import running_redis
from support.soaks.transaction_run import Difference, TransactionRun
from support.soaks.transaction_soak import Figures, KilledTransactions
from support.stores.audited_stores import AuditedPostgres, AuditedRedis, AuditedSqlite
from support.stores.broker_tables import HttpTables, KafkaTopics, RabbitQueues

ROWS = (
    f"CREATE TABLE rows (id bigint, key text, number integer, amount integer CHECK (amount <"
    f" {parts.REFUSED}))"
)
LATEST = "CREATE TABLE latest (key text PRIMARY KEY, number integer)"
EXACT = ("sqlite", "postgres", "redis", "kafka")
ROUNDS_OF_TOPOLOGY = 8
KINDS = (*EXACT, "kafka-at-least-once", "rabbitmq", "http")


class Tables:
    """Two tables of a SQL database, which `run` asks."""

    guarantee = "exactly-once"
    modes = ("insert",)

    def rows(self):
        """All rows: id, key, number and amount."""
        return self.run("SELECT id, key, number, amount FROM rows")

    def latest(self):
        """Key and number of the second table."""
        return self.run("SELECT key, number FROM latest")

    def of_rows(self, mode):
        """The config of the sink that adds rows."""
        columns = {name: name for name in parts.COLUMNS}
        return {**self.config(), "table": "rows", "mode": mode, "columns": columns}

    def of_latest(self):
        """The config of the sink that keeps the latest of each key."""
        columns = {"key": "key", "number": "number"}
        table = {"table": "latest", "mode": "upsert", "key": ["key"], "columns": columns}
        return {**self.config(), **table}


class SqliteTables(Tables, AuditedSqlite):
    """A file; somebody else may hold its lock."""

    sink = "SqliteRows"

    def __init__(self, folder):
        self.at = str(folder / "rows.db")
        self.run(ROWS)
        self.run(LATEST)

    def run(self, statement):
        with closing(sqlite3.connect(self.at, timeout=60)) as db, db:
            return db.execute(statement).fetchall()

    def config(self):
        return {"path": self.at}


class PostgresTables(Tables, AuditedPostgres):
    """A database; its server may be killed, and its connections cut."""

    sink = "PostgresRows"
    modes = ("insert", "copy")

    def __init__(self, server):
        self.server = server
        self.run("DROP TABLE IF EXISTS rows, latest, fulmen_sink_marks")
        self.run(ROWS)
        self.run(LATEST)

    def run(self, statement):
        return self.server.run(statement)

    def config(self):
        return {"dsn": self.server.dsn}


class RedisLists(AuditedRedis):
    """A list for each amount, and a hash; where a refused amount's list would be is a text."""

    sink = "RedisRows"
    guarantee = "exactly-once"
    modes = ("insert",)

    def __init__(self, server):
        self.server = server
        with server.client() as client:
            client.flushdb()
            for amount in range(parts.REFUSED, 256):
                client.set(f"rows:{amount}", "foreign")

    def of_rows(self, _mode):
        form = {"type": "json", "fields": list(parts.COLUMNS)}
        key = "rows:{amount}"
        return {"url": self.server.url, "type": "list", "key": key, "format": form}

    def of_latest(self):
        form = {"type": "text", "field": "number"}
        options = {"type": "hash", "key": "latest", "field": "{key}", "format": form}
        return {"url": self.server.url, **options}

    def rows(self):
        with self.server.client() as client, client.pipeline() as pipe:
            for amount in range(parts.REFUSED, 256):
                pipe.get(f"rows:{amount}")
            assert set(pipe.execute()) == {"foreign"}
            for amount in range(parts.REFUSED):
                pipe.lrange(f"rows:{amount}", 0, -1)
            return [tuple(json.loads(row).values()) for rows in pipe.execute() for row in rows]

    def latest(self):
        with self.server.client() as client:
            return [(key, int(number)) for key, number in client.hgetall("latest").items()]


class PlainRun(TransactionRun):
    """One checkpoint of a topology without transactions, and the runs on it.

    Args:
        folder: Where the checkpoint is, and the topology's file.
        stores: What can be harmed.
        spec: The topology's.
    """

    def __init__(self, folder, stores, spec):
        self.folder, self.stores = folder, stores
        self.checkpoint = (folder / "checkpoint").as_uri()
        self.process, self.olds, self.starts = None, [], 0
        for file in ("commits", "refused"):
            (folder / file).touch()
        shutil.copy(parts.__file__, folder)
        document = {
            "apiVersion": "fulmen.dev/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "rows"},
            "spec": {"code": {"folder": "."}, "config": {"folder": str(folder)}, **spec},
        }
        (folder / "counted.yaml").write_text(json.dumps(document))


class SinkRun(PlainRun):
    """A random source, two sinks, and the tables that these write to.

    Args:
        folder: For all that it has.
        tables: What the sinks write to, such as SqliteTables.
        workers: How many.
        tasks: Of each sink.
        mode: Of the sink that inserts.

    Attributes:
        is_exact: Whether the sinks write exactly once.
        repeats: How many rows there were more than had to be, when they were last looked at.
    """

    def __init__(self, folder, tables, *, workers=2, tasks=2, mode="insert"):
        self.tables, self.is_exact = tables, tables.guarantee == "exactly-once"
        self.limits, self.repeats = [0, 0], 0
        common = {"guarantee": tables.guarantee}
        of_sink = {"class": f"sinking_parts.{tables.sink}", "parallelism": tasks}
        shuffled = {"grouping": {"type": "shuffle"}}
        by_key = {"grouping": {"type": "fields", "fields": ["key"]}}
        spec = {
            "workers": workers,
            "maxSpoutPending": 200,
            "spouts": [{"name": "source", "class": "sinking_parts.Source", "parallelism": 2}],
            "bolts": [
                {
                    "name": "rows",
                    **of_sink,
                    "inputs": [{"from": "source", **shuffled}],
                    "config": {**common, **tables.of_rows(mode)},
                },
                {
                    "name": "latest",
                    **of_sink,
                    "inputs": [{"from": "source", **by_key}],
                    "config": {**common, **tables.of_latest()},
                },
                {
                    "name": "refused",
                    "class": "sinking_parts.Refused",
                    "inputs": [{"from": "rows", "stream": "errors", **shuffled}],
                },
            ],
        }
        super().__init__(folder, [tables], spec)
        self.set_limits()

    def emit_more(self, counts):
        """Let there be more rows: so many of each task of the source."""
        self.limits = [limit + count for limit, count in zip(self.limits, counts, strict=True)]
        self.set_limits()

    def wait_for_commit_phase(self, keep=lambda: None):
        """Wait until a sink begins to write, for which there are more rows."""
        self.emit_more([100, 100])
        super().wait_for_commit_phase(keep)

    def totals(self):
        """What it has done, for people."""
        return {
            "rows": sum(self.limits),
            "late writes refused": self.refused(),
            "rows more than committed": self.repeats,
        }

    def is_complete(self):
        """Whether all rows that there are to be were emitted, and are in the tables.

        Under at-least-once there may be more: rows that were written again, and rows of attempts
        that came to nothing.

        Raises:
            Difference: There is a row that was not emitted, or twice, or one was refused twice.
        """
        found = Counter(map(tuple, self.tables.rows()))
        latest = list(map(tuple, self.tables.latest()))
        if not self.newest_commit():
            return False
        committed = Committed(self.checkpoint)  # read after the tables: it is ahead of them
        emitted = [row for state in committed.state("source").values() for row in state.values()]
        good = {row for row in emitted if row[3] < parts.REFUSED}
        bad = {row[0] for row in emitted if row[3] >= parts.REFUSED}
        refused, failed = refusals(committed)
        newest = {key: n for _, key, n, _ in sorted(emitted, key=lambda row: row[2])}
        if not self.is_exact:  # only what was committed already can't fail any more
            refused, failed = failed, refused
        wrong = {
            "refused": {row: n for row, n in refused.items() if n > 1 or row not in bad},
            "failed": failed,
        }
        if self.is_exact:
            wrong["rows"] = {row: n for row, n in found.items() if n > 1 or row not in good}
            wrong["latest"] = {key: n for key, n in latest if n > newest.get(key, 0)}
        for what, which in wrong.items():
            if which:
                raise Difference(f"{what}: {dict(list(which.items())[:5])}")
        self.repeats = found.total() - len(good)
        has_newest = dict(latest) == newest if self.is_exact else set(latest) >= newest.items()
        is_all = len(emitted) == sum(self.limits) and refused.keys() == bad
        return is_all and found.keys() >= good and has_newest


def refusals(committed):
    """How often each row came on the stream of errors, and how often its message has failed."""
    told, failed = Counter(), Counter()
    for state in committed.state("refused").values():
        told.update(state)
    rows = committed.state("source")
    for task, fields in committed.fields("source").items():
        failed.update(rows[task][msg_id][0] for msg_id, _ in fields["failed"])
    return told, failed


class KilledSinks(KilledTransactions):
    """One topology, to which things happen.

    Args:
        folder: For all that it has.
        seed: What it follows from.
        tables: What the sinks write to, such as SqliteTables.
        figures: Counts what happens.
    """

    def __init__(self, folder, seed, tables, figures):
        self.rng = rng = random.Random(seed)
        shape = {
            "workers": rng.randint(1, 3),
            "tasks": rng.randint(1, 3),
            "mode": rng.choice(tables.modes),
        }
        self.name = str(shape)
        self.run = SinkRun(folder, tables, **shape)
        self.figures, self.is_harmed, self.paused = figures, False, []

    def more_messages(self):
        """There are more rows."""
        self.run.emit_more([self.rng.randint(100, 600) for _ in self.run.limits])

    def drain(self):
        """End it as its user does, and check all."""
        code = None
        while code != 0:
            self.keep_running()
            self.wait_until(self.is_complete, "all rows")
            # one that has just been started, after all rows were there, does not listen yet
            self.wait_until(self.has_taken_over, "its claim")
            self.run.process.send_signal(signal.SIGTERM)
            code = self.run.end()
            # one that was killed just before goes on dying
            assert code == 0 or self.is_harmed, f"it ended with {code}:\n{self.run.output()}"
        assert self.run.is_complete()
        self.figures.checks += 1
        self.figures.shapes += 1
        self.figures.totals.update({**self.run.totals(), "runs": self.run.starts})

    def has_taken_over(self):
        """Whether the run that there is has claimed the checkpoint."""
        driver = read_newest(Store.open(self.run.checkpoint)).driver
        return f"process {self.run.process.pid}," in f"{driver},"


def faults(figures):
    """How often harm was done of any kind but a pause."""
    return figures.killed + sum(n for kind, n in figures.others.items() if kind != PAUSE)


def maker(kind, servers):
    """Makes tables of a kind in a folder. Their server runs as long as a stack is open."""
    if kind == "sqlite":
        return SqliteTables
    if kind == "rabbitmq":
        rabbit = servers.enter_context(running_rabbitmq())
        proxy = servers.enter_context(cut_proxy(rabbit.port))
        return lambda _folder: RabbitQueues(rabbit, proxy)
    if kind == "http":
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory()))
        endpoint = servers.enter_context(running_endpoint(folder))
        proxy = servers.enter_context(cut_proxy(endpoint.port))
        return lambda _folder: HttpTables(endpoint, proxy)
    running, tables = {
        "postgres": (running_postgres, PostgresTables),
        "redis": (running_redis, RedisLists),
        "kafka": (running_kafka, KafkaTopics),
        "kafka-at-least-once": (running_kafka, partial(KafkaTopics, guarantee="at-least-once")),
    }[kind]
    server = servers.enter_context(running())
    return lambda _folder: tables(server)


def soak(kind, seed, enough, maker=maker, killed_kind=KilledSinks):
    """Do harm until there were so many faults. Returns the figures.

    Args:
        kind: What `maker` is asked for.
        seed: What it all follows from.
        enough: So many faults.
        maker: Gives, for a kind and a stack, what is made anew for each topology in its folder.
        killed_kind: The topology to which things happen.
    """
    figures, number = Figures(), 0
    with ExitStack() as servers:
        make = maker(kind, servers)
        while faults(figures) < enough:
            number += 1
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                with killed_kind(folder, f"{seed}/{number}", make(folder), figures) as killed:
                    print(f"seed {seed}, topology {number}: {killed.name}", flush=True)
                    for _ in range(ROUNDS_OF_TOPOLOGY):
                        killed.round()
                        print(f"{faults(figures)} faults: {figures}", flush=True)
                        if faults(figures) >= enough:
                            break
                    killed.drain()
            print(f"{faults(figures)} faults: {figures}", flush=True)
    return figures
