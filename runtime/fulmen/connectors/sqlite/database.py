"""A file: its connections, and what its errors mean to a sink or a source."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from fulmen.api.sinks import ServiceUnavailable
from fulmen.transactional.errors import StoreRefused, StoreUnavailable
from fulmen.transactional.stores.pools import Pool, pool_of
from fulmen.transactional.stores.sqlite import SqliteConnection, translate

Kind = Literal["IMMEDIATE", "DEFERRED"]


class SqliteDatabase:
    """One file, for one component.

    Attributes:
        service: Which file: what is away if it is.
        where: Which table or query, and where: the first words of other messages.
    """

    def __init__(self, what: str, path: str) -> None:
        self._path = os.path.abspath(path)
        self.service = f"SQLite file {self._path!r}"
        self.where = f"{what} in {self.service}"

    def exists(self) -> bool:
        """Whether the file is there."""
        return os.path.exists(self._path)

    @property
    def _pool(self) -> Pool[SqliteConnection]:
        return pool_of(("sqlite", self._path))

    @contextmanager
    def transaction(self, kind: Kind = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """A transaction.

        Raises:
            ServiceUnavailable: Whatever SQLite says. Nothing is wrong with the rows, so it is tried
                again until it is mended.
        """
        try:
            with self._lent(kind) as db:
                yield db
        except sqlite3.Error as error:
            found = translate(self.where, self._path, error)
            raise ServiceUnavailable(self.service, f"{found.reason}. {found.cure}") from error

    @contextmanager
    def opening(self, kind: Kind = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """The same for `open` and `prepare`, where a mistake ends the topology.

        Raises:
            ServiceUnavailable: The file is locked, or the disk is full.
            StoreRefused: A name or a right is wrong.
        """
        try:
            with self._lent(kind) as db:
                yield db
        except sqlite3.Error as error:
            found = translate(self.where, self._path, error)
            if isinstance(found, StoreUnavailable):
                raise ServiceUnavailable(self.service, f"{found.reason}. {found.cure}") from error
            raise found from error

    @contextmanager
    def _lent(self, kind: Kind) -> Iterator[sqlite3.Connection]:
        with (
            self._pool.lent(lambda: SqliteConnection(self._path)) as lent,
            lent.transaction(kind) as db,
        ):
            yield db

    def refuse_absent(self, cure: str = "Correct the path.") -> None:
        """Refuse a file that is not there.

        Args:
            cure: What to do about it.

        Raises:
            StoreRefused: It is not.
        """
        if not self.exists():
            raise StoreRefused(self.where, "there is no such file", cure)


def quoted(name: str) -> str:
    """A name for statements."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    """Several of them."""
    return ", ".join(map(quoted, names))


def columns_of(db: sqlite3.Connection, table: str) -> list[Any]:
    """(number, name, type, NOT NULL, default, place in the primary key, hidden) of each column."""
    return db.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
