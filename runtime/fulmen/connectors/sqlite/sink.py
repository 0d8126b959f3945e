"""A sink of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel

from fulmen.connectors.sql.sink import SqlSink
from fulmen.connectors.sqlite.database import SqliteDatabase
from fulmen.connectors.sqlite.options import SqliteSinkOptions
from fulmen.connectors.sqlite.table import SqliteTable


class SqliteSink(SqlSink):
    """Writes each row of a batch to a table in a file of SQLite, all in one transaction."""

    config_model: ClassVar[type[BaseModel] | None] = SqliteSinkOptions

    def look_at_table(self, options: Any, columns: Sequence[str], _task: str) -> SqliteTable:
        """Find the table and see that it takes these columns."""
        database = SqliteDatabase(f"table {options.table!r}", options.path, "IMMEDIATE")
        return SqliteTable(database, options, columns)
