"""A table or query with a growing column as a source."""

from __future__ import annotations

import sqlite3
from typing import Any, ClassVar

from pydantic import BaseModel

from fulmen.connectors.sql.growing import GrowingSpout, Row
from fulmen.connectors.sql.options import GrowingOptions, Name
from fulmen.connectors.sql.tables import check_columns
from fulmen.connectors.sqlite.database import Database, listed, quoted


class SqliteQueryOptions(GrowingOptions):
    """Options of a SqliteQuerySpout."""

    path: Name
    """The file."""


class SqliteQuerySpout(GrowingSpout):
    """Emits the rows of a table or query in a file of SQLite in the order of a growing column."""

    config_model: ClassVar[type[BaseModel] | None] = SqliteQueryOptions

    def connect(self, options: SqliteQueryOptions) -> _Query:
        """Find the table."""
        return _Query(options)


class _Query:
    def __init__(self, options: SqliteQueryOptions) -> None:
        what = f"table {options.table!r}" if options.table else f"query of {options.column!r}"
        self._database = Database(what, options.path)
        query = (options.query or "").rstrip().rstrip(";")
        self._source = quoted(options.table) if options.table else f"({query}) AS q"
        self._column, self._most = quoted(options.column), options.fetch_size
        self._names = listed([options.column, *options.fields])
        self._database.refuse_absent()
        with self._database.opening("DEFERRED") as db:
            found = db.execute(f"SELECT * FROM {self._source} LIMIT 0").description
            names = [name for name, *_ in found]
            # SQLite takes a name in double quotes that is no column for a text
            check_columns(self._database.where, [options.column, *options.fields], names)

    def highest(self) -> Any:
        """The highest value there is."""
        with self._database.transaction("DEFERRED") as db:
            return db.execute(f"SELECT max({self._column}) FROM {self._source}").fetchone()[0]

    def after(self, position: Any, last: Any) -> list[Row]:
        """The next rows in order."""
        with self._database.transaction("DEFERRED") as db:
            return self._select(db, position, last, self._most)

    def _select(self, db: sqlite3.Connection, position: Any, last: Any, most: int) -> list[Row]:
        column = self._column
        wheres, values = [f"{column} IS NOT NULL"], []
        for value, where in ((position, f"{column} > ?"), (last, f"{column} <= ?")):
            if value is not None:
                wheres.append(where)
                values.append(value)
        select = f"SELECT {self._names} FROM {self._source} WHERE "
        first = f"{select}{' AND '.join(wheres)} ORDER BY {column} LIMIT ?"
        rows: list[Row] = db.execute(first, [*values, most]).fetchall()
        if len(rows) < most:
            return rows
        last_value = rows[-1][0]  # its other rows may not be among these
        complete = [row for row in rows if row[0] != last_value]
        return complete + db.execute(f"{select}{column} = ?", [last_value]).fetchall()
