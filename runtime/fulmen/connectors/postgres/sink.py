"""A sink of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from fulmen.connectors.postgres.database import Database, Dsn
from fulmen.connectors.postgres.table import PostgresTable
from fulmen.connectors.postgres.writing import Contention
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.sink import SqlSink
from fulmen.transactional.stores.pools import shared


class PostgresSinkOptions(TableSinkOptions):
    """Options of a PostgresSink."""

    dsn: Dsn
    """How to connect, as libpq takes it: `postgresql://user:password@host/database`. What it leaves
    out is in PGHOST, PGPASSWORD and the other variables of libpq."""
    mode: Literal["insert", "upsert", "copy"] = "insert"
    """`insert` adds rows. `upsert` adds a row, or replaces the one with the same key; of several
    rows with one key in a batch the last counts. `copy` adds rows by COPY, which is faster for
    thousands of rows."""


class PostgresSink(SqlSink):
    """Writes each row of a batch to a table of PostgreSQL, all in one transaction."""

    config_model: ClassVar[type[BaseModel] | None] = PostgresSinkOptions

    def look_at_table(self, options: Any, columns: Sequence[str], task: str) -> PostgresTable:
        """Find the table and see that it takes these columns."""
        database = Database(f"table {options.table!r}", options.dsn)
        key = ("contention", options.dsn, task, options.table, tuple(columns))
        contention = shared(key, Contention)
        return PostgresTable(database, options, columns, contention)
