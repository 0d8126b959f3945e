"""Sinks and sources on tables of PostgreSQL, by psycopg 3.

Uses `connectors.sql` and the connections of `transactional.stores`: all components of a process
share a pool for each database. Used by topologies, as
`class: fulmen.connectors.postgres.PostgresSink`.
"""

from fulmen.errors import install as _install

try:
    import psycopg as _psycopg  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"{error}. The client of PostgreSQL is an extra: {_install('postgres')}"
    ) from error

from fulmen.connectors.postgres.query_spout import PostgresQueryOptions, PostgresQuerySpout
from fulmen.connectors.postgres.queue_spout import PostgresQueueOptions, PostgresQueueSpout
from fulmen.connectors.postgres.sink import PostgresSink, PostgresSinkOptions

__all__ = [
    "PostgresQueryOptions",
    "PostgresQuerySpout",
    "PostgresQueueOptions",
    "PostgresQueueSpout",
    "PostgresSink",
    "PostgresSinkOptions",
]
