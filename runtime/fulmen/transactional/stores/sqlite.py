"""Maps in a file of SQLite: nothing to install and nothing to run.

All processes that write must see the same file, and its locks must work for them: processes on one
machine, or a shared volume whose locks are reliable. The file keeps SQLite's default journal rather
than a write-ahead log (WAL), which needs shared memory and so is wrong on volumes that several
machines mount. A file that is in WAL mode stays so.

A commit phase holds the file's write lock from before it reads the mark.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.services.errors import StoreUnavailable
from fulmen.services.sql.sqlite import OF_VALUES, Sqlite
from fulmen.transactional.columns import Kind
from fulmen.transactional.owners import FoundMap, MapMark, Owner
from fulmen.transactional.rules import Changes, Raw, Row, Rule
from fulmen.transactional.stores.sql import (
    MAPS,
    MARKS,
    OWNER_COLUMNS,
    SqlMap,
    columns_of,
    previous_of,
)

AT_ONCE = 900
"""Keys of one statement: older versions of SQLite take at most 999 values."""
TYPES = {"text": "TEXT", "integer": "INTEGER", "float": "REAL", "bytes": "BLOB", "json": "TEXT"}


class SqliteMap(SqlMap):
    """A map in a table of a SQLite file."""

    service: Sqlite
    reads_by = ("DEFERRED",)

    def __init__(
        self,
        file: str | os.PathLike[str],
        table: str,
        context: TopologyContext,
        *,
        rule: Rule = "transactional",
        key: Kind = "text",
        value: Kind = "json",
    ) -> None:
        """Make the map known; its table is made when the map is first used.

        Args:
            file: The path of the file. It is made if it is not there, but not its folder.
            table: The name of the table: a-z, 0-9 and _.
            context: What `prepare` was given.
            rule: "opaque" behind an opaque spout, else "transactional".
            key: The type of keys: "text", "integer", "float", "bytes" or "json".
            value: The type of values.

        Raises:
            StoreRefused: An argument can't be right.
        """
        self.service = Sqlite(file)
        super().__init__(table, self.service.name, context, rule, key, value)
        self.check_name(table)

    def read(self, keys: Sequence[Raw], *, with_marks: bool) -> FoundMap | None:
        """Read the rows of these keys. It makes no file."""
        if self.joined is None and not self.service.exists():
            return None
        return super().read(keys, with_marks=with_marks)

    def meant(self, error: sqlite3.Error) -> Exception:
        """The error that the map's user gets: all but those about values may be mended outside."""
        refusal = self.service.refused(self.where, error)
        if isinstance(error, OF_VALUES):
            return refusal
        return StoreUnavailable(refusal.where, refusal.reason, refusal.cure)

    def found_owner(self, db: sqlite3.Connection) -> Owner | None:
        """Read the map's owner."""
        if not _has_table(db, MAPS):
            return None
        columns = ", ".join(OWNER_COLUMNS)
        row = db.execute(f"SELECT {columns} FROM {MAPS} WHERE map = ?", [self.name])
        return next((Owner(*values) for values in row), None)

    def has_table(self, db: sqlite3.Connection) -> bool:
        """Whether there is a table of that name."""
        return _has_table(db, self.name)

    def make_tables(self, db: sqlite3.Connection) -> None:
        """Make the tables of a new map, and write down whose it is."""
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {MAPS} (map TEXT PRIMARY KEY, topology TEXT,"
            " component TEXT, rule TEXT, key TEXT, value TEXT, layout INTEGER)"
        )
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {MARKS} (map TEXT, task INTEGER, txid INTEGER,"
            " attempt INTEGER, branch TEXT, PRIMARY KEY (map, task))"
        )
        owner = self.owner
        key, value = TYPES[owner.key], TYPES[owner.value]
        previous = f", previous {value}" if owner.rule == "opaque" else ""
        db.execute(
            f'CREATE TABLE "{self.name}" (key {key} NOT NULL PRIMARY KEY, value {value} NOT NULL,'
            f" txid INTEGER NOT NULL, task INTEGER NOT NULL, attempt INTEGER NOT NULL{previous})"
            " WITHOUT ROWID"
        )
        wanted = (self.name, *(getattr(owner, name) for name in OWNER_COLUMNS))
        db.execute(f"INSERT INTO {MAPS} VALUES (?, ?, ?, ?, ?, ?, ?)", wanted)

    def locked_mark(self, db: sqlite3.Connection) -> MapMark | None:
        """The mark of this task."""
        select = f"SELECT txid, attempt, branch FROM {MARKS} WHERE map = ? AND task = ?"
        found = db.execute(select, [self.name, self.task]).fetchone()
        return MapMark(*found) if found else None

    def move_mark(self, db: sqlite3.Connection, mark: MapMark) -> None:
        """Write the mark of this task."""
        values = (self.name, self.task, *mark)
        db.execute(f"INSERT OR REPLACE INTO {MARKS} VALUES (?, ?, ?, ?, ?)", values)

    def marks(self, db: sqlite3.Connection) -> Iterable[tuple[Any, ...]]:
        """Task, txid, attempt and branch of all marks."""
        columns = "task, txid, attempt, branch"
        return db.execute(f"SELECT {columns} FROM {MARKS} WHERE map = ?", [self.name])

    def rows_of_keys(
        self, db: sqlite3.Connection, keys: Sequence[Raw], owner: Owner
    ) -> Iterator[Sequence[Any]]:
        """The columns of these keys' rows."""
        for first in range(0, len(keys), AT_ONCE):
            some = keys[first : first + AT_ONCE]
            yield from self._select(db, f"key IN ({', '.join('?' * len(some))})", some, owner)

    def rows_of_transaction(self, db: sqlite3.Connection, txid: int) -> Iterable[Sequence[Any]]:
        """The columns of the rows that this task had last in a transaction."""
        return self._select(db, "txid = ? AND task = ?", (txid, self.task), self.owner)

    def _select(
        self, db: sqlite3.Connection, where: str, values: Sequence[Any], owner: Owner
    ) -> Iterable[Sequence[Any]]:
        columns = ", ".join(columns_of(owner))
        return db.execute(f'SELECT {columns} FROM "{self.name}" WHERE {where}', values)

    def write(
        self,
        db: sqlite3.Connection,
        made: Changes,
        found: Mapping[Raw, Row],  # noqa: ARG002 (nobody else has written since)
    ) -> None:
        """Write rows."""
        columns = columns_of(self.owner)
        rows = ((key, *row[:4], previous_of(row))[: len(columns)] for key, row in made.rows.items())
        places = ", ".join("?" * len(columns))
        db.executemany(f'INSERT OR REPLACE INTO "{self.name}" VALUES ({places})', rows)
        db.executemany(f'DELETE FROM "{self.name}" WHERE key = ?', ((key,) for key in made.deleted))


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchone())
