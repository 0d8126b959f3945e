"""Sinks, sources and lookups on tables in a file of SQLite: nothing to install and nothing to run.

Uses `connectors.sql` and `services.sql`. Used by topologies, as
`class: fulmen.connectors.sqlite.SqliteSink`.
"""

from fulmen.connectors.sqlite.lookup import SqliteLookup
from fulmen.connectors.sqlite.options import SqliteQueryOptions, SqliteSinkOptions
from fulmen.connectors.sqlite.query_spout import SqliteQuerySpout
from fulmen.connectors.sqlite.sink import SqliteSink

__all__ = [
    "SqliteLookup",
    "SqliteQueryOptions",
    "SqliteQuerySpout",
    "SqliteSink",
    "SqliteSinkOptions",
]
