"""A table or query with a growing column as a source."""

from __future__ import annotations

from typing import Any, ClassVar

import psycopg
from psycopg import errors
from pydantic import BaseModel, Field

from fulmen.connectors.postgres.database import Dsn, PostgresDatabase, escaped
from fulmen.connectors.postgres.loading import TimeFields, check_types, cursor_of, rows_of
from fulmen.connectors.sql.growing import GrowingSpout, Row
from fulmen.connectors.sql.options import GrowingOptions
from fulmen.connectors.sql.source import MOST_COUNTED
from fulmen.services.names import listed, qualified, quoted

HAVE_PLACE = {
    psycopg.adapters.types[name].oid: condition
    for names, condition in {
        ("float4", "float8", "numeric"): "{column} < 'NaN' AND {column} - {column} = 0",
        ("date", "timestamp", "timestamptz", "interval"): "isfinite({column})",
    }.items()
    for name in names
}
"""By type: which values have a place in an order that goes on. Behind infinity nothing comes, and
PostgreSQL sorts NaN behind all numbers. Infinity minus infinity is NaN, also in versions whose
`numeric` does not know the word."""


class PostgresQueryOptions(GrowingOptions):
    """Options of a PostgresQuerySpout."""

    dsn: Dsn
    """How to connect, as libpq takes it: `postgresql://user:password@host/database`."""
    delay_seconds: float = Field(5.0, ge=0)
    """Rows are emitted when a value at least as high as theirs has been there for so long. A row
    that is committed later than that, with a lower value, is missed: make it longer than any
    transaction that writes to the table. 0: for a table with one writer."""


class PostgresQuerySpout(GrowingSpout):
    """Emits the rows of a table or query of PostgreSQL in the order of a growing column."""

    config_model: ClassVar[type[BaseModel] | None] = PostgresQueryOptions

    def find_table(self, options: PostgresQueryOptions) -> _Query:
        """The table."""
        return _Query(options)


def _cures(options: PostgresQueryOptions) -> dict[type[psycopg.Error], str]:
    """What to do about mistakes of the names in the options, or of the query."""
    names = "Correct the name in column or fields"
    if options.table:
        return {errors.UndefinedColumn: f"{names}, or add the column to the table."}
    return {
        errors.UndefinedColumn: f"{names}, or have the query return that column.",
        errors.UndefinedTable: "Make the table first, or correct its name in query.",
        errors.InsufficientPrivilege: "Grant the right to the role that connects.",
        errors.ProgrammingError: "Correct query: one SELECT, whose columns have names.",
    }


class _Query:
    def __init__(self, options: PostgresQueryOptions) -> None:
        what = f"table {options.table!r}" if options.table else f"query of {options.column!r}"
        cures = _cures(options)
        self._database = PostgresDatabase(what, options.dsn, reads=True, writes=False, cures=cures)
        query = (options.query or "").rstrip().rstrip(";")
        parts = {
            "source": escaped(qualified(options.table) if options.table else f"({query}) AS q"),
            "column": escaped(quoted(options.column)),
            "fields": escaped(listed(options.fields)),
        }
        self._parts, self._most = parts, options.fetch_size
        self._times = TimeFields(options.fields)
        with self._database.opening() as db:
            first = "SELECT {column} FROM {source} LIMIT 0".format(**parts)
            [column] = db.execute(first, []).description or []
            select = "SELECT {fields} FROM {source}".format(**parts)
            check_types(db, self._database.where, select, options.fields)
            self._has_place = HAVE_PLACE.get(column.type_code, "{column} IS NOT NULL")
            self._highest = (
                f"SELECT {{column}} FROM {{source}} WHERE {self._has_place}"
                " ORDER BY {column} DESC LIMIT 1"
            ).format(**parts)
            db.execute(f"EXPLAIN {self._highest}", [])
            self._select(db, None, None, 0)

    def highest(self, position: Any) -> Any:  # noqa: ARG002
        """The highest value there is that has a place."""
        with self._database.transaction() as db:
            row = cursor_of(db).execute(self._highest, []).fetchone()
        return row[0] if row else None

    def after(self, position: Any, last: Any) -> list[Row]:
        """The next rows in order."""
        with self._database.transaction() as db:
            return self._select(db, position, last, self._most)

    def typed(self, values: list[Any]) -> list[Any]:
        """The same: the types of columns were compared at the start.

        Raises:
            Malformed: One can't be read, or is text, since Python has no such date or time.
        """
        self._times.check(values)
        return values

    def behind(self, position: Any) -> int:
        """How many rows have higher values, up to a limit."""
        condition, values = self._above(position)
        count = (
            f"SELECT count(*) FROM (SELECT FROM {{source}} WHERE {condition} LIMIT %s) AS behind"
        ).format(**self._parts)
        return self._count(count, [*values, MOST_COUNTED])

    placeless = "null, NaN or infinite"

    def without_place(self, position: Any) -> int:  # noqa: ARG002
        """How many rows have no value, NaN or infinity, up to a limit."""
        count = (
            "SELECT count(*) FROM (SELECT FROM {source}"
            f" WHERE ({self._has_place}) IS NOT TRUE LIMIT %s) AS without"
        ).format(**self._parts)
        return self._count(count, [MOST_COUNTED])

    def _count(self, statement: str, values: list[Any]) -> int:
        with self._database.transaction() as db:
            row = db.execute(statement, values).fetchone()
        return int(row[0]) if row else 0

    def _select(
        self, db: psycopg.Connection[Any], position: Any, last: Any, most: int
    ) -> list[Row]:
        condition, values = self._above(position)
        if last is not None:
            condition += " AND {column} <= %s"
            values.append(last)
        statement = (
            'SELECT rank() OVER (ORDER BY "fulmen position"), * FROM'
            ' (SELECT {column} AS "fulmen position", {fields} FROM {source}'
            f" WHERE {condition} ORDER BY {{column}} FETCH FIRST %s ROWS WITH TIES) AS next"
            " ORDER BY 1"
        )
        composed = statement.format(**self._parts)
        return rows_of(cursor_of(db).execute(composed, [*values, most]))

    def _above(self, position: Any) -> tuple[str, list[Any]]:
        """Rows behind a position: a condition, and its values."""
        if position is None:
            return self._has_place, []
        return f"{self._has_place} AND {{column}} > %s", [position]
