"""Maps in a file of SQLite: nothing to install and nothing to run.

All processes that write must see the same file, and its locks must work for them: processes on one
machine, or a shared volume whose locks are reliable. The file keeps SQLite's default journal rather
than a write-ahead log (WAL), which needs shared memory and so is wrong on volumes that several
machines mount. A file that is in WAL mode stays so.

One transaction of the database is one commit phase. It holds the file's write lock from before it
reads the mark.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.api.transactions import TransactionAttempt
from fulmen.transactional.columns import Kind
from fulmen.transactional.errors import StoreError, StoreRefused, StoreUnavailable
from fulmen.transactional.maps import Decide, StoredMap
from fulmen.transactional.owners import FoundMap, MapMark, Owner
from fulmen.transactional.rules import ABSENT, Absent, Changes, Raw, Row, Rule
from fulmen.transactional.stores.pools import pool_of
from fulmen.transactional.stores.tables import (
    MAPS,
    MARKS,
    OWNER_COLUMNS,
    check_name,
    columns_of,
    must_be_made,
    row_of,
)

BUSY_SECONDS = 30.0
OF_VALUES = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError)
"""What a transaction may be to blame for. All else is mended outside."""
AT_ONCE = 900
"""Keys in one statement: older versions of SQLite take at most 999 values."""
TYPES = {"text": "TEXT", "integer": "INTEGER", "float": "REAL", "bytes": "BLOB", "json": "TEXT"}


class SqliteMap(StoredMap):
    """A map in a table of a SQLite file."""

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
        self._file = os.path.abspath(os.fspath(file))
        super().__init__(table, f"SQLite file {self._file!r}", context, rule, key, value)
        check_name(self, table)
        self._table = table
        self._columns = columns_of(self.owner)

    def commit_phase(
        self, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide
    ) -> None:
        """Write a commit phase, in one transaction of the database."""
        with self._connection() as connection:
            self.make_or_check(connection)
            with self._begun(connection, "IMMEDIATE") as db:
                self._commit(db, attempt, keys, decide)

    def _commit(
        self,
        db: sqlite3.Connection,
        attempt: TransactionAttempt,
        keys: Sequence[Raw],
        decide: Decide,
    ) -> None:
        taken_back = self.must_take_back(attempt, self._mark(db))
        rows = dict(self._rows(db, keys, self._columns))
        if taken_back:
            mine = (attempt.txid, self.task)
            rows.update(self._select(db, "txid = ? AND task = ?", mine, self._columns))
        self._write(db, decide(rows))
        db.execute(
            f"INSERT OR REPLACE INTO {MARKS} VALUES (?, ?, ?, ?, ?)",
            (self._table, self.task, *self.mark_of(attempt)),
        )

    def read(self, keys: Sequence[Raw], *, with_marks: bool) -> FoundMap | None:
        """What there is of these keys."""
        if self.joined is None and not os.path.exists(self._file):
            return None
        with self._connection() as connection, self._begun(connection, "DEFERRED") as db:
            owner = connection.known.get(self.name) or self._owner(db, _tables(db))
            if owner is None:
                return None
            marks = self._marks(db) if with_marks else {}
            return FoundMap(owner, dict(self._rows(db, keys, columns_of(owner))), marks)

    @contextmanager
    def one_commit(self, maps: Sequence[StoredMap]) -> Iterator[Any]:
        """Have what is written to several maps in one transaction of the database."""
        own = [a_map for a_map in maps if isinstance(a_map, SqliteMap)]
        with self._connection() as connection:
            for a_map in own:
                a_map.make_or_check(connection)
            with connection.transaction("IMMEDIATE") as db:
                for a_map in own:
                    a_map.joined = connection
                try:
                    yield db
                finally:
                    for a_map in own:
                        a_map.joined = None

    def _mark(self, db: sqlite3.Connection) -> MapMark | None:
        select = f"SELECT txid, attempt, branch FROM {MARKS} WHERE map = ? AND task = ?"
        found = db.execute(select, [self._table, self.task]).fetchone()
        return MapMark(*found) if found else None

    def _marks(self, db: sqlite3.Connection) -> dict[int, MapMark]:
        columns = "task, txid, attempt, branch"
        found = db.execute(f"SELECT {columns} FROM {MARKS} WHERE map = ?", [self._table])
        return {task: MapMark(*mark) for task, *mark in found}

    def _rows(
        self, db: sqlite3.Connection, keys: Sequence[Raw], columns: Sequence[str]
    ) -> Iterator[tuple[Raw, Row]]:
        for first in range(0, len(keys), AT_ONCE):
            some = keys[first : first + AT_ONCE]
            yield from self._select(db, f"key IN ({', '.join('?' * len(some))})", some, columns)

    def _select(
        self, db: sqlite3.Connection, where: str, values: Sequence[Any], columns: Sequence[str]
    ) -> Iterator[tuple[Raw, Row]]:
        select = f'SELECT {", ".join(columns)} FROM "{self._table}" WHERE {where}'
        found = db.execute(select, values)
        for key, *row in found:
            yield key, row_of(row)

    def _write(self, db: sqlite3.Connection, made: Changes) -> None:
        places = ", ".join("?" * len(self._columns))
        rows: Iterator[Sequence[Any]]
        if "previous" in self._columns:
            rows = ((key, *row[:4], _none(row.previous)) for key, row in made.rows.items())
        else:
            rows = ((key, *row[:4]) for key, row in made.rows.items())
        db.executemany(f'INSERT OR REPLACE INTO "{self._table}" VALUES ({places})', rows)
        db.executemany(
            f'DELETE FROM "{self._table}" WHERE key = ?', ((key,) for key in made.deleted)
        )

    @contextmanager
    def _connection(self) -> Iterator[SqliteConnection]:
        with self._translated():
            if self.joined is not None:
                yield self.joined
                return
            with pool_of(("sqlite", self._file)).lent(lambda: SqliteConnection(self._file)) as lent:
                yield lent

    @contextmanager
    def _begun(self, connection: SqliteConnection, kind: str) -> Iterator[sqlite3.Connection]:
        """A transaction; that of `together` if there is one."""
        if self.joined is not None:
            yield self.joined.db
            return
        with connection.transaction(kind) as db:
            yield db

    def make_or_check(self, connection: SqliteConnection) -> None:
        """Make the map if it is new; else see whose it is."""
        if self.name not in connection.known:
            with connection.transaction("IMMEDIATE") as db:
                self._make_if_new(db)
            connection.known[self.name] = self.owner
        self.owner.refuse_other(self.where, connection.known[self.name])

    def _owner(self, db: sqlite3.Connection, tables: Collection[str]) -> Owner | None:
        if MAPS not in tables:
            return None
        columns = ", ".join(OWNER_COLUMNS)
        row = db.execute(f"SELECT {columns} FROM {MAPS} WHERE map = ?", [self._table])
        return next((Owner(*values) for values in row), None)

    def _make_if_new(self, db: sqlite3.Connection) -> None:
        tables = _tables(db)
        if not must_be_made(self, self._table, self._owner(db, tables), self._table in tables):
            return
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
            f'CREATE TABLE "{self._table}" (key {key} NOT NULL PRIMARY KEY, value {value} NOT NULL,'
            f" txid INTEGER NOT NULL, task INTEGER NOT NULL, attempt INTEGER NOT NULL{previous})"
            " WITHOUT ROWID"
        )
        wanted = (self._table, *(getattr(owner, name) for name in OWNER_COLUMNS))
        db.execute(f"INSERT INTO {MAPS} VALUES (?, ?, ?, ?, ?, ?, ?)", wanted)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            found = translate(self.where, self._file, error)
            if not isinstance(error, OF_VALUES):
                found = StoreUnavailable(found.where, found.reason, found.cure)
            raise found from error


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master")}


def _none(previous: Raw | Absent) -> Raw:
    return None if previous is ABSENT else previous


class SqliteConnection:
    """One to a file, and what was found in it.

    Attributes:
        known: Whose each map is that was looked at.
        db: As Python has it.
    """

    def __init__(self, file: str) -> None:
        self.known: dict[str, Owner] = {}
        self._file = file
        self.db = sqlite3.connect(
            file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._place = _place(file)
        self.db.execute("PRAGMA synchronous = FULL")

    def is_usable(self) -> bool:
        """Whether the file is still the one that was opened."""
        return self._place is not None and _place(self._file) == self._place

    def close(self) -> None:
        """Give it up."""
        with suppress(sqlite3.Error):
            self.db.close()

    @contextmanager
    def transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """One transaction, which takes back everything if it ends with an exception."""
        self.db.execute(f"BEGIN {kind}")
        try:
            yield self.db
            self.db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            raise


def _place(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def translate(where: str, file: str, error: sqlite3.Error) -> StoreError:
    """What an error of SQLite means.

    Args:
        where: Which table or map, for the message.
        file: The path of the file.
        error: What was raised.
    """
    name = getattr(error, "sqlite_errorname", "") or ""
    kept = "Nothing was changed."
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreUnavailable(
            where,
            f"the file was locked by another process for {BUSY_SECONDS:g} seconds",
            f"{kept} Find the process, as with `fuser {file}`; a reader that keeps a transaction"
            " open locks the file too.",
        )
    if name.startswith("SQLITE_FULL"):
        return StoreUnavailable(where, "the disk is full", f"{kept} Make room: it goes on then.")
    if name.startswith("SQLITE_IOERR"):
        return StoreUnavailable(where, f"the file can't be read or written ({error})", kept)
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreRefused(
            where,
            f"the file is read-only for user {os.geteuid()} ({error})",
            f"{kept} The user needs the right to write to the file and to its folder.",
        )
    if name.startswith("SQLITE_CANTOPEN"):
        folder = Path(file).parent
        if not folder.is_dir():
            return StoreRefused(where, f"there is no folder '{folder}'", "Make it first.")
        return StoreRefused(
            where,
            f"the file can't be opened by user {os.geteuid()} ({error})",
            "The user needs the right to read and write the file and its folder.",
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return StoreRefused(where, f"the file is damaged or none of SQLite's ({error})", kept)
    return StoreRefused(where, f"SQLite says {str(error)!r}", kept)
