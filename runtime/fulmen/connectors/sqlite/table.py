"""The table of a sink: looked at once, and written to in one statement for each batch."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fulmen.api.sinks import Mark, Rows
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.sink import KeptMark
from fulmen.connectors.sql.tables import (
    MARKS,
    WRITTEN,
    check_columns,
    check_marks,
    check_unwritten,
    cure_of_absence,
)
from fulmen.connectors.sqlite.database import SqliteDatabase, columns_of, listed, quoted
from fulmen.connectors.sqlite.values import Affinity, Value, affinity_of, values_of
from fulmen.services.errors import StoreRefused


class SqliteTable:
    """A table that was looked at."""

    may_delete = True

    def __init__(
        self, database: SqliteDatabase, options: TableSinkOptions, names: Sequence[str]
    ) -> None:
        """Look at the table, and at the table of marks if there is to be one.

        Raises:
            ServiceUnavailable: The file is locked, or the disk is full.
            StoreRefused: A name, a type or a right is wrong.
        """
        self._database, self._names = database, names
        self._insert = _insert(options, names)
        self._key = [names.index(column) for column in options.key]
        where = " AND ".join(f"{quoted(column)} IS ?" for column in options.key)
        self._delete = f"DELETE FROM {quoted(options.table)} WHERE {where}"
        if not options.create:
            database.refuse_absent(cure_of_absence("Correct the path", options.create))
        with database.opening() as db:
            self._affinities = _look(db, database.where, options, names)
            if options.guarantee == "exactly-once":
                _make_marks(db, database.where)
            db.execute(f"EXPLAIN {self._insert}", [None] * len(names))

    def encode(self, columns: Sequence[Sequence[Any]], rows: Rows) -> Sequence[Sequence[Value]]:
        """The values as SQLite takes them."""
        encoded = [
            values_of(name, values, rows.fail, affinity)
            for (name, affinity), values in zip(self._affinities.items(), columns, strict=True)
        ]
        return list(zip(*encoded, strict=True))

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        """One transaction. It holds the file's write lock from its beginning."""
        with self._database.transaction() as db:
            yield SqliteTransaction(db, self._insert, len(self._names), self._delete, self._key)


class SqliteTransaction:
    """A transaction that writes rows and their mark."""

    def __init__(
        self, db: sqlite3.Connection, insert: str, width: int, delete: str, key: Sequence[int]
    ) -> None:
        self._db, self._insert, self._width = db, insert, width
        self._delete, self._key = delete, key
        self._mark: tuple[str, KeptMark] | None = None

    def locked_mark(self, mark: Mark) -> KeptMark:
        """The mark of a task."""
        found = self._kept(mark.sink)
        self._mark = mark.sink, found
        return found

    def _kept(self, sink: str) -> KeptMark:
        select = f"SELECT number, tag, refused FROM {MARKS} WHERE sink = ?"
        found = self._db.execute(select, [sink]).fetchone()
        return KeptMark(*found) if found else KeptMark()

    def keep(self, mark: Mark, refused: str) -> None:
        """Write the mark."""
        values = [mark.sink, mark.number, mark.tag, mark.label, refused]
        self._db.execute(
            f"INSERT OR REPLACE INTO {MARKS} (sink, number, tag, label, refused)"
            " VALUES (?, ?, ?, ?, ?)",
            values,
        )

    def write(self, items: Sequence[Sequence[Value]]) -> Mapping[int, str]:
        """Write all rows but those that SQLite refuses.

        It takes them one after another, so after a refused row it goes on with the next one. Of
        rows with one key the last that is taken counts.

        A constraint or trigger may roll back the whole transaction, and RAISE(FAIL) leaves what the
        row has changed, so that it is rolled back here. Then the rows behind that one are tried as
        well, to find all that do so, and what is left is written once more.
        """
        fatal: dict[int, str] = {}
        while True:
            begun = _Begun(items, [i for i in range(len(items)) if i not in fatal])
            refused: dict[int, str] = {}
            before = len(fatal)
            while not begun.is_done:
                try:
                    self._db.executemany(self._insert, begun)
                except sqlite3.Error as error:
                    has_stayed = self._has_changed_something()
                    if not self._is_rows_fault(error, begun):
                        raise
                    if has_stayed:
                        self._db.execute("ROLLBACK")
                    told = refused if self._db.in_transaction else fatal
                    told[begun.last] = str(error)
                    if told is fatal:
                        self._begin()
            if len(fatal) == before:
                return refused | fatal
            self._db.execute("ROLLBACK")
            self._begin()

    def delete(self, items: Sequence[Sequence[Value]]) -> Mapping[int, str]:
        """Delete what has the keys of these rows, but where a constraint refuses it."""
        refused: dict[int, str] = {}
        for i, item in enumerate(items):
            try:
                self._db.execute(self._delete, [item[at] for at in self._key])
            except sqlite3.IntegrityError as error:
                if not self._db.in_transaction:  # a trigger has rolled back all
                    raise
                refused[i] = str(error)
        return refused

    def _has_changed_something(self) -> bool:
        """Whether the last statement has left changes, though it failed."""
        if not self._db.in_transaction:
            return False
        (changes,) = self._db.execute("SELECT changes()").fetchone()
        return bool(changes)

    def _begin(self) -> None:
        """Begin a transaction like the one that was rolled back."""
        self._db.execute("BEGIN IMMEDIATE")
        if self._mark is not None and self._kept(self._mark[0]) != self._mark[1]:
            raise sqlite3.OperationalError("another process has moved the mark")

    def _is_rows_fault(self, error: sqlite3.Error, begun: _Begun) -> bool:
        """Whether it is the row's fault: a constraint, a trigger, or a function in one of them."""
        if begun.last < 0:
            return False
        if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
            return True
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR:
            return False
        if not self._db.in_transaction:
            return False
        try:  # also what is wrong with the table has that code
            anew = f"EXPLAIN {self._insert} -- {time.monotonic_ns()}"  # not a statement of a cache
            self._db.execute(anew, [None] * self._width)
        except sqlite3.Error:
            return False
        return True


class _Begun:
    """Rows, and the last that was begun. Each iteration goes on where the one before stopped."""

    def __init__(self, items: Sequence[Sequence[Value]], positions: Sequence[int]) -> None:
        self._items, self._positions, self._count = items, positions, 0

    @property
    def is_done(self) -> bool:
        return self._count == len(self._positions)

    @property
    def last(self) -> int:
        """The position of the row that was begun last; -1: none was."""
        return self._positions[self._count - 1] if self._count else -1

    def __iter__(self) -> Iterator[Sequence[Value]]:
        while not self.is_done:
            self._count += 1
            yield self._items[self.last]


def _insert(options: TableSinkOptions, names: Sequence[str]) -> str:
    places = ", ".join("?" * len(names))
    insert = f"INSERT INTO {quoted(options.table)} ({listed(names)}) VALUES ({places})"
    if options.mode != "upsert":
        return insert
    others = [name for name in names if name not in options.key]
    sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
    action = f"UPDATE SET {sets}" if others else "NOTHING"
    return f"{insert} ON CONFLICT ({listed(options.key)}) DO {action}"


def _look(
    db: sqlite3.Connection, where: str, options: TableSinkOptions, names: Sequence[str]
) -> dict[str, Affinity]:
    """See that the table takes the columns. Makes it if it is not there and is to be made.

    Returns:
        The affinity of each.
    """
    found = columns_of(db, options.table)
    if not found and options.create:
        columns = [f"{quoted(name)} {kind}" for name, kind in options.create.items()]
        if options.key:
            columns.append(f"PRIMARY KEY ({listed(options.key)})")
        db.execute(f"CREATE TABLE {quoted(options.table)} ({', '.join(columns)})")
        found = columns_of(db, options.table)
    if not found:
        raise StoreRefused(
            where,
            "there is no such table",
            cure_of_absence("Make it first", options.create),
        )
    writable = [name for _, name, *_, hidden in found if not hidden]
    check_columns(where, names, writable, WRITTEN)
    needed = [
        name
        for _, name, _, is_not_null, default, _, hidden in found
        if is_not_null and default is None and not hidden
    ]
    check_unwritten(where, needed, names)
    declared = {name: kind for _, name, kind, *_ in found}
    return {name: affinity_of(declared[name]) for name in names}


def _make_marks(db: sqlite3.Connection, where: str) -> None:
    """Make the table of marks if it is not there; else see that it is one."""
    if not (found := columns_of(db, MARKS)):
        db.execute(
            f"CREATE TABLE {MARKS} (sink TEXT PRIMARY KEY, number INTEGER NOT NULL,"
            " tag TEXT NOT NULL, label TEXT NOT NULL, refused TEXT NOT NULL)"
        )
        found = columns_of(db, MARKS)
    check_marks(where, [name for _, name, *_ in found])
