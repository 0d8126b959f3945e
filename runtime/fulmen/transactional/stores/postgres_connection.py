"""Connections to PostgreSQL, what was found there, and what their errors mean."""

from __future__ import annotations

import re
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Composed, Identifier

from fulmen.secrets import without
from fulmen.transactional.errors import StoreError, StoreRefused, StoreUnavailable
from fulmen.transactional.maps import StoredMap
from fulmen.transactional.owners import Owner
from fulmen.transactional.stores.tables import (
    MAPS,
    MARKS,
    OWNER_COLUMNS,
    POSTGRES_TYPES,
    must_be_made,
)

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
FILLED = 70
"""Per cent of a page. The rest is for changed rows: no index changes, so it is twice as fast."""
CREATES_ONE_AT_A_TIME = 0x66756C6D656E
"""The number of the advisory lock under which tables are made."""

Names = Mapping[str, Identifier]
"""The names of a map's tables, for statements: `table`, `maps` and `marks`."""


class PostgresConnection:
    """One to a database, and what was found in it.

    Attributes:
        known: Whose each map is that was looked at.
        db: As psycopg has it.
    """

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.known: dict[str, Owner] = {}
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
        """One transaction, which takes back everything if it ends with an exception."""
        with self.db.transaction():
            # local, so that a pooler between us and the server may give the session to others
            self.db.execute(
                f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s';"
                f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s';"
                "SET LOCAL extra_float_digits = 1"  # a role may have less: floats would lose digits
            )
            yield self.db


def connect(dsn: str) -> PostgresConnection:
    """Make a connection."""
    return PostgresConnection(plain(dsn))


def plain(dsn: str) -> psycopg.Connection[Any]:
    """Make a connection as psycopg has it."""
    given = conninfo_to_dict(dsn)
    defaults = {name: value for name, value in DEFAULTS.items() if name not in given}
    db = psycopg.connect(dsn, autocommit=True, prepare_threshold=None, **defaults)
    db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return db


def described(where: str, dsn: str) -> str:
    """Which database a DSN is about, without its password.

    Args:
        where: What connects to it, for a message.
        dsn: How to connect.

    Raises:
        StoreRefused: It can't be understood. What is wrong with it may contain the password.
    """
    given = _understood(dsn)
    if given is None:
        raise StoreRefused(
            where,
            "its DSN can't be understood",
            "Write 'postgresql://user:password@host:port/database', with %40 for @ and %2F for / in"
            " a password, or 'host=... port=... dbname=... user=... password=...'.",
        )
    database = given.get("dbname") or given.get("user") or "(by default)"
    place = f" at {given['host']}" if given.get("host") else ""
    port = f":{given['port']}" if given.get("port") else ""
    return f"database {str(database)!r}{place}{port}"


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


def names(schema: str, table: str) -> Names:
    """The names of tables, for statements."""
    tables = {"table": table, "maps": MAPS, "marks": MARKS}
    return {
        what: Identifier(schema, name) if schema else Identifier(name)
        for what, name in tables.items()
    }


def composed(statement: str, parts: Names) -> Composed:
    """A statement with names in it."""
    return SQL(statement).format(**parts)


def make_or_check(a_map: StoredMap, tables: Names, db: psycopg.Connection[Any]) -> None:
    """Make the tables of a map that is new; else see whose it is.

    Raises:
        StoreRefused: It is somebody else's, or its table is gone.
    """
    if _is_known(a_map, tables, db):
        return
    # Others may be at it: only under the lock are both answers of the same moment.
    db.execute("SELECT pg_advisory_xact_lock(%s)", [CREATES_ONE_AT_A_TIME])
    owner = found(a_map, tables, db)
    if must_be_made(a_map, a_map.name, owner, _exists(tables["table"], db)):
        _make(a_map, tables, db)


def _is_known(a_map: StoredMap, tables: Names, db: psycopg.Connection[Any]) -> bool:
    return found(a_map, tables, db) == a_map.owner and _exists(tables["table"], db)


def found(a_map: StoredMap, tables: Names, db: psycopg.Connection[Any]) -> Owner | None:
    """Whose a map is; None: there is no such map."""
    if not _exists(tables["maps"], db):
        return None
    columns = SQL(", ").join(map(Identifier, OWNER_COLUMNS))
    select = SQL("SELECT {} FROM {} WHERE map = %s").format(columns, tables["maps"])
    row = db.execute(select, [a_map.name]).fetchone()
    return Owner(*row) if row else None


def _exists(table: Identifier, db: psycopg.Connection[Any]) -> bool:
    row = db.execute("SELECT to_regclass(%s) IS NOT NULL", [table.as_string(db)]).fetchone()
    return bool(row and row[0])


def _make(a_map: StoredMap, tables: Names, db: psycopg.Connection[Any]) -> None:
    owner = a_map.owner
    key, value = POSTGRES_TYPES[owner.key], POSTGRES_TYPES[owner.value]
    if owner.key in ("text", "json"):
        key = 'text COLLATE "C"'  # compared as bytes: faster, and the same everywhere
    previous = f", previous {value}" if owner.rule == "opaque" else ""
    for statement in (
        "CREATE TABLE IF NOT EXISTS {maps} (map text PRIMARY KEY, topology text NOT NULL,"
        " component text NOT NULL, rule text NOT NULL, key text NOT NULL, value text NOT NULL,"
        " layout integer NOT NULL)",
        "CREATE TABLE IF NOT EXISTS {marks} (map text REFERENCES {maps} ON DELETE CASCADE,"
        " task integer, txid bigint NOT NULL, attempt bigint NOT NULL, branch text NOT NULL,"
        " PRIMARY KEY (map, task))",
        f"CREATE TABLE {{table}} (key {key} PRIMARY KEY, value {value} NOT NULL,"
        " txid bigint NOT NULL, task integer NOT NULL, attempt bigint NOT NULL"
        f"{previous}) WITH (fillfactor = {FILLED})",
    ):
        db.execute(composed(statement, tables))
    insert = composed("INSERT INTO {maps} VALUES (%s, %s, %s, %s, %s, %s, %s)", tables)
    db.execute(insert, [a_map.name, *(getattr(owner, name) for name in OWNER_COLUMNS)])


# ---- errors --------------------------------------------------------------------------------------

KEPT, AGAIN = "Nothing was changed.", "The transaction is tried again."
MEANINGS: tuple[tuple[type[psycopg.Error], str, str], ...] = (
    (
        errors.InsufficientPrivilege,
        "a right is missing",
        "The first start needs USAGE and CREATE on the schema; later ones SELECT, INSERT, UPDATE"
        f" and DELETE on the table, {MAPS} and {MARKS}.",
    ),
    (
        errors.ReadOnlySqlTransaction,
        "the database or the role is read-only",
        "Connect to the primary instead of a standby, with a role that may write.",
    ),
    (
        errors.UndefinedTable,
        "a table that was there is gone",
        f"Restore it. To begin anew, delete the map's rows in {MAPS} and {MARKS}.",
    ),
    (errors.InvalidSchemaName, "there is no such schema", "Make it first: CREATE SCHEMA."),
    (
        errors.LockNotAvailable,
        f"another process has held this task's mark for {LOCK_SECONDS} seconds",
        "Look for it in pg_stat_activity, where application_name is 'fulmen'.",
    ),
    (errors.DiskFull, "the server's disk is full", "Make room: it goes on then."),
    (
        errors.IdleInTransactionSessionTimeout,
        f"this process did nothing for {IDLE_SECONDS} seconds in the middle of a commit phase",
        "It was stopped, or its machine is overloaded.",
    ),
)
"""What is mended outside, or passes: no transaction is to blame."""
CONNECTION, CONFLICT = "08", "40"
"""Classes of errors, by SQLSTATE."""
MAY_PASS = ("08", "40", "53", "55", "57", "58")
"""Classes of errors that may pass: connection, conflict, resources, lock, operator, system."""
UNWELCOME = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|permission denied"
    r"|(role|database) \".*\" does not exist|not permitted to log in|certificate|SSL"
)
"""What a server or libpq says, in English, if somebody has to let us in first."""


@contextmanager
def translated(where: str, dsn: str) -> Iterator[None]:
    """Turn errors of psycopg into ours, without the password."""
    try:
        yield
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        text = without_password(said, dsn)
        raise _meant(where, error, text) from (error if text == said else None)


def code_of(error: psycopg.Error) -> str:
    """Its SQLSTATE. What has none is libpq's, about the connection, or psycopg's, about a value."""
    is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate or (CONNECTION if is_lost else "")


def without_password(text: str, dsn: str) -> str:
    """The text, with `***` for the DSN's password."""
    return without(text, str(conninfo_to_dict(dsn).get("password") or ""))


def _meant(where: str, error: psycopg.Error, text: str) -> StoreError:
    for kind, reason, cure in MEANINGS:
        if isinstance(error, kind):
            return StoreUnavailable(where, f"{reason} ({text})", f"{KEPT} {cure}")
    code = code_of(error)
    if not code.startswith(MAY_PASS):
        return StoreRefused(where, f"PostgreSQL refuses it ({text})", KEPT)
    if error.sqlstate is None and UNWELCOME.search(text):
        return StoreUnavailable(
            where,
            f"the server does not let us in ({text})",
            "Check user, password and database, and the server's pg_hba.conf.",
        )
    if code.startswith(CONFLICT):
        return StoreUnavailable(where, f"others were in the way ({text})", f"{KEPT} {AGAIN}")
    return StoreUnavailable(
        where,
        f"PostgreSQL is away ({text})",
        f"{AGAIN} Whether this attempt was written shows then.",
    )
