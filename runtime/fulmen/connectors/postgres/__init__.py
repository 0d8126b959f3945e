"""Sinks and sources on tables of PostgreSQL, by psycopg 3.

Uses `connectors.sql` and `services.postgres`. Used by topologies, as
`class: fulmen.connectors.postgres.PostgresSink`.
"""

import fulmen.services.postgres  # noqa: F401 (says so if the client is missing)
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
