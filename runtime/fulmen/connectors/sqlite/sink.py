"""A sink of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from fulmen.connectors.sql.options import Name, TableSinkOptions
from fulmen.connectors.sql.sink import SqlSink
from fulmen.connectors.sqlite.database import SqliteDatabase
from fulmen.connectors.sqlite.table import SqliteTable


class SqliteSinkOptions(TableSinkOptions):
    """Options of a SqliteSink."""

    path: Name
    """The file. With `create` it is made if it is not there, but not its folder."""
    mode: Literal["insert", "upsert"] = "insert"
    """`insert` adds rows. `upsert` adds a row, or replaces the one with the same key; of several
    rows with one key the last counts."""


class SqliteSink(SqlSink):
    """Writes each row of a batch to a table in a file of SQLite, all in one transaction."""

    config_model: ClassVar[type[BaseModel] | None] = SqliteSinkOptions

    def look_at_table(self, options: Any, columns: Sequence[str], _task: str) -> SqliteTable:
        """Find the table and see that it takes these columns."""
        database = SqliteDatabase(f"table {options.table!r}", options.path, "IMMEDIATE")
        return SqliteTable(database, options, columns)
