"""A sink of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from fulmen.connectors.postgres.database import PostgresDatabase
from fulmen.connectors.postgres.options import PostgresSinkOptions
from fulmen.connectors.postgres.table import PostgresTable
from fulmen.connectors.postgres.texts import Rules
from fulmen.connectors.postgres.writing import Contention
from fulmen.connectors.sql.sink import SqlSink
from fulmen.services.pools import shared


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
