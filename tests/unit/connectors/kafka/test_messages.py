"""Messages as tuples, and the errors of the client as one line."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.api.components.sinks import Rows
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.base import encode_each
from fulmen.connectors.kafka import KafkaSinkOptions, KafkaSpoutOptions
from fulmen.connectors.kafka.reading.messages import DROPPED, MessageReader, traceparents_of
from fulmen.connectors.kafka.sink import KafkaSink, _Encoder, with_traces
from fulmen.connectors.kafka.writing.producing import ProducedRow

LEAST = {"bootstrap.servers": "broker:9092", "topic": "orders"}


def read(*messages, **config):
    """(values, stream, message id) of each."""
    runs = MessageReader(KafkaSpoutOptions.model_validate(LEAST | config)).read(messages)
    return [
        (values, run.stream, msg_id)
        for run in runs
        if run.stream != DROPPED
        for values, msg_id in zip(run.rows, run.ids, strict=True)
    ]


def message(value, offset=5, **more):
    return Message(topic="orders", partition=2, offset=offset, value=value, **more)


def test_a_message_that_cannot_be_read_says_where_it_is():
    [(values, stream, msg_id)] = read(message(b"\xff"))
    assert (stream, msg_id) == ("errors", (2, 5))
    data, reason, position = values
    assert (data, position) == (b"\xff", "orders[2]@5")
    assert reason.startswith("it is not text in utf-8")


def test_a_time_that_is_not_known_is_null():
    config = {"include": ["timestamp", "headers", "key"]}
    known = message(b"a", timestamp=(1, 123), headers=[("h", b"1")], key=b"k")
    unknown = message(b"b", timestamp=(0, -1))
    assert read(known, unknown, **config) == [
        (["a", 123, [("h", b"1")], "k"], "default", (2, 5)),
        (["b", None, [], None], "default", (2, 5)),
    ]


def test_messages_stay_in_their_order_whatever_is_wrong_with_them():
    json = {"format": {"type": "json", "fields": ["a", "b"]}, "include": ["key"]}
    good, bare = message(b'{"a": 1, "b": 2}', 0, key=b"k"), message(b'{"a": 1}', 3, key=b"k")
    broken, nothing = message(b"{", 1, key=b"k"), message(None, 2, key=b"k")
    foreign, last = message(b'{"a": 1, "b": 2}', 4, key=b"\xff"), message(b'{"b": 5}', 5, key=b"k")
    found = read(good, broken, nothing, bare, foreign, last, **json)
    assert [msg_id for _, _, msg_id in found] == [(2, i) for i in range(6)]
    assert [stream for _, stream, _ in found] == [
        *("default", "errors", "default", "default", "errors", "default")
    ]
    values = [values for values, _, _ in found]
    assert values[0] == [1, 2, "k"]
    assert values[1][1:] == [values[1][1], "orders[2]@1"]
    assert values[1][1].startswith("it is not JSON")
    assert values[2:4] == [[None, None, "k"], [1, None, "k"]]
    assert values[4][0] == b'{"a": 1, "b": 2}'
    assert values[5] == [None, 5, "k"]


@pytest.mark.parametrize("fields", [["a"], ["a", "b"]])
@pytest.mark.parametrize("other", [b"{}", b"[1]", b'"ab"', b"7", b"null"])
def test_a_message_is_read_the_same_whatever_comes_with_it(fields, other):
    config = {"format": {"type": "json", "fields": fields}}
    good = message(b'{"a": 1, "b": 2}')
    assert read(good, message(other, 6), **config) == [
        *read(good, **config),
        *read(message(other, 6), **config),
    ]


def test_a_tombstone_is_what_the_option_says():
    messages = [message(b'{"a": 1}', 0, key=b"k"), message(None, 1, key=b"k"), message(b"{", 2)]
    config = {"format": {"type": "json", "fields": ["a"]}, "include": ["key"]}
    values = {
        name: [(row, stream) for row, stream, _ in read(*messages, **config, tombstones=name)][:-1]
        for name in ("values", "deleted", "drop")
    }
    assert values == {
        "values": [([1, "k"], "default"), ([None, "k"], "default")],
        "deleted": [([1, "k", False], "default"), ([None, "k", True], "default")],
        "drop": [([1, "k"], "default")],
    }
    runs = MessageReader(
        KafkaSpoutOptions.model_validate(LEAST | config | {"tombstones": "drop"})
    ).read(messages)
    assert [(run.stream, run.ids) for run in runs] == [
        *(("default", [(2, 0)]), (DROPPED, [(2, 1)]), ("errors", [(2, 2)]))
    ]


def test_a_tombstone_is_told_once_where_the_topology_does_not_say_what_it_is():
    def told(*messages, **config):
        reader, reports = MessageReader(KafkaSpoutOptions.model_validate(LEAST | config)), []
        for one in messages:
            reader.read([one])
            reader.tell(reports.append)
        return reports

    json = {"format": {"type": "json", "fields": ["a"]}}
    stone = message(None, 7)
    [text] = told(message(b"{}"), stone, stone, **json)
    assert text.startswith("orders[2]@7 has no value: it is a tombstone, which deletes its key.")
    assert told(stone, **json, tombstones="values") == told(stone) == []


def sent(values, fields=("key", "n", "gone"), **config):
    options = KafkaSinkOptions.model_validate(LEAST | {"format": {"type": "json"}, **config})
    made = options.format.make()
    return ProducedRow(*_Encoder(options, fields, made, None)(values))


def test_a_row_that_is_deleted_becomes_a_tombstone():
    config = {"keyField": "key", "deletedField": "gone"}
    assert sent(["k", 1, False], **config)[:3] == ("orders", b'{"key":"k","n":1}', b"k")
    assert sent(["k", 1, True], **config)[:3] == ("orders", None, b"k")
    with pytest.raises(Malformed, match="the row deletes a key, and has none"):
        sent([None, 1, True], **config)
    with pytest.raises(Malformed, match="'gone' tells whether a row is deleted, and is 'no'"):
        sent(["k", 1, "no"], **config)


def test_a_timestamp_that_the_client_takes_for_now_is_refused():
    config = {"keyField": "key", "timestampField": "n"}
    assert sent(["k", 1, None], **config).timestamp == 1
    with pytest.raises(Malformed, match="a timestamp must be an integer from 1 to"):
        sent(["k", 0, None], **config)


def test_a_part_of_a_run_is_taken():
    [run] = MessageReader(KafkaSpoutOptions.model_validate(LEAST)).read(
        [message(b"a", 0), message(b"b", 1), message(b"c", 2)]
    )
    assert run.take(2) == ([["a"], ["b"]], [(2, 0), (2, 1)])
    assert run.take(2) == ([["c"]], [(2, 2)])
    assert run.ids == []


def test_the_reason_is_the_most_telling_of_what_was_said():
    brokers = KafkaSpoutOptions.model_validate(LEAST).brokers()
    vague = KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))
    assert brokers.unavailable(vague).reason == "Failed to get metadata"
    note = brokers.settings()["error_cb"]
    note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    note(KafkaError(KafkaError._AUTHENTICATION, "handshake failed"))
    assert brokers.is_away
    assert brokers.unavailable(vague).reason.startswith("it does not let us in")
    exact = KafkaException(KafkaError(KafkaError.POLICY_VIOLATION, "no\n  such thing"))
    assert brokers.unavailable(exact).reason == "no such thing"
    brokers.forget()
    assert not brokers.is_away


@pytest.mark.parametrize("name", ["security.protocol", "error_cb"])
def test_properties_cannot_take_the_place_of_what_is_set(name):
    options = KafkaSpoutOptions.model_construct(
        topic="t", bootstrap_servers="b", security_protocol="SSL", properties={name: "x"}
    )
    assert options.brokers().settings()[name] != "x"


@pytest.mark.parametrize(("given", "used"), [({}, 10), ({"fetch.queue.backoff.ms": 500}, 500)])
def test_how_often_a_consumer_looks_whether_to_fetch_more_can_be_set(monkeypatch, given, used):
    made = []
    monkeypatch.setattr("fulmen.services.kafka.Consumer", made.append)
    KafkaSpoutOptions.model_validate(LEAST | {"properties": given}).brokers().consumer("g")
    assert made[0]["fetch.queue.backoff.ms"] == used


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_traces_of_messages_are_known_by_the_ids_of_those_that_say_so():
    other = [("h", b"1"), ("traceparent", None)]
    found = traceparents_of(
        [
            message(b"a", 0, headers=[("traceparent", PARENT.encode()), ("h", b"1")]),
            message(b"b", 1, headers=other),
            message(b"c", 2),
            message(b"d", 3, headers=[("traceparent", b"\xff")]),
        ]
    )
    assert found == {(2, 0): PARENT, (2, 3): "\xff"}


def test_a_message_that_is_traced_says_so_in_place_of_what_it_has_said_of_another_trace():
    rows = Rows(("a",), [[1], [2], [3]], traceparents={0: PARENT, 1: PARENT, 2: PARENT})
    rows.fail(1, "no")
    headers = [("traceparent", b"old"), ("h", b"1")]
    items = [ProducedRow("orders", b"1", headers=headers), None, ProducedRow("orders", b"3")]
    first, refused, last = with_traces(items, rows)
    assert first == ProducedRow(
        "orders", b"1", headers=[("h", b"1"), ("traceparent", PARENT.encode())]
    )
    assert refused is None
    assert ProducedRow(*last).headers == [("traceparent", PARENT.encode())]
    assert headers == [("traceparent", b"old"), ("h", b"1")], "the tuple's own value was changed"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keyField": "word"},
        {"keyField": "word", "deletedField": "count"},
        {"keyField": "word", "partitionField": "count"},
        {"keyField": "word", "format": {"type": "json", "fields": ["count"]}},
        {"format": {"type": "text", "field": "word"}},
    ],
)
@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.text(max_size=3), st.just("\ud800"), st.none(), st.binary(max_size=2)),
            st.sampled_from([-1, 0, 3, "2", True, None, object()]),
        ).map(list),
        max_size=4,
    )
)
@example(rows=[["a", "2"]])
def test_messages_are_the_same_encoded_together_or_one_by_one(options, rows):
    sink = KafkaSink()
    sink._options = KafkaSinkOptions.model_validate(LEAST | {"format": {"type": "json"}} | options)
    values, keys = sink._options.formats()
    sink._format, sink._key_format = values.make(), keys.make() if keys is not None else None
    sink._encoders = {}
    fields = ("word", "count")
    together, single = Rows(fields, rows), Rows(fields, rows)
    made = list(sink.encode(together))
    one_by_one = encode_each(single, sink.encoder(fields))
    assert together.failed == single.failed
    assert made == one_by_one
    assert {type(item) for item in made} <= {tuple, type(None)}
