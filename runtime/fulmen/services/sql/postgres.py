"""Databases of PostgreSQL, by psycopg 3."""

from __future__ import annotations

import re
import select
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from fulmen.services.errors import StoreRefused
from fulmen.services.pools import Pool, pool_of
from fulmen.services.service import ErrorKind, Service, no_client

try:
    import psycopg
except ImportError as error:
    raise no_client(error, "PostgreSQL", "postgres") from error

from psycopg.conninfo import conninfo_to_dict

CONNECT_SECONDS = 10
IDLE_SECONDS = 30
LOCK_SECONDS = 60
"""Longer than IDLE_SECONDS: who waits for a process that was stopped gets the lock then."""
DEFAULTS: Mapping[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "fulmen",
    "client_encoding": "utf8",  # a role may have another one, which lacks characters
    "keepalives_idle": 10,  # a connection that was cut is found out within half a minute
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
CREATES_ONE_AT_A_TIME = 0x66756C6D656E
"""The number of the advisory lock under which tables are made."""
KINDS: Mapping[str, ErrorKind] = {
    "08": ErrorKind.AWAY,  # connections
    "57": ErrorKind.AWAY,  # the server shuts down, or starts
    "58": ErrorKind.AWAY,  # its system
    "53100": ErrorKind.AWAY,  # its disk is full
    "53300": ErrorKind.AWAY,  # it has no more connections
    "40": ErrorKind.BUSY,  # deadlocks and other conflicts
    "53": ErrorKind.BUSY,  # memory and the like
    "55": ErrorKind.BUSY,  # locks
    "57014": ErrorKind.BUSY,  # it took too long
    "21": ErrorKind.ROW,  # two rows of one key
    "22": ErrorKind.ROW,  # values
    "23": ErrorKind.ROW,  # constraints
    "44": ErrorKind.ROW,  # views with a check
    "54": ErrorKind.ROW,  # what is too large
    "P0": ErrorKind.ROW,  # what a trigger raises
    **dict.fromkeys(
        ("0A", "25", "2F", "38", "39", "3D", "3F", "42", "F0", "XX"), ErrorKind.LACKING
    ),  # what is there, such as a table that a trigger needs
}
"""The kinds of errors, by the beginning of their SQLSTATE; the longest that fits counts."""
RAISED = "exec_stmt_raise"
"""The function of the server that RAISE in PL/pgSQL calls, with any SQLSTATE."""
UNWELCOME = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|permission denied"
    r"|(role|database) \".*\" does not exist|not permitted to log in|certificate|SSL"
)
"""Texts of a server or libpq, in English, if somebody has to let us in first."""
NOT_LET_IN = "the server does not let us in ({})"
LET_IN = "Check user, password and database, and the server's pg_hba.conf."


class PostgresConnection:
    """A connection to a database, and what was found in it.

    Attributes:
        known: Whose each map is that was looked at.
        db: As psycopg has it.
    """

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.known: dict[str, Any] = {}
        self.db = db

    def is_usable(self) -> bool:
        """Whether the server has not closed it: that, or its last words, could be read by now."""
        if self.db.closed:
            return False
        poll = select.poll()
        poll.register(self.db.fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Give it up."""
        with suppress(psycopg.Error):
            self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Begin a transaction, which takes back everything if it ends with an exception."""
        with self.db.transaction():
            # local, so that a pooler between us and the server may give the session to others
            self.db.execute(
                f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s';"
                f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s';"
                "SET LOCAL extra_float_digits = 1"  # a role may have less: floats would lose digits
            )
            yield self.db


class Postgres(Service):
    """A database, whose connections all components of a process share."""

    errors = (psycopg.Error,)

    def __init__(self, dsn: str, what: str) -> None:
        """Understand a DSN. Does not connect.

        Args:
            dsn: How to connect, as libpq takes it.
            what: What is to be read or written there, for messages.

        Raises:
            StoreRefused: It can't be understood. What is wrong with it may contain the password.
        """
        if (given := _understood(dsn)) is None:
            raise StoreRefused(
                what,
                "its DSN can't be understood",
                "Write 'postgresql://user:password@host:port/database', with %40 for @ and %2F for"
                " / in a password, or 'host=... port=... dbname=... user=... password=...'.",
            )
        database = given.get("dbname") or given.get("user") or "(by default)"
        place = f" at {given['host']}" if given.get("host") else ""
        port = f":{given['port']}" if given.get("port") else ""
        name = f"PostgreSQL database {str(database)!r}{place}{port}"
        super().__init__(name, str(given.get("password") or ""))
        self._dsn = dsn
        self._defaults = {name: value for name, value in DEFAULTS.items() if name not in given}

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection; the caller closes it."""
        db = psycopg.connect(self._dsn, autocommit=True, prepare_threshold=None, **self._defaults)
        db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return db

    def lent(self) -> AbstractContextManager[PostgresConnection]:
        """A connection, for this thread alone."""
        pool: Pool[PostgresConnection] = pool_of(("postgres", self._dsn))
        return pool.lent(lambda: PostgresConnection(self.connect()))

    def kind_of(self, error: psycopg.Error) -> ErrorKind:
        """Classify an error by `KINDS`. RAISE in a trigger is about the row, with any code."""
        if error.sqlstate is None and UNWELCOME.search(str(error)):
            return ErrorKind.LACKING
        return kind_of(error)

    def said(self, error: psycopg.Error) -> str:
        """The server's text of an error, in one line without its place in the statement."""
        return self.masked(said(error))


def kind_of(error: psycopg.Error) -> ErrorKind:
    """Classify an error of a statement."""
    code = code_of(error)
    if error.diag.source_function == RAISED:
        return ErrorKind.ROW
    fitting = [start for start in KINDS if code.startswith(start)]
    return KINDS[max(fitting, key=len)] if fitting else ErrorKind.REFUSED


def code_of(error: psycopg.Error) -> str:
    """The SQLSTATE. What has none is libpq's, about the connection, or psycopg's, about a value."""
    is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate or ("08" if is_lost else "")


def said(error: psycopg.Error) -> str:
    """The server's text of an error, in one line without its place in the statement."""
    diag = error.diag
    parts = [diag.message_primary, diag.message_detail]
    text = ". ".join(part.rstrip(".") for part in parts if part) or str(error)
    return " ".join(text.split())


def _understood(dsn: str) -> Mapping[str, Any] | None:
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:
        return None
    # A password that has a slash or an @ and is not escaped is taken for a port, a host and more.
    ports = str(given.get("port") or "").split(",")
    is_port = all(port.isdecimal() or not port for port in ports)
    return given if is_port and _is_clear(dsn, str(given.get("dbname") or "")) else None


def _is_clear(dsn: str, database: str) -> bool:
    """Whether libpq can't have taken a part of the password for something else."""
    if not re.match(r"postgres(ql)?://", dsn):
        return "@" not in database
    authority, _, rest = dsn.partition("://")[2].partition("/")
    if ":" not in authority:
        return "@" not in authority
    return authority.count("@") < 2 and "@" not in rest
