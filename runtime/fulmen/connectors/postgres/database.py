"""A database: what its errors mean to a sink or a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import errors

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.sql.database import SqlDatabase
from fulmen.services.errors import StoreRefused
from fulmen.services.service import ErrorKind
from fulmen.services.sql.postgres import LET_IN, NOT_LET_IN, UNWELCOME, Postgres

Cures = Mapping[type[psycopg.Error], str]
"""Cures of mistakes that are found when a topology starts."""
CURES: Cures = {
    errors.InsufficientPrivilege: "Grant the right to the role that connects;"
    " docs/connectors/postgres.md lists those that are needed.",
    errors.InvalidColumnReference: "Upserts need a primary key or a unique index on exactly the"
    " columns of key.",
    errors.UndefinedTable: "Make it first, or correct the name: upper and lower case count.",
    errors.UndefinedColumn: "Correct the name, or add the column.",
    errors.InvalidSchemaName: "Make the schema first, or correct its name.",
    errors.GeneratedAlways: "Leave the column out: write columns.",
    errors.UndefinedObject: "Correct the type in create.",
}
CHECKED = "SET CONSTRAINTS ALL IMMEDIATE;"
"""So that it shows which row breaks them."""
READABLE = "SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres'"
"""How values are spelled that a source reads, whatever the server, database or role say."""


class PostgresDatabase(SqlDatabase[Postgres, psycopg.Connection[Any]]):
    """One database, for one component."""

    def __init__(
        self,
        what: str,
        dsn: str,
        *,
        reads: bool = False,
        writes: bool = True,
        cures: Cures = MappingProxyType({}),
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
        super().__init__(what, Postgres(dsn, what))
        self._cures = (*cures.items(), *CURES.items())
        self._begin = CHECKED + READABLE if reads else CHECKED
        self._writes = writes

    @contextmanager
    def opening(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction for `open` and `prepare`, where a mistake ends the topology."""
        with super().opening() as db:
            read_only = db.execute("SHOW transaction_read_only").fetchone()
            if self._writes and read_only and read_only[0] == "on":
                reason = "the server is a standby, or the role may only read"
                raise ServiceUnavailable(self.service.name, reason)
            yield db

    @contextmanager
    def begun(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction."""
        with self.service.lent() as lent, lent.transaction() as db:
            db.execute(self._begin)
            yield db

    def in_doubt(self, error: psycopg.Error, rows: int) -> Exception:
        """The error for rows that may not be its cause: all of them fail alike."""
        if rows == 1:
            doubt = "the only row, and no other tells whether it is to blame. It is refused"
            end = "after some minutes"
        else:
            doubt = f"all {rows} rows, and no other tells whether they are to blame. They wait"
            end = "until it is mended, or the table has a row that tells"
        return self.service.unusable(f"{self.service.said(error)}. It is so for {doubt} {end}")

    def meant(self, error: psycopg.Error) -> Exception:
        """The error to raise in `opening`."""
        text = self.service.said(error)
        for kind, cure in self._cures:
            if isinstance(error, kind):
                return StoreRefused(self.where, text, cure)
        if error.sqlstate is None and UNWELCOME.search(text):
            return StoreRefused(self.where, NOT_LET_IN.format(text), LET_IN)
        if self.service.kind_of(error) in (ErrorKind.AWAY, ErrorKind.BUSY):
            return self.service.unavailable(error)
        return StoreRefused(self.where, text, "Nothing was written.")


def escaped(name: str) -> str:
    """A name, or a query, as part of a statement that has parameters."""
    return name.replace("%", "%%")
