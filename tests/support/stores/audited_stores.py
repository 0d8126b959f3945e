"""Stores of committers with an audit: in which order attempts were written, as the store knows it.

In SQLite and PostgreSQL a trigger writes it down, in the transaction that moves a task's mark. With
Redis its own log has it, the append-only file. Each store can be harmed; what harm() returns tells
what was done, and is None if there was nothing to be harmed.
"""

import itertools
import sqlite3
import time
from contextlib import closing

from fulmen.transactional import PostgresMap, SqliteMap
from fulmen.transactional.conformance import at, context_of

OUTAGE_SECONDS = 3
TABLES = ("counts", "totals")
POSTGRES, REDIS, KAFKA, RABBITMQ = SERVERS = "PostgreSQL", "Redis", "Kafka", "RabbitMQ"
FIRST_MAP = "audited"
"""A map that nobody uses: it is there so that there is a table of marks."""


class AuditedSqlite:
    """A file. It can't be killed, but somebody else may hold its lock."""

    kind = "sqlite"

    def __init__(self, folder, name):
        self.at, self.name = str(folder / f"{name}.db"), name
        SqliteMap(self.at, FIRST_MAP, context_of()).put(at(1), {})
        with closing(sqlite3.connect(self.at)) as db, db:
            db.execute("CREATE TABLE audit (n INTEGER PRIMARY KEY, map, task, txid, attempt)")
            db.execute(
                "CREATE TRIGGER audited AFTER INSERT ON fulmen_marks BEGIN"
                " INSERT INTO audit (map, task, txid, attempt)"
                " VALUES (new.map, new.task, new.txid, new.attempt); END"
            )

    def _run(self, statement, values=()):
        with closing(sqlite3.connect(self.at, timeout=60)) as db:
            return db.execute(statement, values).fetchall()

    def read(self, table):
        """Key -> value."""
        name = f"{self.name}_{table}"
        is_there = self._run("SELECT 1 FROM sqlite_master WHERE name = ?", [name])
        return dict(self._run(f"SELECT key, value FROM {name}")) if is_there else {}

    def audit(self):
        """(map, task, txid, attempt) of each write, in their order."""
        return self._run(
            "SELECT map, task, txid, attempt FROM audit WHERE map LIKE ? ORDER BY n",
            [f"{self.name}%"],
        )

    def harm(self, rng):
        """Hold its lock for a while."""
        with closing(sqlite3.connect(self.at, timeout=60, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            time.sleep(rng.uniform(0, OUTAGE_SECONDS))
            db.execute("ROLLBACK")
        return "SQLite locked"


class AuditedPostgres:
    """A database of a server that others use as well, each with its own tables."""

    kind = "postgres"

    def __init__(self, server, name):
        self.server, self.at, self.name = server, server.dsn, name
        PostgresMap(self.at, FIRST_MAP, context_of()).put(at(1, next(_attempts)), {})
        server.run(
            "CREATE TABLE IF NOT EXISTS audit"
            " (n bigserial, map text, task integer, txid bigint, attempt bigint)",
            "CREATE OR REPLACE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO audit (map, task, txid, attempt)"
            " VALUES (new.map, new.task, new.txid, new.attempt); RETURN NULL; END $$",
            "CREATE OR REPLACE TRIGGER audited AFTER UPDATE ON fulmen_marks"
            " FOR EACH ROW EXECUTE FUNCTION audited()",
        )

    def read(self, table):
        """Key -> value."""
        name = f"{self.name}_{table}"
        ((found,),) = self.server.run(f"SELECT to_regclass('{name}')")
        return dict(self.server.run(f"SELECT key, value FROM {name}")) if found else {}

    def audit(self):
        """(map, task, txid, attempt) of each write, in their order."""
        return self.server.run(
            f"SELECT map, task, txid, attempt FROM audit WHERE map LIKE '{self.name}%' ORDER BY n"
        )

    def harm(self, rng):
        """Kill the server for a while, or cut its connections."""
        if rng.random() < 0.6:
            restart(self.server, rng)
            return POSTGRES
        cut = self.server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'fulmen'"
        )
        return "PostgreSQL's connections" if cut else None


class AuditedRedis:
    """Keys of a server that others use as well."""

    kind = "redis"

    def __init__(self, server, name):
        self.server, self.at, self.name = server, server.url, name

    def read(self, table):
        """Key -> value."""
        with self.server.client() as client:
            found = client.hgetall(f"{self.name}_{table}")
        return {key: int(value) for key, value in found.items()}

    def audit(self):
        """(map, task, txid, attempt) of each write, in their order."""
        found = []
        for command in self.server.commands():
            if command[0].upper() != b"HSET" or not command[1].endswith(b":tasks"):
                continue
            a_map = command[1].removesuffix(b":tasks").decode()
            if not a_map.startswith(self.name):
                continue
            for field, value in zip(command[2::2], command[3::2], strict=True):
                if field.startswith(b"mark:"):
                    found.append((a_map, int(field[5:]), *map(int, value.split(b":")[:2])))
        return found

    def harm(self, rng):
        """Kill the server for a while, or cut its connections."""
        if rng.random() < 0.6:
            restart(self.server, rng)
            return REDIS
        with self.server.client() as client:
            cut = client.client_kill_filter(_type="normal", skipme=True)
        return "Redis's connections" if cut else None


_attempts = itertools.count(1)


def restart(server, rng):
    """Kill a server, and start it some time later."""
    server.kill()
    time.sleep(rng.uniform(0, OUTAGE_SECONDS))
    server.start()


def check_audit(entries, tasks):
    """Assert that a store was written in strict order: all of a transaction before the next one.

    Args:
        entries: What `audit()` has.
        tasks: How many tasks write each map.

    Returns:
        How many transactions there are, and how many writes.
    """
    last, seen = {}, {}
    highest = 0
    for a_map, task, txid, attempt in entries:
        before = last.get((a_map, task), (0, 0))
        assert (txid, attempt) > before, f"{a_map}, task {task}: {(txid, attempt)} after {before}"
        assert txid >= highest, f"{a_map}, task {task}: {txid} after {highest}"
        highest = txid
        last[a_map, task] = txid, attempt
        seen.setdefault((a_map, task), set()).add(txid)
    whole = set(range(1, highest + 1))
    maps = {a_map for a_map, _ in seen}
    assert seen.keys() == {(a_map, task) for a_map in maps for task in range(tasks)}
    for who, txids in seen.items():
        assert txids == whole, f"{who} has left out {sorted(whole - txids)[:5]}"
    return len(whole), len(entries)
