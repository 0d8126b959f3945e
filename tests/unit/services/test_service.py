"""What errors of clients mean, without a server."""

import sqlite3

import pytest
from psycopg import errors
from redis import exceptions

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.services.errors import StoreRefused, StoreUnavailable
from fulmen.services.redis import Redis
from fulmen.services.service import ErrorKind
from fulmen.services.sql.postgres import Postgres
from fulmen.services.sql.sqlite import Sqlite

PASSWORD = "tausendschoen"
POSTGRES = Postgres(f"postgresql://app:{PASSWORD}@h/shop", "table 't'")


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (errors.OperationalError("no route"), True),
        (errors.OperationalError(f"bad {PASSWORD}"), False),
    ],
)
def test_an_error_is_the_cause_of_what_it_means_unless_it_has_the_password(error, is_kept):
    with pytest.raises(ServiceUnavailable) as told, POSTGRES.told():
        raise error
    assert told.value.__cause__ is (error if is_kept else None)
    assert PASSWORD not in str(told.value)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.OperationalError("connection lost"), "is away"),
        (errors.DiskFull("full"), "is away"),
        (errors.OutOfMemory("short"), "asks to try again"),
        (errors.AdminShutdown("stopped"), "is away"),
        (errors.QueryCanceled("too long"), "asks to try again"),
        (errors.DeadlockDetected("others"), "asks to try again"),
        (errors.UndefinedTable("gone"), "can't be used"),
        (errors.UniqueViolation("twice"), "can't be used"),
        (errors.OperationalError('FATAL: database "x" does not exist'), "can't be used"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_postgres_is_away_or_busy_or_somebody_has_to_mend_something(error, state):
    assert POSTGRES.unavailable(error).state == state


def test_an_error_about_a_row_is_told_from_one_about_what_is_there():
    assert POSTGRES.kind_of(errors.UniqueViolation("twice")) is ErrorKind.ROW
    assert POSTGRES.kind_of(errors.UndefinedTable("gone")) is ErrorKind.LACKING
    assert POSTGRES.kind_of(errors.InvalidAuthorizationSpecification("who")) is ErrorKind.REFUSED


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (exceptions.ConnectionError("refused"), "is away: refused"),
        (exceptions.NoPermissionError("no"), "can't be used: a right is missing (no)"),
        (exceptions.AuthenticationError("x"), "can't be used: the server does not let us in (x)"),
        (
            exceptions.ResponseError("MISCONF x"),
            "can't be used: the server can't write to its disk",
        ),
        (exceptions.ResponseError("huh"), "can't be used: Redis refuses it (huh)"),
    ],
)
def test_what_redis_says_has_a_meaning(error, text):
    told = str(Redis(f"redis://app:{PASSWORD}@h:1/2").unavailable(error))
    assert told.startswith(f"Redis at h:1, database 2 {text}")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SQLITE_BUSY_SNAPSHOT", StoreUnavailable),
        ("SQLITE_FULL", StoreUnavailable),
        ("SQLITE_READONLY_DIRECTORY", StoreRefused),
        ("SQLITE_ERROR", StoreRefused),
    ],
)
def test_what_may_pass_in_sqlite_is_told_from_what_does_not(name, kind, tmp_path):
    error = sqlite3.OperationalError("so it says")
    error.sqlite_errorname = name
    assert type(Sqlite(tmp_path / "a.db").refused("table 't'", error)) is kind
