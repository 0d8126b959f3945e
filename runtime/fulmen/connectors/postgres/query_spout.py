"""A table or query with a growing column as a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import psycopg
from psycopg import errors
from pydantic import BaseModel
from typing_extensions import override

from fulmen.connectors.postgres.database import PostgresDatabase, escaped
from fulmen.connectors.postgres.loading import TimeFields, check_types, cursor_of, rows_of
from fulmen.connectors.postgres.options import PostgresQueryOptions
from fulmen.connectors.sql.growing import GrowingSpout, Row
from fulmen.services.sql.names import listed, qualified, quoted

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


class PostgresQuerySpout(GrowingSpout):
    """Emits the rows of a table or query of PostgreSQL in the order of a growing column."""

    config_model: ClassVar[type[BaseModel] | None] = PostgresQueryOptions
    placeless = "null, NaN or infinite"
    options: PostgresQueryOptions

    @override
    def find(self, what: str) -> PostgresDatabase:
        options = self.options
        self.source = escaped(qualified(options.table) if options.table else self.query)
        self.column, self.fields = escaped(quoted(options.column)), escaped(listed(options.fields))
        self._times = TimeFields(options.fields)
        cures = _cures(options)
        return PostgresDatabase(what, options.dsn, reads=True, writes=False, cures=cures)

    @override
    def look(self, db: psycopg.Connection[Any]) -> None:
        first = f"SELECT {self.column} FROM {self.source} LIMIT 0"
        [column] = db.execute(first, []).description or []
        select = f"SELECT {self.fields} FROM {self.source}"
        check_types(db, self._database.where, select, self.options.fields)
        has_place = HAVE_PLACE.get(column.type_code, "{column} IS NOT NULL")
        self._has_place = has_place.format(column=self.column)
        db.execute(f"EXPLAIN {self._next(self._has_place)}", [0])

    @override
    def place(self, db: psycopg.Connection[Any]) -> tuple[str, str]:
        return self._has_place, "%s"

    @override
    def fetched(self, db: psycopg.Connection[Any], statement: str, values: list[Any]) -> list[Row]:
        return rows_of(cursor_of(db).execute(statement, values))

    @override
    def after(self, db: psycopg.Connection[Any], last: Any) -> list[Row]:
        condition, values = self.above(db)
        if last is not None:
            condition += f" AND {self.column} <= %s"
            values.append(last)
        return self.fetched(db, self._next(condition), [*values, self.options.fetch_size])

    def _next(self, condition: str) -> str:
        return (
            'SELECT rank() OVER (ORDER BY "fulmen position"), * FROM'
            f' (SELECT {self.column} AS "fulmen position", {self.fields} FROM {self.source}'
            f" WHERE {condition} ORDER BY {self.column} FETCH FIRST %s ROWS WITH TIES) AS next"
            " ORDER BY 1"
        )

    @override
    def check(self, values: list[Any]) -> list[Any]:
        """Check the times alone: the types of columns were compared at the start."""
        self._times.check(values)
        return values

    @override
    def check_each(self, rows: Sequence[list[Any]]) -> Sequence[list[Any]]:
        """Check the times alone."""
        return self._times.check_each(rows)


def _cures(options: PostgresQueryOptions) -> dict[type[psycopg.Error], str]:
    """The cures of mistakes in the options' names, or in the query."""
    names = "Correct the name in column or fields"
    if options.table:
        return {errors.UndefinedColumn: f"{names}, or add the column to the table."}
    return {
        errors.UndefinedColumn: f"{names}, or have the query return that column.",
        errors.UndefinedTable: "Make the table first, or correct its name in query.",
        errors.InsufficientPrivilege: "Grant the right to the role that connects.",
        errors.ProgrammingError: "Correct query: one SELECT, whose columns have names.",
    }
