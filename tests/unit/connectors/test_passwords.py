"""No part of a password is shown, however it is written into the URL of a server."""

from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from fulmen import secrets
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.files.places.buckets import Bucket
from fulmen.connectors.files.places.local import BadPlace
from fulmen.services.errors import StoreError
from fulmen.services.http.endpoint import Endpoint
from fulmen.services.rabbitmq import Broker
from fulmen.services.redis import Redis
from fulmen.services.sql.postgres import Postgres
from fulmen.topology.resource.uris import BadUri, read_uri

ODD = "@/:?#%&=+ '\"\\[];,$~^|<>{}ü1234567"
PASSWORDS = st.text(alphabet=f"QXZJKVqxzjkv{ODD}", min_size=6, max_size=24)
NO_ONE = "127.0.0.1:1"
"""Where nobody listens."""


@pytest.fixture
def known(monkeypatch):
    """Forgets what is noted as secret."""
    monkeypatch.setattr(secrets, "_known", secrets._Known())


def _told_by_postgres(dsn):
    database = Postgres(dsn, "table 't'")
    with database.told():
        database.connect()


def _told_by_redis(url):
    server = Redis(url)
    with server.told():
        server.client.ping()


def _told_by_rabbitmq(url):
    broker = Broker(url, None, "a test")
    raise broker.unavailable(
        OSError(f"no route to {url}, login {broker.parameters.credentials.password}")
    )


def _told_by_http(url):
    endpoint = Endpoint(url, {}, is_one=True)
    raise endpoint.unavailable(OSError(f"no route to {url}, login {_read_by_urllib(url)}"))


def _read_by_libpq(dsn):
    return conninfo_to_dict(dsn).get("password")


def _read_by_urllib(url):
    return unquote(urlsplit(url).password or "")


CLIENTS = {
    "postgresql": (_told_by_postgres, _read_by_libpq, f"postgresql://app:{{}}@{NO_ONE}/shop"),
    "redis": (_told_by_redis, _read_by_urllib, f"redis://app:{{}}@{NO_ONE}/0"),
    "amqp": (_told_by_rabbitmq, _read_by_urllib, f"amqp://app:{{}}@{NO_ONE}/%2F"),
    "http": (_told_by_http, _read_by_urllib, f"http://app:{{}}@{NO_ONE}/orders"),
    "s3": (Bucket, None, "s3://app:{}@bucket/orders"),
    "checkpoint": (read_uri, None, "s3://app:{}@bucket/orders"),
}
TOLD = (StoreError, ServiceUnavailable, BadPlace, BadUri)


def _is_in(text, password):
    """Whether six characters of it are, which are more than its commas and slashes."""
    parts = [password[i : i + 6] for i in range(len(password) - 5)]
    return any(part in text for part in parts if sum(map(str.isalnum, part)) > 2)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("is_quoted", [False, True])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(password=PASSWORDS)
@example(password="Morgen@TauXJQ99")
@example(password="123/TauXJQ99")
@example(password="11111@@?")  # urllib's ends behind the first @
@example(password="111%11")  # read as four characters, of which one is not printed
@example(password="1\\11111 ")  # libpq leaves the blank out
@example(password="123/Tau?user=XJQ991")
@example(password="Tau ' XJQ\\99\\")
def test_no_part_of_a_password_is_told(known, client, is_quoted, password):
    tell, read, template = CLIENTS[client]
    url = template.format(quote(password, safe="") if is_quoted else password)
    with pytest.raises(TOLD) as told:
        tell(url)
    said = [str(told.value), repr(told.value), str(told.value.__cause__)]
    secrets._known = secrets._Known()
    secrets.note("${URL}", url, {"URL": url})
    if read is not None and not isinstance(told.value, BadPlace):
        try:
            said.append(secrets.masked(f"the client has {read(url)!r}, or {read(url)}."))
        except Exception:  # noqa: BLE001 (the client can't read it)
            said.append("")
    assert not _is_in("\n".join(said), password)


@pytest.mark.parametrize("client", ["postgresql", "redis", "amqp"])
def test_a_password_of_one_letter_garbles_no_message(client):
    tell, _, template = CLIENTS[client]
    with pytest.raises(TOLD) as told:
        tell(template.format("t"))
    assert "***" not in str(told.value)
    assert NO_ONE in str(told.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://app:a?b#c:d@h/shop",
        "postgresql://app%40realm:a%2Fb%40c@h1:5432,h2:5433/shop?application_name=a%40b",
        "postgresql://h/shop?user=me@realm&password=x",
        "host=h dbname=shop user=me@realm password='a@/b'",
    ],
)
def test_what_libpq_reads_as_it_was_meant_is_described(dsn):
    assert Postgres(dsn, "table 't'").name.startswith("PostgreSQL database 'shop' at h")
