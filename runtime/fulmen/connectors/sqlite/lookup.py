"""Lookups in tables of SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator
from typing_extensions import override

from fulmen.connectors.base.lookup.bolt import TableLookup
from fulmen.connectors.base.lookup.options import LookupOptions
from fulmen.connectors.base.lookup.table import LookupTable, Rows, Seen, TableError
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.options import types_of
from fulmen.connectors.formats.types import convert_all
from fulmen.connectors.sql.options import Fields, Name
from fulmen.connectors.sqlite.values import lenient, typed_as
from fulmen.services.sql.names import listed, quoted

_ROWS_AT_ONCE = 10_000
_BUSY_SECONDS = 5.0


class SqliteLookupOptions(LookupOptions):
    """The `config` of a SqliteLookup."""

    path: Annotated[str, Field(min_length=1)]
    """The file, of this machine or of a volume that each worker's pod has."""
    table: Name | None = None
    """The table, as the database spells it. Give this or `query`."""
    query: Name | None = None
    """A SELECT whose rows are the table. It must have `columns` among its columns."""
    columns_: Annotated[Fields, Field(alias="columns")]
    """The columns that are read: a list, or a mapping to their types, such as `{id: int64}`."""

    @property
    @override
    def columns(self) -> tuple[str, ...]:
        return tuple(self.columns_)

    @property
    @override
    def types(self) -> Mapping[str, str]:
        return types_of(self.columns_)

    @model_validator(mode="after")
    def _has_a_table(self) -> SqliteLookupOptions:
        if (self.table is None) == (self.query is None):
            raise ValueError("name table or query, and not both")
        return self


class SqliteLookup(TableLookup):
    """Completes tuples with the rows of a table or query, read again when the file changes."""

    config_model = SqliteLookupOptions

    @override
    def table(self, options: SqliteLookupOptions) -> LookupTable:
        return SqliteLookupTable(options)


class SqliteLookupTable(LookupTable):
    """A table or query in a file. Its connection stays open: so it knows of others' commits."""

    def __init__(self, options: SqliteLookupOptions) -> None:
        self._options = options
        what = f"table {options.table!r}" if options.table else "the query"
        self.name = f"{what} in SQLite file '{options.path}'"
        self._db: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None

    @override
    def look(self) -> Seen:
        try:
            [[version]] = self._opened().execute("PRAGMA data_version")
        except sqlite3.Error as error:
            raise self._meant(error) from None
        return Seen((self._place, version))

    def _opened(self) -> sqlite3.Connection:
        """The connection to the file that is there now."""
        status = os.stat(self._options.path)
        place = status.st_dev, status.st_ino
        if self._db is not None and self._place != place:
            self._close()
        if self._db is None:
            self._db = sqlite3.connect(
                self._options.path,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._db.execute("PRAGMA query_only = ON")
            self._place = place
        return self._db

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None

    @override
    def read(self) -> Iterator[Rows]:
        options, names = self._options, self._options.columns
        source = quoted(options.table) if options.table else f"({options.query})"
        kinds = options.types
        typed = [(i, name, typed_as(kinds[name])) for i, name in enumerate(names) if name in kinds]
        try:
            db = self._opened()
            there = [one for one, *_ in db.execute(f"SELECT * FROM {source} LIMIT 0").description]
            for name in names:  # SQLite takes a name in double quotes that is no column for a text
                if name not in there:
                    raise TableError(f"it has no column {name!r}, only {there}")
            with lenient(db):
                rows = db.execute(f"SELECT {listed(names)} FROM {source}")
                number = 0
                while some := rows.fetchmany(_ROWS_AT_ONCE):
                    yield [self._checked(number + i, row, typed) for i, row in enumerate(some)]
                    number += len(some)
        except sqlite3.Error as error:
            raise self._meant(error) from None

    def _checked(self, number: int, row: Any, typed: Any) -> list[Any]:
        values = list(row)
        try:
            convert_all(values, typed)
        except Malformed as error:
            raise TableError(f"row {number + 1}: {error}") from None
        return values

    def _meant(self, error: sqlite3.Error) -> TableError:
        self._close()
        return TableError(f"SQLite says {str(error)!r}")
