"""The sink of HTTP with a real endpoint of the same library."""

import asyncio
import json
import pickle
import ssl
from contextlib import contextmanager

import pytest
from pydantic import ValidationError

from fulmen.api import Rows, ServiceUnavailable
from fulmen.connectors.http import HttpSink
from fulmen.connectors.http.sink_options import HttpSinkOptions
from fulmen.services.pools import shared
from support.connectors.sql_sinks import context, mark, prepared, written
from support.docs.pages import ROOT
from support.servers.scripted_endpoint import scripted_endpoint

CERTIFICATE = ROOT / "tests/data/tls/localhost.pem"
"""Of localhost, signed by itself, for a hundred years."""
FIELDS = ("id", "word")
ROWS = [[1, "one"], [2, "two"], [3, "three"]]


@contextmanager
def sink_to(endpoint, path="/", **options):
    sink = prepared(HttpSink(), FIELDS, **{"url": f"{endpoint.url}{path}", **options})
    try:
        yield sink
    finally:
        sink.cleanup()


def sent(endpoint, rows=ROWS, path="/", of=None, **options):
    """Write a batch with a sink of its own. Returns why rows failed."""
    with sink_to(endpoint, path, **options) as sink:
        return written(sink, rows, of, FIELDS)


def refuse(*ids, status=422, **more):
    def answer(seen):
        found = json.loads(seen.body)
        rows = found if isinstance(found, list) else [found]
        if any(row["id"] in ids for row in rows):
            return {"status": status, "text": f"no {sorted(ids)}", **more}
        return None

    return answer


def bodies(endpoint):
    return [json.loads(seen.body) for seen in endpoint.seen]


def test_a_row_is_a_request_with_its_path_headers_and_body(endpoint):
    assert not sent(
        endpoint,
        [[1, "a/b ü?"]],
        "/words/{word}?id={id}",
        method="PUT",
        headers={"X-Word": "{id}!", "Authorization": "Bearer abc"},
    )
    [one] = endpoint.seen
    assert (one.method, one.path) == ("PUT", "/words/a%2Fb%20%C3%BC%3F?id=1")
    assert json.loads(one.body) == {"id": 1, "word": "a/b ü?"}
    assert one.headers["X-Word"] == "1!"
    assert one.headers["Authorization"] == "Bearer abc"
    assert one.headers["Content-Type"] == "application/json"


def test_a_body_of_a_template_has_values_with_their_types_and_nothing_breaks_out(endpoint):
    body = {"text": 'word "{word}"', "of": [{"id": "{id}"}], "fixed": True}
    assert not sent(endpoint, [[7, '", "id": "8']], body=body)
    assert bodies(endpoint) == [
        {"text": 'word "", "id": "8"', "of": [{"id": 7}], "fixed": True},
    ]


@pytest.mark.parametrize(
    ("rows", "options", "path", "reason"),
    [
        ([1, ".."], {}, "/{word}", "'..' can't be a part of a URL's path"),
        ([1, ""], {}, "/a/{word}/b", "'' can't be a part"),
        ([1, None], {}, "/{word}", "the field 'word' is null"),
        ([1, "a\r\nX: y"], {"headers": {"W": "{word}"}}, "/", "header 'W': the value has a line"),
        ([1, "ü"], {"idempotency_key": "{word}"}, "/", "idempotencyKey: 'ü' is no key"),
        ([1, "x" * 9000], {}, "/{word}", "the URL has more than 8192 bytes"),
    ],
)
def test_a_value_that_would_change_the_request_fails_its_row_alone(
    endpoint, rows, options, path, reason
):
    failed = sent(endpoint, [[0, "good"], rows], path, **options)
    assert list(failed) == [1]
    assert reason in failed[1]
    assert len(endpoint.seen) == 1


def test_a_refused_row_has_the_beginning_of_the_answer_as_its_reason(endpoint):
    endpoint.answers = refuse(2)
    assert sent(endpoint) == {1: "422 Unprocessable Entity: no [2]"}
    assert sorted(row["id"] for row in bodies(endpoint)) == [1, 2, 3]
    endpoint.answers = lambda _: {"status": 400, "text": "x" * 1_000_000}
    assert sent(endpoint, ROWS[:1]) == {0: f"400 Bad Request: {'x' * 200}…"}


def test_of_rows_in_one_request_the_refused_one_is_found_by_halves(endpoint):
    endpoint.answers = refuse(2)
    assert sent(endpoint, rows_per_request=10) == {1: "422 Unprocessable Entity: no [2]"}
    taken = [[row["id"] for row in rows] for rows in bodies(endpoint)]
    assert taken == [[1, 2, 3], [1], [2, 3], [2], [3]]
    assert len({seen.key for seen in endpoint.seen}) == 5


def test_rows_in_one_request_may_be_lines(endpoint):
    assert not sent(endpoint, rows_per_request=2, rows_as="lines", concurrency=1)
    lines = [seen.body.splitlines() for seen in endpoint.seen]
    assert [[json.loads(line)["id"] for line in some] for some in lines] == [[1, 2], [3]]
    assert endpoint.seen[0].headers["Content-Type"] == "application/x-ndjson"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_go_well_later_is_tried_again_with_the_same_key(endpoint, status):
    left = [status, status]
    endpoint.answers = lambda _: {"status": left.pop() if left else 201}
    assert not sent(endpoint, ROWS[:1])
    assert len(endpoint.seen) == 3
    assert len({seen.key for seen in endpoint.seen}) == 1


def test_an_endpoint_that_stays_away_has_the_batch_wait(endpoint):
    endpoint.answers = lambda _: {"status": 503, "text": "down for \n a while"}
    with pytest.raises(ServiceUnavailable) as told:
        sent(endpoint, ROWS[:1], retries=2)
    assert str(told.value) == (
        f"HTTP endpoint {endpoint.url} asks to try again: 503 Service Unavailable: down for a while"
    )
    assert len(endpoint.seen) == 3


def test_nothing_is_asked_before_the_time_that_retry_after_says(endpoint):
    endpoint.answers = lambda _: {"status": 429, "headers": {"Retry-After": "100"}}
    with sink_to(endpoint) as sink:
        try:
            for said in ("429 Too Many Requests", "it has asked to wait another "):
                with pytest.raises(ServiceUnavailable, match=said):
                    written(sink, ROWS[:1], None, FIELDS)
            assert len(endpoint.seen) == 1
        finally:
            shared(("http", f"HTTP endpoint {endpoint.url}"), None).until = 0


@pytest.mark.parametrize(
    ("answer", "path", "said"),
    [
        ({"status": 401, "text": "bad Bearer tausendschoen"}, "/", "401 Unauthorized: bad ***"),
        ({"status": 403}, "/", "403 Forbidden"),
        ({"status": 404}, "/", "404 Not Found"),
        (
            {"status": 302, "headers": {"Location": "http://elsewhere/"}},
            "/{id}",
            "302 Found: it redirects to http://elsewhere/, which is not followed",
        ),
    ],
)
def test_what_somebody_has_to_mend_has_the_batch_wait_and_is_asked_once(
    endpoint, answer, path, said
):
    endpoint.answers = lambda _: answer
    with pytest.raises(ServiceUnavailable) as told:
        sent(endpoint, ROWS[:1], path, headers={"Authorization": "Bearer tausendschoen"})
    assert str(told.value) == f"HTTP endpoint {endpoint.url} can't be used: {said}"
    assert len(endpoint.seen) == 1


def test_an_address_of_a_row_that_is_not_there_is_the_rows_fault(endpoint):
    endpoint.answers = lambda seen: {"status": 404} if seen.path == "/2" else None
    assert sent(endpoint, path="/{id}") == {1: "404 Not Found"}


def test_options_say_what_statuses_mean(endpoint):
    endpoint.answers = refuse(2, status=409)
    assert not sent(endpoint, taken_statuses=[409])
    endpoint.answers = refuse(2, status=500)
    assert sent(endpoint, refused_statuses=[500]) == {1: "500 Internal Server Error: no [2]"}
    endpoint.answers = refuse(2, status=423)
    with pytest.raises(ServiceUnavailable, match="423 Locked"):
        sent(endpoint, retried_statuses=[423], retries=0)


def test_a_server_that_is_not_there_or_does_not_answer_is_away(endpoint):
    with pytest.raises(ServiceUnavailable, match=r"HTTP endpoint http://127\.0\.0\.1:1 is away"):
        sent(endpoint, ROWS[:1], url="http://127.0.0.1:1", retries=0)
    endpoint.answers = lambda _: asyncio.sleep(0.2)
    with pytest.raises(ServiceUnavailable, match="is away: it does not answer in time"):
        sent(endpoint, ROWS[:1], timeout_seconds=0.02, retries=0)


def test_a_connection_that_was_closed_meanwhile_costs_no_try(endpoint):
    with sink_to(endpoint, retries=0) as sink:
        assert not written(sink, ROWS[:1], None, FIELDS)
        endpoint.cut()
        assert not written(sink, ROWS[1:], None, FIELDS)


def test_a_certificate_that_is_not_trusted_is_to_be_mended_and_is_with_its_authority():
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
    with scripted_endpoint(tls) as endpoint:
        with pytest.raises(ServiceUnavailable, match=r"can't be used: Cannot connect.*CERTIFICATE"):
            sent(endpoint, ROWS[:1])
        assert not sent(endpoint, ROWS[:1], ca=str(CERTIFICATE))
    assert len(endpoint.seen) == 1
    with pytest.raises(ServiceUnavailable, match=r"'lacking.pem' can't be used for TLS: .*No such"):
        sent(endpoint, ROWS[:1], ca="lacking.pem")


def test_at_most_as_many_requests_are_under_way_as_concurrency_says(endpoint):
    together = asyncio.Barrier(8)

    async def answer(_):
        await together.wait()

    endpoint.answers = answer
    assert not sent(endpoint, [[n, "w"] for n in range(24)], concurrency=8)
    assert endpoint.most == 8


def test_rows_of_a_key_are_sent_in_their_order_and_those_of_others_beside_them(endpoint):
    endpoint.answers = lambda seen: asyncio.sleep(0.001 if b"a" in seen.body else 0.002)
    rows = [[n, "ab"[n % 2]] for n in range(20)]
    assert not sent(endpoint, rows, order_by=["word"])
    order = [(row["word"], row["id"]) for row in bodies(endpoint)]
    for word in "ab":
        assert [of for of in order if of[0] == word] == sorted(of for of in order if of[0] == word)
    assert order != sorted(order, key=lambda of: of[1])
    assert endpoint.most == 2


def test_no_more_requests_are_made_in_a_second_than_the_options_say(endpoint, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    with sink_to(endpoint, max_per_second=10, concurrency=1) as sink:
        monkeypatch.setattr("fulmen.connectors.http.asking.sleep", sleep)
        monkeypatch.setattr("fulmen.connectors.http.asking.monotonic", lambda: 1.0)
        assert not written(sink, ROWS, None, FIELDS)
    assert [round(one, 6) for one in slept[:3]] == [0, 0.1, 0.2]


def roots_of(i):
    return (100 + i,)


def keys_of_a_batch(endpoint, sink, rows, roots):
    endpoint.forget()
    items = sink.encode(Rows(FIELDS, rows))
    sink.write(Rows(FIELDS, items, roots), None)
    return {json.loads(seen.body)["id"]: seen.key for seen in endpoint.seen}


def test_a_row_that_is_sent_again_has_its_key_whatever_is_beside_it(endpoint):
    with sink_to(endpoint) as sink:
        first = keys_of_a_batch(endpoint, sink, ROWS, roots_of)
        again = keys_of_a_batch(endpoint, sink, ROWS[1:], lambda i: roots_of(i + 1))
        of_another_tree = keys_of_a_batch(endpoint, sink, ROWS, lambda i: (i,))
    assert len(set(first.values())) == 3
    assert again == {2: first[2], 3: first[3]}
    assert not {*first.values()} & {*of_another_tree.values()}


def test_a_row_of_a_commit_has_the_key_of_its_place_whoever_sends_it(endpoint):
    rows = [[1, "same"], [1, "same"]]
    for number in (1, 1, 2):
        assert not sent(endpoint, rows, of=mark(number), guarantee="exactly-once")
    keys = [sorted(seen.key for seen in endpoint.seen[at : at + 2]) for at in (0, 2, 4)]
    assert keys[0] == keys[1] == ["a-1-tag 1-0", "a-1-tag 1-1"]
    assert not {*keys[0]} & {*keys[2]}


def test_a_template_makes_the_key_and_another_header_has_it(endpoint):
    assert not sent(endpoint, ROWS[:1], idempotency_key="o-{id}", idempotency_header="X-Key")
    assert endpoint.seen[0].headers["X-Key"] == "o-1"
    assert not sent(endpoint, ROWS[:1], idempotency_header=None)
    assert endpoint.seen[1].key is None


def test_what_is_refused_is_described_with_its_address():
    sink = HttpSink()
    sink.prepare({}, context(HttpSinkOptions(url="http://h/{id}"), FIELDS))
    [item] = pickle.loads(pickle.dumps(list(sink.encode(Rows(FIELDS, ROWS[:1])))))
    sink.cleanup()
    assert sink.describe(item) == {"url": "http://h/1", "body": '{"id":1,"word":"one"}'}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "ftp://h"}, "url: write `https://host/path`"),
        ({"url": "http://{id}.h/"}, "the host can't be of a field"),
        ({"url": "http://h/#a"}, "url: write"),
        ({"headers": {"Content-Length": "1"}}, "'Content-Length' is written by the client"),
        ({"headers": {"A": "b\nC: d"}}, "has a line feed"),
        ({"headers": {"A:": "b"}}, "pattern"),
        ({"headers": {"content-type": "b"}}, "write contentType instead of 'content-type'"),
        ({"headers": {"idempotency-key": "b"}}, "write idempotencyKey instead of"),
        ({"certificateKey": "k.pem"}, "certificateKey is the key of `certificate`"),
        (
            {"guarantee": "exactly-once", "idempotencyHeader": None},
            "exactly-once needs an endpoint that drops what it has by its key",
        ),
        ({"idempotencyHeader": None, "idempotencyKey": "{id}"}, "no idempotencyHeader"),
        ({"rowsPerRequest": 2, "idempotencyKey": "{id}"}, "idempotencyKey is for one row"),
        ({"body": {"a": 1}, "format": {"type": "text"}}, "body and format both say"),
        ({"body": {"a": ["{0}"]}}, "{0} is not the name of a field in braces"),
        ({"rowsPerRequest": 2, "format": {"type": "text"}}, "rowsAs: array is for JSON"),
        (
            {"rowsPerRequest": 2, "rowsAs": "lines", "format": {"type": "bytes"}},
            "rows in a binary format can't be told apart",
        ),
        ({"rowsPerRequest": 2, "method": "DELETE"}, "a DELETE has no body"),
        ({"takenStatuses": [409], "refusedStatuses": [409]}, "the status 409 is in two of"),
    ],
)
def test_options_that_do_not_fit_are_mistakes(options, said):
    with pytest.raises(ValidationError) as told:
        HttpSinkOptions.model_validate({"url": "http://h/", **options})
    assert said in str(told.value)
