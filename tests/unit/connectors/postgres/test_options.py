"""What is said of options that can't be right, and that no password is told."""

import pytest

from fulmen.connectors.postgres import PostgresSink, PostgresSinkOptions
from fulmen.services.errors import StoreRefused
from support.connectors.sql_sinks import prepared

SECRET = "s3cret/word"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://a:{SECRET}@[::1/db",
        f"postgresql://a:{SECRET}@host/db",
        f"postgresql://a:12/{SECRET}@host/db",
        f"host=h passwort={SECRET}",
    ],
)
def test_a_dsn_that_is_none_is_not_repeated(dsn):
    """One with a slash in its password looks like one with another host and port."""
    with pytest.raises(StoreRefused) as raised:
        prepared(PostgresSink(), dsn=dsn, table="t")
    assert str(raised.value) == (
        "table 't': its DSN can't be understood. Write 'postgresql://user:password@host:port/"
        "database', with %40 for @ and %2F for / in a password, or 'host=... port=... dbname=..."
        " user=... password=...'."
    )


def test_the_dsn_is_not_in_what_options_look_like():
    options = PostgresSinkOptions(dsn=f"postgresql://a:{SECRET}@h/db", table="t")
    assert SECRET not in repr(options) + str(options)
