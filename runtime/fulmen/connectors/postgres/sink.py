"""A sink of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from fulmen.connectors.options import Zone
from fulmen.connectors.postgres.database import Dsn, PostgresDatabase
from fulmen.connectors.postgres.table import PostgresTable
from fulmen.connectors.postgres.texts import Rules
from fulmen.connectors.postgres.writing import Contention
from fulmen.connectors.sql.options import TableSinkOptions
from fulmen.connectors.sql.sink import SqlSink
from fulmen.services.pools import shared


class PostgresSinkOptions(TableSinkOptions):
    """Options of a PostgresSink."""

    dsn: Dsn
    """How to connect, as libpq takes it: `postgresql://user:password@host/database`. What it leaves
    out is in PGHOST, PGPASSWORD and the other variables of libpq."""
    mode: Literal["insert", "upsert", "copy"] = "insert"
    """`insert` adds rows. `upsert` adds a row, or replaces the one with the same key; of several
    rows with one key in a batch the last counts. `copy` adds rows by COPY, which is faster for
    thousands of rows."""
    timezone: Zone | None = None
    """The name of a time zone, such as `Europe/Berlin`. Dates and times without a time zone are of
    it, and columns of type `timestamp`, which have none, get the times of it. Default: UTC for the
    first, and a time that has a time zone is refused in such a column."""
    round: bool = False
    """Whether numbers and times with more digits than their column keeps, such as `numeric(6,2)`,
    are rounded. Default: their row is refused."""


class PostgresSink(SqlSink):
    """Writes each row of a batch to a table of PostgreSQL, all in one transaction."""

    config_model: ClassVar[type[BaseModel] | None] = PostgresSinkOptions

    def look_at_table(self, options: Any, columns: Sequence[str], task: str) -> PostgresTable:
        """Find the table and see that it takes these columns."""
        database = PostgresDatabase(f"table {options.table!r}", options.dsn)
        key = ("contention", options.dsn, task, options.table, tuple(columns))
        contention = shared(key, Contention)
        zone = ZoneInfo(options.timezone) if options.timezone else None
        return PostgresTable(database, options, columns, contention, Rules(zone, options.round))
