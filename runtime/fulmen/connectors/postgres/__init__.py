"""Sinks and sources on tables of PostgreSQL, by psycopg 3.

Uses `connectors.sql` and `services.sql`. Used by topologies, as
`class: fulmen.connectors.postgres.PostgresSink`.
"""

import fulmen.services.sql.postgres  # noqa: F401 (says so if the client is missing)
from fulmen.connectors.postgres.lookup import PostgresLookup
from fulmen.connectors.postgres.options import (
    PostgresQueryOptions,
    PostgresQueueOptions,
    PostgresSinkOptions,
)
from fulmen.connectors.postgres.query_spout import PostgresQuerySpout
from fulmen.connectors.postgres.queue_spout import PostgresQueueSpout
from fulmen.connectors.postgres.sink import PostgresSink

__all__ = [
    "PostgresLookup",
    "PostgresQueryOptions",
    "PostgresQuerySpout",
    "PostgresQueueOptions",
    "PostgresQueueSpout",
    "PostgresSink",
    "PostgresSinkOptions",
]
