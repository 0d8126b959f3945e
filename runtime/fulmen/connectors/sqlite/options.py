"""Options for SQLite."""

from __future__ import annotations

from typing import Literal

from fulmen.connectors.sql.options import GrowingOptions, Name, TableSinkOptions


class SqliteSinkOptions(TableSinkOptions):
    """Options of a SqliteSink."""

    path: Name
    """The file. With `create` it is made if it is not there, but not its folder."""
    mode: Literal["insert", "upsert"] = "insert"
    """`insert` adds rows. `upsert` adds a row, or replaces the one with the same key; of several
    rows with one key the last counts."""


class SqliteQueryOptions(GrowingOptions):
    """Options of a SqliteQuerySpout."""

    path: Name
    """The file."""
