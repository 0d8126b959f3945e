"""Messages as tuples, and the errors of the client as one line."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from fulmen.connectors.kafka import KafkaSpoutOptions
from fulmen.connectors.kafka.client import Brokers
from fulmen.connectors.kafka.messages import Reader

LEAST = {"bootstrap.servers": "broker:9092", "topic": "orders"}


def read(*messages, **config):
    return Reader(KafkaSpoutOptions.model_validate(LEAST | config)).read(messages)


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


def test_the_reason_is_the_most_telling_of_what_was_said():
    brokers = Brokers(KafkaSpoutOptions.model_validate(LEAST))
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
        bootstrap_servers="b", security_protocol="SSL", properties={name: "x"}
    )
    assert Brokers(options).settings()[name] != "x"
