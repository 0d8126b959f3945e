"""Lookups in tables of SQLite."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.base.lookup.bolt import TableLookup
from fulmen.connectors.base.lookup.options import WholeTableOptions
from fulmen.connectors.base.lookup.table import (
    AskedTable,
    LookupTable,
    Rows,
    Seen,
    TableError,
    UnreadRow,
)
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.types import convert_all
from fulmen.connectors.sql.lookup import SqlLookupOptions
from fulmen.connectors.sqlite.values import lenient, typed_as, value_of
from fulmen.errors import text_of
from fulmen.services.sql.names import listed, quoted

_ROWS_AT_ONCE = 10_000
_KEYS_AT_ONCE = 256
_ASKABLE = ("string", "int32", "int64", "integer", "float64", "bool")
_BY_INDEX = re.compile(r"SEARCH .*USING (?!AUTOMATIC).*(INDEX|KEY)")
_BUSY_SECONDS = 5.0


class SqliteLookupOptions(SqlLookupOptions, WholeTableOptions):
    """The `config` of a SqliteLookup."""

    path: Annotated[str, Field(min_length=1)]
    """The file, of this machine or of a volume that each worker's pod has."""
    read: Literal["whole", "keys"] = "whole"
    """What is read of the table: `whole`: all of it, again when it changes; `keys`: the rows of
    keys that tuples have, by an index of the table, for one that is large or changes often."""

    @property
    @override
    def is_asked(self) -> bool:
        return self.read == "keys"

    @model_validator(mode="after")
    def _can_be_asked(self) -> SqliteLookupOptions:
        for name in self.pairs.values() if self.is_asked else ():
            if (kind := self.types.get(name, "string")) not in _ASKABLE:
                raise ValueError(
                    f"key: column {name!r} is {kind}, which SQLite can't be asked for: one value"
                    " may be written in several ways. Write read: whole"
                )
        return self


class SqliteLookup(TableLookup):
    """Completes tuples with the rows of a table or query, read again when the file changes."""

    config_model = SqliteLookupOptions

    @override
    def table(self, options: SqliteLookupOptions) -> LookupTable | AskedTable:
        return (SqliteAskedTable if options.is_asked else SqliteLookupTable)(options)


class _File:
    """A file of SQLite. Its connection stays open: so it knows of others' commits."""

    def __init__(self, options: SqliteLookupOptions) -> None:
        what = f"table {options.table!r}" if options.table else "the query"
        self.name = f"{what} in SQLite file '{options.path}'"
        self.source = quoted(options.table) if options.table else f"({options.query})"
        self._path, self._names = options.path, options.columns
        kinds = options.types
        self._typed = [
            (i, name, typed_as(kinds[name])) for i, name in enumerate(self._names) if name in kinds
        ]
        self._db: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._openings = 0  # versions are those of one connection

    def look(self) -> Seen:
        """What it is like now."""
        with self.opened() as db:
            [[version]] = db.execute("PRAGMA data_version")
        return Seen((self._place, self._openings, version))

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """The connection to the file that is there now. Raises TableError and OSError."""
        status = os.stat(self._path)
        place = status.st_dev, status.st_ino
        if self._db is not None and self._place != place:
            self._close()
        try:
            if self._db is None:
                self._db = sqlite3.connect(
                    self._path,
                    timeout=_BUSY_SECONDS,
                    isolation_level=None,
                    check_same_thread=False,
                )
                self._openings += 1
                self._db.execute("PRAGMA query_only = ON")
                self._place = place
            yield self._db
        except sqlite3.Error as error:
            self._close()
            raise TableError(f"SQLite says {str(error)!r}") from None

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None

    def check(self, db: sqlite3.Connection) -> None:
        """See that all columns are there."""
        there = [one for one, *_ in db.execute(f"SELECT * FROM {self.source} LIMIT 0").description]
        for name in self._names:  # SQLite takes a name in double quotes that is no column for text
            if name not in there:
                raise TableError(f"it has no column {name!r}, only {there}")

    def typed(self, row: Sequence[Any]) -> list[Any]:
        """A row with values of the columns' types. Raises Malformed."""
        values = list(row)
        convert_all(values, self._typed)
        return values


class SqliteLookupTable(LookupTable):
    """A table or query in a file, which is read as a whole."""

    def __init__(self, options: SqliteLookupOptions) -> None:
        self._file, self._names = _File(options), options.columns
        self.name = self._file.name

    @override
    def look(self) -> Seen:
        return self._file.look()

    @override
    def read(self) -> Iterator[Rows]:
        with self._file.opened() as db:
            self._file.check(db)
            with lenient(db):
                rows = db.execute(f"SELECT {listed(self._names)} FROM {self._file.source}")
                number = 0
                while some := rows.fetchmany(_ROWS_AT_ONCE):
                    yield [self._checked(number + i, row) for i, row in enumerate(some)]
                    number += len(some)

    def _checked(self, number: int, row: Sequence[Any]) -> list[Any]:
        try:
            return self._file.typed(row)
        except Malformed as error:
            raise TableError(f"row {number + 1}: {error}") from None


class SqliteAskedTable(AskedTable):
    """A table or query in a file, which is asked for keys."""

    tells_changes = True

    def __init__(self, options: SqliteLookupOptions) -> None:
        self._file = _File(options)
        self._key_at = [options.columns.index(name) for name in options.pairs.values()]
        key = [*map(quoted, options.pairs.values())]
        parts = [f"k{i}" for i in range(len(key))]
        names = ", ".join(f"t.{quoted(name)}" for name in options.columns)
        equal = " AND ".join(f"t.{of} = {part}" for of, part in zip(key, parts, strict=True))
        self._row = f"({', '.join('?' * len(key))})"
        self._select = (
            f"WITH asked({', '.join(parts)}) AS (VALUES {{}})"
            f" SELECT {names} FROM asked CROSS JOIN {self._file.source} AS t ON {equal}"
        )
        self._index = f"CREATE INDEX ... ON {self._file.source} ({', '.join(key)})"

    @override
    def check(self) -> None:
        with self._told(), self._file.opened() as db:
            self._file.check(db)
            select = self._select.format(self._row)
            plan = db.execute(f"EXPLAIN QUERY PLAN {select}", [None] * self._row.count("?"))
            steps = [detail for *_, detail in plan]
            if not any(_BY_INDEX.match(step) for step in steps):
                raise TableError(
                    f"it has no index on its key, so each key would be looked for in all rows."
                    f" Make one: {self._index}; or write read: whole"
                )

    @override
    def version(self) -> Seen:
        with self._told():
            return self._file.look()

    @override
    def rows_of(self, keys: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any] | UnreadRow]:
        with self._told(), self._file.opened() as db, lenient(db):
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                some = [v for key in keys[start : start + _KEYS_AT_ONCE] if (v := _asked(key))]
                # NULL equals nothing: so there are few statements, which SQLite knows by then
                size = min(_KEYS_AT_ONCE, 1 << max(0, len(some) - 1).bit_length())
                some += [[None] * self._row.count("?")] * (size - len(some))
                select = self._select.format(", ".join([self._row] * size))
                for row in db.execute(select, [*chain.from_iterable(some)]):
                    yield self._read(row)

    def _read(self, row: Sequence[Any]) -> Sequence[Any] | UnreadRow:
        try:
            return self._file.typed(row)
        except Malformed as error:
            return UnreadRow([row[i] for i in self._key_at], f"a row of the table: {error}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (TableError, OSError) as error:
            raise ServiceUnavailable(self._file.name, text_of(error), "can't be used") from None


def _asked(key: Sequence[Any]) -> list[Any] | None:
    """A key as SQLite has it. None: it has no such key."""
    try:
        return [_value(part) for part in key]
    except (Malformed, OverflowError):
        return None


def _value(part: Any) -> Any:
    """A value that SQLite may find: numbers of all kinds equal if they are the same number."""
    if isinstance(part, Decimal):
        part = int(part) if part == part.to_integral_value() else float(part)
    return value_of(part)
