"""Files of SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.services.errors import StoreError, StoreRefused, StoreUnavailable
from fulmen.services.pools import Pool, pool_of
from fulmen.services.service import ErrorKind, Service

BUSY_SECONDS = 30.0
OF_VALUES = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError)
"""Errors that are about what is written."""
KEPT = "Nothing was changed."
MEANINGS: tuple[tuple[tuple[str, ...], ErrorKind, str, str], ...] = (
    (
        ("SQLITE_BUSY", "SQLITE_LOCKED"),
        ErrorKind.BUSY,
        "the file was locked by another process for {seconds:g} seconds",
        f"{KEPT} Find the process, as with `fuser {{file}}`; a reader that keeps a transaction open"
        " locks the file too.",
    ),
    (("SQLITE_FULL",), ErrorKind.AWAY, "the disk is full", f"{KEPT} Make room: it goes on then."),
    (("SQLITE_IOERR",), ErrorKind.AWAY, "the file can't be read or written ({error})", KEPT),
    (
        ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH"),
        ErrorKind.LACKING,
        "the file is read-only for user {user} ({error})",
        f"{KEPT} The user needs the right to write to the file and to its folder.",
    ),
    (
        ("SQLITE_CANTOPEN",),
        ErrorKind.LACKING,
        "the file can't be opened by user {user} ({error})",
        "The user needs the right to read and write the file and its folder.",
    ),
    (
        ("SQLITE_NOTADB", "SQLITE_CORRUPT"),
        ErrorKind.LACKING,
        "the file is damaged or none of SQLite's ({error})",
        KEPT,
    ),
    (("",), ErrorKind.REFUSED, "SQLite says {error!r}", KEPT),
)
"""By the beginnings of an error's name: what it means, in words, and what to do about it."""


class SqliteConnection:
    """A connection to a file, and what was found in it.

    Attributes:
        known: Whose each map is that was looked at.
        db: As Python has it.
    """

    def __init__(self, file: str) -> None:
        self.known: dict[str, Any] = {}
        self._file = file
        self.db = sqlite3.connect(
            file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._place = _place(file)
        self.db.execute("PRAGMA synchronous = FULL")

    def is_usable(self) -> bool:
        """Whether the file is still the one that was opened."""
        return self._place is not None and _place(self._file) == self._place

    def close(self) -> None:
        """Give it up."""
        with suppress(sqlite3.Error):
            self.db.close()

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Begin a transaction, which takes back everything if it ends with an exception."""
        self.db.execute(f"BEGIN {kind}")
        try:
            yield self.db
            self.db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            raise


class Sqlite(Service):
    """A file, whose connections all components of a process share.

    Attributes:
        path: Where it is.
    """

    errors = (sqlite3.Error,)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        super().__init__(f"SQLite file {self.path!r}")

    def lent(self) -> AbstractContextManager[SqliteConnection]:
        """A connection, for this thread alone."""
        pool: Pool[SqliteConnection] = pool_of(("sqlite", self.path))
        return pool.lent(lambda: SqliteConnection(self.path))

    def exists(self) -> bool:
        """Whether the file is there."""
        return os.path.exists(self.path)

    def kind_of(self, error: sqlite3.Error) -> ErrorKind:
        """Classify an error by `MEANINGS`."""
        return self._meaning(error)[0]

    def unavailable(self, error: sqlite3.Error) -> ServiceUnavailable:
        """The error that a sink or a source raises, with its cure."""
        _, reason, cure = self._meaning(error)
        return ServiceUnavailable(self.name, f"{reason}. {cure}")

    def refused(self, where: str, error: sqlite3.Error) -> StoreError:
        """The error that the user of a table or map gets."""
        kind, reason, cure = self._meaning(error)
        may_pass = kind in (ErrorKind.AWAY, ErrorKind.BUSY)
        return (StoreUnavailable if may_pass else StoreRefused)(where, reason, cure)

    def _meaning(self, error: sqlite3.Error) -> tuple[ErrorKind, str, str]:
        name = getattr(error, "sqlite_errorname", "") or ""
        _, kind, reason, cure = next(meaning for meaning in MEANINGS if name.startswith(meaning[0]))
        folder = Path(self.path).parent
        if name.startswith("SQLITE_CANTOPEN") and not folder.is_dir():
            return kind, f"there is no folder '{folder}'", "Make it first."
        about = {
            "seconds": BUSY_SECONDS, "user": os.geteuid(), "error": str(error), "file": self.path,
        }  # fmt: skip
        return kind, reason.format(**about), cure.format(**about)


def _place(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino
