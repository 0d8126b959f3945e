"""A table or query with a growing column as a source."""

from __future__ import annotations

import sqlite3
from typing import Any, ClassVar

from pydantic import BaseModel

from fulmen.connectors.formats.options import types_of
from fulmen.connectors.formats.types import convert_all
from fulmen.connectors.sql.growing import GrowingSpout, Row
from fulmen.connectors.sql.options import GrowingOptions, Name
from fulmen.connectors.sql.source import MOST_COUNTED
from fulmen.connectors.sql.tables import check_columns
from fulmen.connectors.sqlite.database import SqliteDatabase
from fulmen.connectors.sqlite.values import lenient, typed_as
from fulmen.services.names import listed, quoted

HAVE_PLACE = {
    "integer": "{column} > -9e999 AND {column} < 9e999",
    "real": "{column} > -9e999 AND {column} < 9e999",
    "text": "{column} >= '' AND {column} < x''",
    "blob": "{column} >= x''",
    "null": "{column} IS NOT NULL",
}
"""By the type of a value that a column has: which values have a place in the same order. Behind
infinity no number comes, and SQLite sorts text behind all numbers, and blobs behind all text."""
_TYPES = {int: "integer", float: "real", str: "text"}


class SqliteQueryOptions(GrowingOptions):
    """Options of a SqliteQuerySpout."""

    path: Name
    """The file."""


class SqliteQuerySpout(GrowingSpout):
    """Emits the rows of a table or query in a file of SQLite in the order of a growing column."""

    config_model: ClassVar[type[BaseModel] | None] = SqliteQueryOptions

    def find_table(self, options: SqliteQueryOptions) -> _Query:
        """The table."""
        return _Query(options)


class _Query:
    def __init__(self, options: SqliteQueryOptions) -> None:
        what = f"table {options.table!r}" if options.table else f"query of {options.column!r}"
        self._database = SqliteDatabase(what, options.path, "DEFERRED")
        query = (options.query or "").rstrip().rstrip(";")
        self._source = quoted(options.table) if options.table else f"({query}) AS q"
        self._column, self._most = quoted(options.column), options.fetch_size
        self._start = options.start
        self._names = f'{self._column} AS "fulmen position", {listed(options.fields)}'
        types = types_of(options.fields)
        self._wanted = [
            (i, name, typed_as(types[name]))
            for i, name in enumerate(options.fields)
            if name in types
        ]
        self._database.refuse_absent()
        with self._database.opening() as db:
            found = db.execute(f"SELECT * FROM {self._source} LIMIT 0").description
            names = [name for name, *_ in found]
            # SQLite takes a name in double quotes that is no column for a text
            check_columns(self._database.where, [options.column, *options.fields], names)

    def highest(self, position: Any) -> Any:
        """The highest value there is that has a place."""
        with self._database.transaction() as db, lenient(db):
            where, _ = self._place(db, position)
            select = f"SELECT max({self._column}) FROM {self._source} WHERE {where}"
            return db.execute(select).fetchone()[0]

    def after(self, position: Any, last: Any) -> list[Row]:
        """The next rows in order."""
        with self._database.transaction() as db, lenient(db):
            return self._select(db, position, last, self._most)

    def typed(self, values: list[Any]) -> list[Any]:
        """The values, as the types of their fields say. In SQLite each value has a type of its own.

        Raises:
            Malformed: One is of another type.
        """
        made = list(values)
        convert_all(made, self._wanted)
        return made

    def behind(self, position: Any) -> int:
        """How many rows have higher values, up to a limit."""
        with self._database.transaction() as db:
            where, value = self._place(db, position)
            return self._count(db, *self._above(where, value, position))

    placeless = "null, infinite, or of another type than others"

    def without_place(self, position: Any) -> int:
        """How many rows have no value that has a place, up to a limit. SQLite has no NaN."""
        with self._database.transaction() as db:
            where, _ = self._place(db, position)
            return self._count(db, f"({where}) IS NOT TRUE", [])

    def _count(self, db: sqlite3.Connection, condition: str, values: list[Any]) -> int:
        rows = f"SELECT 1 FROM {self._source} WHERE {condition} LIMIT {MOST_COUNTED}"
        found: int = db.execute(f"SELECT count(*) FROM ({rows})", values).fetchone()[0]
        return found

    def _select(self, db: sqlite3.Connection, position: Any, last: Any, most: int) -> list[Row]:
        where, value = self._place(db, position)
        condition, values = self._above(where, value, position)
        if last is not None:
            condition += f" AND {self._column} <= {value}"
            values.append(last)
        select = f"SELECT {self._names} FROM {self._source} WHERE "
        first = (
            'SELECT rank() OVER (ORDER BY "fulmen position"), *'
            f" FROM ({select}{condition} ORDER BY {self._column} LIMIT ?) ORDER BY 1"
        )
        rows: list[Row] = db.execute(first, [*values, most]).fetchall()
        if len(rows) < most:
            return rows
        last_number, last_value, *_ = rows[-1]  # its other rows may not be among these
        complete = [row for row in rows if row[0] != last_number]
        others = db.execute(f"{select}{self._column} = {value}", [last_value]).fetchall()
        return complete + [(last_number, *row) for row in others]

    def _above(self, where: str, value: str, position: Any) -> tuple[str, list[Any]]:
        """Rows behind a position: a condition, and its values."""
        if position is None:
            return where, []
        return f"{where} AND {self._column} > {value}", [position]

    def _place(self, db: sqlite3.Connection, position: Any) -> tuple[str, str]:
        """Which values have a place, a condition; and how statements have such a value.

        They are of the position's type, or of the lowest one's before there is one. `start` is none
        yet, as SQLite may take its text for a number; nor are bytes, which may be text that is no
        UTF-8.
        """
        kind = None if position == self._start else _TYPES.get(type(position))
        if kind is None:
            lowest = f"SELECT typeof(min({self._column})) FROM {self._source}"
            [kind] = db.execute(lowest).fetchone()
        value = "CAST(? AS TEXT)" if kind == "text" else "?"
        return HAVE_PLACE[kind].format(column=self._column), value
