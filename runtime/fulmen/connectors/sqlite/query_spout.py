"""A table or query with a growing column as a source."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel
from typing_extensions import override

from fulmen.connectors.formats.options import types_of
from fulmen.connectors.formats.types import convert_all, convert_column
from fulmen.connectors.sql.growing import GrowingSpout, Row
from fulmen.connectors.sql.tables import check_columns
from fulmen.connectors.sqlite.database import SqliteDatabase
from fulmen.connectors.sqlite.options import SqliteQueryOptions
from fulmen.connectors.sqlite.values import lenient, typed_as
from fulmen.services.sql.names import listed, quoted

HAVE_PLACE = {
    "integer": "{column} > -9e999 AND {column} < 9e999",
    "real": "{column} > -9e999 AND {column} < 9e999",
    "text": "{column} >= '' AND {column} < x''",
    "blob": "{column} >= x''",
    "null": "{column} IS NOT NULL",
}
"""By the type of a value that a column has: which values have a place in the same order. Behind
infinity no number comes, and SQLite sorts text behind all numbers, and blobs behind all text."""
_NO_UTF_8 = "Could not decode to UTF-8"
"""What the module says if it can't read a text."""
_TYPES = {int: "integer", float: "real", str: "text"}


class SqliteQuerySpout(GrowingSpout):
    """Emits the rows of a table or query in a file of SQLite in the order of a growing column."""

    config_model: ClassVar[type[BaseModel] | None] = SqliteQueryOptions
    placeless = "null, infinite, or of another type than others"
    options: SqliteQueryOptions

    @override
    def find(self, what: str) -> SqliteDatabase:
        options = self.options
        self.source = quoted(options.table) if options.table else self.query
        self.column, self.fields = quoted(options.column), listed(options.fields)
        self._types = types = types_of(options.fields)
        named = [(i, name) for i, name in enumerate(options.fields) if name in types]
        self._wanted = [(i, name, typed_as(types[name])) for i, name in named]
        database = SqliteDatabase(what, options.path, "DEFERRED")
        database.refuse_absent()
        return database

    @override
    def look(self, db: sqlite3.Connection) -> None:
        columns = db.execute(f"SELECT * FROM {self.source} LIMIT 0").description
        wanted = [self.options.column, *self.options.fields]
        # SQLite takes a name in double quotes that is no column for a text
        check_columns(self._database.where, wanted, [name for name, *_ in columns])

    @override
    def fetched(self, db: sqlite3.Connection, statement: str, values: list[Any]) -> list[Row]:
        rows: list[Row]
        try:
            rows = db.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if not str(error).startswith(_NO_UTF_8):
                raise
            with lenient(db):
                rows = db.execute(statement, values).fetchall()
        return rows

    @override
    def check(self, values: list[Any]) -> list[Any]:
        """The values, as the types of their fields say. In SQLite each value has a type of its own.

        Raises:
            Malformed: One is of another type.
        """
        made = list(values)
        convert_all(made, self._wanted)
        return made

    @override
    def check_each(self, rows: Sequence[list[Any]]) -> Sequence[list[Any]]:
        if not self._wanted:
            return rows
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for i, name, convert in self._wanted:
            columns[i] = convert_column(columns[i], self._types[name], convert)
        return list(map(list, zip(*columns, strict=True)))

    @override
    def after(self, db: sqlite3.Connection, last: Any) -> list[Row]:
        most, (_, value) = self.options.fetch_size, self.place(db)
        condition, values = self.above(db)
        if last is not None:
            condition += f" AND {self.column} <= {value}"
            values.append(last)
        names = f'{self.column} AS "fulmen position", {self.fields}'
        select = f"SELECT {names} FROM {self.source} WHERE "
        if self._kind(db) == "text":  # of which some may be equal that are not in Python
            first = (
                'SELECT rank() OVER (ORDER BY "fulmen position"), *'
                f" FROM ({select}{condition} ORDER BY {self.column} LIMIT ?) ORDER BY 1"
            )
        else:
            first = (
                f"SELECT {self.column}, {names} FROM {self.source}"
                f" WHERE {condition} ORDER BY {self.column} LIMIT ?"
            )
        rows = self.fetched(db, first, [*values, most])
        if len(rows) < most:
            return rows
        last_number, last_value, *_ = rows[-1]  # its other rows may not be among these
        complete = [row for row in rows if row[0] != last_number]
        others = self.fetched(db, f"{select}{self.column} = {value}", [last_value])
        return complete + [(last_number, *row) for row in others]

    @override
    def place(self, db: sqlite3.Connection) -> tuple[str, str]:
        """A condition for values that have a place; and how statements have such a value.

        They are of the position's type, or of the lowest one's before there is one. `start` is none
        yet, as SQLite may take its text for a number; nor are bytes, which may be text that is no
        UTF-8.
        """
        kind = self._kind(db)
        value = "CAST(? AS TEXT)" if kind == "text" else "?"
        return HAVE_PLACE[kind].format(column=self.column), value

    def _kind(self, db: sqlite3.Connection) -> str:
        """The type of the values that have a place."""
        kind = None if self.start == self.options.start else _TYPES.get(type(self.start))
        if kind is None:
            some = f"FROM {self.source} WHERE {self.column} IS NOT NULL"
            lowest = f"SELECT typeof({self.column}) {some} ORDER BY {self.column} LIMIT 1"
            [kind] = db.execute(lowest).fetchone() or ["null"]
        return str(kind)
