"""Object stores: retries that end, and puts whose outcome is unknown."""

from datetime import timedelta

import pytest
from obstore.store import S3Store

from fulmen.checkpoint import Store
from fulmen.checkpoint.remote import CREDENTIALS_SECONDS, LONGEST_PAUSE_SECONDS, RemoteBackend
from fulmen.errors import AlreadyExists, CheckpointError, NotFound, Unreachable
from support.stores.checkpoint import FakeS3

LOST = None  # instead of a status: the connection is closed
OURS, THEIRS = b"ours", b"theirs"


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds

    def __call__(self):
        return self.now


@pytest.fixture
def server():
    with FakeS3() as server:
        yield server


@pytest.fixture
def time():
    return Time()


def store_at(url, time):
    client = S3Store(
        "bucket",
        config={"endpoint": url, "allow_http": "true", "timeout": "5s"},
        access_key_id="me",
        secret_access_key="secret",
        region="us-east-1",
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=1)},
    )
    return Store("s3://bucket", RemoteBackend("s3://bucket", client, sleep=time.sleep, clock=time))


@pytest.fixture
def store(server, time):
    return store_at(server.url, time)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([(True, LOST)], id="written-answer-lost"),
        pytest.param([(False, LOST)], id="not-written-answer-lost"),
        pytest.param([(True, 500)], id="written-but-500"),
        pytest.param([(False, 503)], id="not-written-and-503"),
        pytest.param([(False, 429), (False, 408)], id="slow-down"),
        pytest.param([(True, LOST), (False, LOST), (True, LOST)], id="several-times"),
        pytest.param([(False, 409)], id="conflict-with-a-put-that-failed"),
    ],
)
def test_a_put_of_unknown_outcome_succeeds_if_the_bytes_are_ours(store, server, faults):
    server.faults = faults
    store.put("a", OURS)
    assert server.faults == []
    assert server.objects == {"/bucket/a": OURS}


@pytest.mark.parametrize("faults", [[], [(False, LOST)], [(False, 503), (False, LOST)]])
def test_a_put_fails_if_the_bytes_are_somebody_elses(store, server, faults):
    server.objects["/bucket/a"] = THEIRS
    server.faults = faults
    with pytest.raises(AlreadyExists):
        store.put("a", OURS)
    assert server.objects == {"/bucket/a": THEIRS}


def test_equal_bytes_are_not_ours_if_the_outcome_was_never_in_doubt(store, server):
    server.objects["/bucket/a"] = OURS
    with pytest.raises(AlreadyExists):
        store.put("a", OURS)


def test_retries_end(store, server, time):
    server.faults = [(False, 503)] * 1000
    with pytest.raises(Unreachable) as caught:
        store.put("a", OURS)
    assert 50 < time.now <= 60
    assert 10 < server.requests.count("PUT") < 30
    assert caught.value.unknown
    assert "status code: 503" in caught.value.cause
    assert "Debug source" not in str(caught.value)


def test_reads_are_tried_again(store, server):
    server.objects["/bucket/a"] = OURS
    server.get_faults = [500, LOST, 429]
    assert store.get("a") == OURS


def test_what_is_not_there_is_not_looked_for_again(store, server):
    with pytest.raises(NotFound):
        store.get("a")
    assert server.requests == ["GET"]


def test_a_refusal_is_not_tried_again(store, server, time):
    server.faults = [(False, 403)]
    with pytest.raises(CheckpointError) as caught:
        store.put("a", OURS)
    assert str(caught.value).startswith(
        "checkpoint s3://bucket, 'a': access denied. Check the rights of these credentials. The"
        " environment variables that count are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION"
        " and, for a server other than Amazon's, AWS_ENDPOINT_URL (with AWS_ALLOW_HTTP=true for"
        " http). The store said: "
    )
    assert (server.requests, time.now) == (["PUT"], 0)
    server.faults = [(False, 400)]
    with pytest.raises(CheckpointError, match="the store refuses it"):
        store.put("a", OURS)


def explaining(server, code):
    """Answers that name the error."""

    class Explaining(server.RequestHandlerClass):
        def _answer(self, status, body=b""):
            error = f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode()
            super()._answer(status, body if status == 200 else error)

    return Explaining


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "RequestTimeout"), (403, "RequestTimeTooSkewed")],
)
def test_refusals_that_pass_are_tried_again(store, server, status, code):
    server.RequestHandlerClass = explaining(server, code)
    server.faults = [(False, status)] * 3
    store.put("a", OURS)
    assert server.faults == []
    assert server.objects == {"/bucket/a": OURS}


def test_rights_that_were_taken_away_may_be_given_back(store, server, time):
    store.put("a", OURS)
    server.faults = [(False, 403), (False, 401)]
    store.put("b", OURS)
    assert server.objects == {"/bucket/a": OURS, "/bucket/b": OURS}
    server.faults = [(False, 403)] * 1000
    with pytest.raises(Unreachable, match="status code: 403"):
        store.put("c", OURS)
    assert 50 < time.now <= 70


def test_a_right_that_was_never_given_is_missed_at_once(store, server, time):
    server.objects["/bucket/b"] = THEIRS
    assert store.get("b") == THEIRS
    server.faults = [(False, 403)]
    with pytest.raises(CheckpointError, match=r"'a': access denied\. Check the rights"):
        store.put("a", OURS)
    assert (server.requests.count("PUT"), time.now) == (1, 0)


def test_credentials_that_expire_are_waited_for_unless_they_never_worked(store, server, time):
    server.RequestHandlerClass = explaining(server, "ExpiredToken")
    server.faults = [(False, 400)]
    with pytest.raises(CheckpointError, match="'a': the credentials have expired"):
        store.put("a", OURS)
    server.objects["/bucket/b"] = THEIRS
    assert store.get("b") == THEIRS
    server.faults = [(False, 400)] * 3
    store.put("a", OURS)
    assert server.faults == []


def test_nobody_there(time):
    with FakeS3() as server:
        url = server.url
    store = store_at(url, time)
    with pytest.raises(Unreachable) as caught:
        store.get("a")
    assert not caught.value.unknown
    assert str(caught.value).startswith("checkpoint s3://bucket: can't reach 'a': ")
    with pytest.raises(Unreachable):
        store.list("commits/")
    with pytest.raises(Unreachable):
        store.delete(["a"])


def test_settings_come_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ALLOW_HTTP", "true")
        Store.open("s3://bucket/some/prefix/").put("a/b", OURS)
    assert server.objects == {"/bucket/some/prefix/a/b": OURS}
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(CheckpointError, match="the endpoint's URL can't be used"):
        Store.open("s3://bucket/prefix").put("c", OURS)


def test_no_credentials_is_said_soon_unless_there_were_some(server, time):
    """The client's text names the address where it looks for credentials last."""
    store = store_at(server.url + "/169.254.169.254", time)
    server.faults = [(True, 200), *[(False, LOST)] * 1000]
    store.put("a", OURS)
    with pytest.raises(Unreachable):
        store.put("b", OURS)
    other, before = store_at(server.url + "/169.254.169.254", time), time.now
    with pytest.raises(CheckpointError, match="'b': there are no credentials"):
        other.put("b", OURS)
    waited = time.now - before
    assert CREDENTIALS_SECONDS <= waited <= CREDENTIALS_SECONDS + LONGEST_PAUSE_SECONDS
