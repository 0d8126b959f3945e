"""A database: its connections, and what its errors mean to a sink or a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any

import psycopg
from psycopg import errors
from psycopg.sql import Identifier
from pydantic import Field

from fulmen.api.sinks import ServiceUnavailable
from fulmen.transactional.errors import StoreRefused
from fulmen.transactional.stores import postgres_connection as connections
from fulmen.transactional.stores.pools import Pool, pool_of

Dsn = Annotated[str, Field(min_length=1, repr=False)]

CURES: tuple[tuple[type[psycopg.Error], str], ...] = (
    (
        errors.InsufficientPrivilege,
        "Grant the right to the role that connects; docs/connectors/postgres.md lists those that"
        " are needed.",
    ),
    (
        errors.InvalidColumnReference,
        "Upserts need a primary key or a unique index on exactly the columns of key.",
    ),
    (errors.UndefinedTable, "Make it first, or correct the name: upper and lower case count."),
    (errors.UndefinedColumn, "Correct the name, or add the column."),
    (errors.InvalidSchemaName, "Make the schema first, or correct its name."),
    (errors.GeneratedAlways, "Leave the column out: write columns."),
    (errors.UndefinedObject, "Correct the type in create."),
)

NO_CURES: Mapping[type[psycopg.Error], str] = MappingProxyType({})

SERVERS = ("08", "53100", "53300", "57P", "58")
"""Codes, or their beginnings, that are about the server: connections, its disk, its end."""
CHECKED = "SET CONSTRAINTS ALL IMMEDIATE;"
"""So that it shows which row breaks them."""
READABLE = "SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres'"
"""How values are spelled that a source reads, whatever the server, database or role say."""
CONFLICTS = ("40", "53", "55", "57014")
"""About what others do at the same time, or what the server is short of: they pass."""


class PostgresDatabase:
    """One database, for one component.

    Attributes:
        service: Which database: what is away if it is.
        where: Which table or query, and where: the first words of other messages.
    """

    def __init__(
        self,
        what: str,
        dsn: str,
        *,
        reads: bool = False,
        writes: bool = True,
        cures: Mapping[type[psycopg.Error], str] = NO_CURES,
    ) -> None:
        """Make it known, without connecting.

        Args:
            what: A table or query.
            dsn: How to connect.
            reads: Whether values are read.
            writes: Whether anything is written: then a standby is of no use.
            cures: What is to be done about mistakes that are other ones here than elsewhere. The
                first that fits counts, before `CURES`.

        Raises:
            StoreRefused: The DSN can't be understood.
        """
        self.service = f"PostgreSQL {connections.described(what, dsn)}"
        self.where = f"{what} in {self.service}"
        self._dsn = dsn
        self._cures = (*cures.items(), *CURES)
        self._begin = CHECKED + READABLE if reads else CHECKED
        self._writes = writes

    @property
    def _pool(self) -> Pool[connections.PostgresConnection]:
        return pool_of(("postgres", self._dsn))

    def connect(self) -> psycopg.Connection[Any]:
        """A connection that nobody else has, for whoever closes it. Raises psycopg.Error."""
        return connections.plain(self._dsn)

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction, whose constraints are checked by each statement.

        Raises:
            ServiceUnavailable: Whatever the database says. Nothing is wrong with the rows, so it is
                tried again until it is mended.
        """
        try:
            with self._lent() as db:
                yield db
        except psycopg.Error as error:
            raise self._translated(error, self._away) from self._cause(error)

    @contextmanager
    def opening(self) -> Iterator[psycopg.Connection[Any]]:
        """The same for `open` and `prepare`, where a mistake ends the topology.

        Raises:
            ServiceUnavailable: It is away.
            StoreRefused: A name, a right or the password is wrong.
        """
        try:
            with self._lent() as db:
                found = db.execute("SHOW transaction_read_only").fetchone()
                if self._writes and found and found[0] == "on":
                    reason = "the server is a standby, or the role may only read"
                    raise ServiceUnavailable(self.service, reason)
                yield db
        except psycopg.Error as error:
            raise self._translated(error, self._meant) from self._cause(error)

    @contextmanager
    def _lent(self) -> Iterator[psycopg.Connection[Any]]:
        with (
            self._pool.lent(lambda: connections.connect(self._dsn)) as lent,
            lent.transaction() as db,
        ):
            db.execute(self._begin)
            yield db

    def _cause(self, error: psycopg.Error) -> psycopg.Error | None:
        text = str(error)
        return error if connections.without_password(text, self._dsn) == text else None

    def _translated(self, error: psycopg.Error, meant: Any) -> Exception:
        text = connections.without_password(said(error), self._dsn)
        found: Exception = meant(error, text)
        return found

    def in_doubt(self, error: psycopg.Error, rows: int) -> Exception:
        """The error for rows that may not be its cause: all of them fail alike."""
        told = connections.without_password(said(error), self._dsn)
        if rows == 1:
            doubt = "the only row, and no other tells whether it is to blame. It is refused"
            end = "after some minutes"
        else:
            doubt = f"all {rows} rows, and no other tells whether they are to blame. They wait"
            end = "until it is mended, or the table has a row that tells"
        text = f"{told}. It is so for {doubt} {end}"
        return ServiceUnavailable(self.service, text, "can't be used")

    def _away(self, error: psycopg.Error, text: str) -> Exception:
        code = connections.code_of(error)
        if code.startswith(SERVERS):
            return ServiceUnavailable(self.service, text)
        is_passing = code.startswith(CONFLICTS)
        state = "asks to try again" if is_passing else "can't be used"
        return ServiceUnavailable(self.service, text, state)

    def _meant(self, error: psycopg.Error, text: str) -> Exception:
        for kind, cure in self._cures:
            if isinstance(error, kind):
                return StoreRefused(self.where, text, cure)
        if error.sqlstate is None and connections.UNWELCOME.search(text):
            return StoreRefused(
                self.where,
                f"the server does not let us in ({text})",
                "Check user, password and database, and the server's pg_hba.conf.",
            )
        if connections.code_of(error).startswith(connections.MAY_PASS):
            return self._away(error, text)
        return StoreRefused(self.where, text, "Nothing was written.")


def said(error: psycopg.Error) -> str:
    """What the server says, in one line without its place in the statement."""
    diag = error.diag
    parts = [diag.message_primary, diag.message_detail]
    text = ". ".join(part.rstrip(".") for part in parts if part) or str(error)
    return " ".join(text.split())


def qualified(table: str) -> Identifier:
    """The name of a table, for statements: `table` or `schema.table`."""
    schema, _, name = table.rpartition(".")
    return Identifier(schema, name) if schema else Identifier(name)


def escaped(name: str) -> str:
    """A name, or a query, as part of a statement that has parameters."""
    return name.replace("%", "%%")
