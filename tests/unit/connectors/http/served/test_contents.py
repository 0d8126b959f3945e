"""Contents of requests become rows, or a reason."""

import json
from decimal import Decimal

import pytest

from fulmen.connectors.formats import Malformed
from fulmen.connectors.http.served.contents import contents_of
from fulmen.connectors.http.served.options import HttpSpoutOptions

EVENT = {"specversion": "1.0", "id": "1", "source": "/a", "type": "t", "data": {"n": 1}}
ORDERS = {"type": "json", "fields": {"id": "int64", "amount": "decimal"}}


def read(data, kind="", more=(), **options):
    made = contents_of(HttpSpoutOptions(port=0, **options))
    return made.rows({"Content-Type": kind, **dict(more)}, data)


def fields(**options):
    return contents_of(HttpSpoutOptions(port=0, **options)).stream().fields


def test_a_content_is_one_message_by_default():
    assert read(b'{"id": 1, "amount": 0.10}', format=ORDERS) == [[1, Decimal("0.10")]]


@pytest.mark.parametrize("more", [{"content": "lines"}, {"kind": "application/x-ndjson; a=b"}])
def test_lines_are_messages(more):
    rows = read(b'{"id": 1}\r\n\n{"id": 2}\n', format=ORDERS, **more)
    assert rows == [[1, None], [2, None]]


def test_lines_of_csv_are_messages():
    options = {"format": {"type": "csv", "fields": ["a", "b"]}, "content": "lines"}
    assert read(b'1,"x,y"\n2,z', **options) == [["1", "x,y"], ["2", "z"]]


def test_a_reason_names_the_line():
    with pytest.raises(Malformed, match=r"^line 3: .*int64"):
        read(b'{"id": 1}\n\n{"id": "x"}\n', format=ORDERS, content="lines")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b"\xff", b'{"id": 1e400}', b'{"id": 1}{}', b"\x00" * 9]
)
def test_hostile_json_is_refused_with_a_reason(content):
    with pytest.raises(Malformed):
        read(content, format={**ORDERS, "required": ["id"]})


def test_a_form_has_its_inputs():
    form = {"type": "form", "fields": ["a", "b", "c"]}
    assert read(b"a=1+2&b=%C3%A9&b=", format=form) == [["1 2", "", None]]
    assert read(b"a=1", format={"type": "form"}) == [[{"a": "1"}]]
    assert fields(format=form) == ("a", "b", "c")
    assert fields(format={"type": "form"}) == ("value",)


@pytest.mark.parametrize(
    ("content", "kind"), [(b"a=%ff", ""), (b"a&" * 2000, ""), (b"a=1", "multipart/form-data; x=y")]
)
def test_what_is_no_form_is_refused(content, kind):
    with pytest.raises(Malformed, match="form"):
        read(content, kind, format={"type": "form"})


EVENTS = {"format": {"type": "cloudevents"}}
ROW = ["1", "/a", "t", None, None, {"n": 1}]


def test_a_structured_event_is_read():
    assert read(json.dumps(EVENT).encode(), "application/cloudevents+json", **EVENTS) == [ROW]


def test_a_batch_of_events_is_read():
    encoded = {**EVENT, "data": None, "data_base64": "/w==", "subject": "s"}
    rows = read(
        json.dumps([EVENT, encoded]).encode(), "application/cloudevents-batch+json", **EVENTS
    )
    assert rows == [ROW, ["1", "/a", "t", "s", None, b"\xff"]]


def test_a_binary_event_is_read():
    named = {"ce-id": "1", "ce-source": "/a", "ce-type": "t", "ce-specversion": "1.0"}
    assert read(b'{"n": 1}', "application/json", named, **EVENTS) == [ROW]
    assert read(b"\xff", "image/png", named, **EVENTS) == [[*ROW[:-1], b"\xff"]]


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (b"[]", "application/cloudevents+json", "is an object"),
        (b"{}", "application/cloudevents-batch+json", "is a list"),
        (b'[{"id": "1"}]', "application/cloudevents-batch+json", "event 1: .*member source"),
        (b"{", "application/cloudevents+json", "it is not JSON"),
        (b"[" * 100_000, "application/cloudevents+json", "it is not JSON"),
        (b"{}", "application/json", "header ce-id"),
    ],
)
def test_what_is_no_event_is_refused(content, kind, reason):
    with pytest.raises(Malformed, match=reason):
        read(content, kind, **EVENTS)
