"""A PostgreSQL that connectors are tested with: empty for each test."""

from fulmen.connectors.postgres import PostgresSink
from support.connectors.sql_sinks import prepared


class Target:
    """A database, as its owner or somebody else sees it."""

    def __init__(self, server, dsn=None):
        self.server, self.dsn = server, dsn or server.dsn
        self.run("DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")

    def sink(self, **options):
        return prepared(PostgresSink(), dsn=self.dsn, **options)

    def run(self, *statements):
        return self.server.run(*statements)
