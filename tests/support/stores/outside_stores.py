"""What stands for databases outside of a topology: in this process, or in a file of SQLite."""

import pickle
import sqlite3
from contextlib import closing, contextmanager

STORES = {}
"""Stores in this process, by name."""


class MemoryStore:
    """Keys with values, and notes of what happened, in their order."""

    def __init__(self):
        self.values, self.noted = {}, []

    def get(self, key, default=None):
        return self.values.get(key, default)

    def put(self, key, value):
        self.values[key] = value

    def note(self, *event):
        self.noted.append(event)

    def all(self):
        return dict(self.values)

    def notes(self):
        return list(self.noted)


class SqliteStore:
    """The same in a file, for several processes."""

    def __init__(self, path):
        self.path = path
        with self._connected() as db:
            db.execute("CREATE TABLE IF NOT EXISTS found (key BLOB PRIMARY KEY, value BLOB)")
            db.execute("CREATE TABLE IF NOT EXISTS noted (id INTEGER PRIMARY KEY, event BLOB)")

    @contextmanager
    def _connected(self):
        with closing(sqlite3.connect(self.path, timeout=60)) as db, db:
            yield db

    def get(self, key, default=None):
        with self._connected() as db:
            row = db.execute(
                "SELECT value FROM found WHERE key = ?", (pickle.dumps(key, 5),)
            ).fetchone()
        return default if row is None else pickle.loads(row[0])

    def put(self, key, value):
        with self._connected() as db:
            db.execute(
                "INSERT OR REPLACE INTO found VALUES (?, ?)",
                (pickle.dumps(key, 5), pickle.dumps(value, 5)),
            )

    def note(self, *event):
        with self._connected() as db:
            db.execute("INSERT INTO noted (event) VALUES (?)", (pickle.dumps(event, 5),))

    def all(self):
        with self._connected() as db:
            rows = db.execute("SELECT key, value FROM found").fetchall()
        return {pickle.loads(key): pickle.loads(value) for key, value in rows}

    def notes(self):
        with self._connected() as db:
            rows = db.execute("SELECT event FROM noted ORDER BY id").fetchall()
        return [pickle.loads(event) for (event,) in rows]


def store(conf):
    """The store that a topology's configuration names: a path, or a name in this process."""
    name = conf["store"]
    if name.startswith("/"):
        return SqliteStore(name)
    return STORES.setdefault(name, MemoryStore())


def fresh_store():
    """The name of a store of its own in this process."""
    name = f"store-{len(STORES)}"
    STORES[name] = MemoryStore()
    return name
