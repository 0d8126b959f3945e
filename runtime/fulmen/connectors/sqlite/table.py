"""The table of a sink: looked at once, and written to in one statement for each batch."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

from fulmen.api.components.sinks import Mark
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.tables import (
    MARKS,
    FoundColumn,
    KeptMark,
    SqlTable,
    SqlTransaction,
    cure_of_absence,
    on_conflict,
)
from fulmen.connectors.sqlite.database import SqliteDatabase
from fulmen.connectors.sqlite.values import Value, affinity_of, values_of
from fulmen.services.sql.names import listed, quoted


class SqliteTable(SqlTable):
    """A table that was looked at.

    Attributes:
        insert: The statement that adds or replaces a row.
        erase: The one that deletes a row, given its key.
    """

    def __init__(
        self, database: SqliteDatabase, options: TableSinkOptions, names: Sequence[str]
    ) -> None:
        """Look at the table, and at the table of marks if there is to be one.

        Raises:
            ServiceUnavailable: The file is locked, or the disk is full.
            StoreRefused: A name, a type or a right is wrong.
        """
        super().__init__(database.where, options, names)
        self._database = database
        places = ", ".join("?" * len(names))
        insert = f"INSERT INTO {quoted(options.table)} ({listed(names)}) VALUES ({places})"
        self.insert = insert + on_conflict(options, names)
        where = " AND ".join(f"{quoted(column)} IS ?" for column in options.key)
        self.erase = f"DELETE FROM {quoted(options.table)} WHERE {where}"
        if not options.create:
            database.refuse_absent(cure_of_absence("Correct the path", options.create))
        with database.opening() as db:
            columns = self.look(db)
            self._affinities = [affinity_of(*columns[name].about) for name in names]
            if options.guarantee == "exactly-once":
                self.make_marks(db, MARKS)
            db.execute(f"EXPLAIN {self.insert}", [None] * len(names))

    @override
    def found_columns(self, db: sqlite3.Connection, table: str) -> list[FoundColumn]:
        rows = db.execute(f"PRAGMA table_xinfo({quoted(table)})")
        return [
            FoundColumn(name, not hidden, is_not_null and default is None and not hidden, [kind])
            for _, name, kind, is_not_null, default, _, hidden in rows
        ]

    @override
    def create(self, db: sqlite3.Connection, table: str, columns: str) -> None:
        db.execute(f"CREATE TABLE {quoted(table)} ({columns})")

    @override
    def encode_column(
        self, number: int, values: Sequence[Any], refuse: Callable[[int, str], None]
    ) -> Sequence[Value]:
        return values_of(self.names[number], values, refuse, self._affinities[number])

    @override
    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        """Begin a transaction. It holds the file's write lock from its beginning."""
        with self._database.transaction() as db:
            yield SqliteTransaction(db, self)


class SqliteTransaction(SqlTransaction):
    """A transaction that writes rows and their mark."""

    def __init__(self, db: sqlite3.Connection, table: SqliteTable) -> None:
        self._db, self._table = db, table
        self._mark: tuple[str, KeptMark] | None = None

    @override
    def locked_mark(self, mark: Mark) -> KeptMark:
        kept = self._kept(mark.sink)
        self._mark = mark.sink, kept
        return kept

    def _kept(self, sink: str) -> KeptMark:
        select = f"SELECT number, tag, refused FROM {MARKS} WHERE sink = ?"
        found = self._db.execute(select, [sink]).fetchone()
        return KeptMark(*found) if found else KeptMark()

    @override
    def keep(self, mark: Mark, refused: str) -> None:
        values = [mark.sink, mark.number, mark.tag, mark.label, refused]
        self._db.execute(
            f"INSERT OR REPLACE INTO {MARKS} (sink, number, tag, label, refused)"
            " VALUES (?, ?, ?, ?, ?)",
            values,
        )

    @override
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
                    self._db.executemany(self._table.insert, begun)
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

    @override
    def delete(self, items: Sequence[Sequence[Value]]) -> Mapping[int, str]:
        refused: dict[int, str] = {}
        for i, item in enumerate(items):
            try:
                self._db.execute(self._table.erase, [item[at] for at in self._table.key])
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
            # not a statement of a cache
            anew = f"EXPLAIN {self._table.insert} -- {time.monotonic_ns()}"
            self._db.execute(anew, [None] * len(self._table.names))
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
