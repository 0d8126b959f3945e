"""A file: what its errors mean to a sink or a source."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from fulmen.connectors.sql.database import SqlDatabase
from fulmen.services.errors import StoreRefused, StoreUnavailable
from fulmen.services.sql.sqlite import Sqlite


class SqliteDatabase(SqlDatabase[Sqlite, sqlite3.Connection]):
    """One file, for one component."""

    def __init__(self, what: str, path: str, kind: Literal["IMMEDIATE", "DEFERRED"]) -> None:
        """Make it known, without opening it.

        Args:
            what: A table or query.
            path: The file.
            kind: How transactions begin: with the file's lock, or without.
        """
        super().__init__(what, Sqlite(path))
        self._kind = kind

    @contextmanager
    def begun(self) -> Iterator[sqlite3.Connection]:
        """A transaction."""
        with self.service.lent() as lent, lent.transaction(self._kind) as db:
            yield db

    def meant(self, error: sqlite3.Error) -> Exception:
        """The error to raise in `opening`."""
        refusal = self.service.refused(self.where, error)
        may_pass = isinstance(refusal, StoreUnavailable)
        return self.service.unavailable(error) if may_pass else refusal

    def refuse_absent(self, cure: str = "Correct the path.") -> None:
        """Refuse a file that is not there.

        Raises:
            StoreRefused: It is not.
        """
        if not self.service.exists():
            raise StoreRefused(self.where, "there is no such file", cure)
