"""What a refused message tells of others, and what is said of it."""

from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from fulmen.connectors.kafka.writing.producing import (
    Limits,
    ProducedRow,
    RefusedRow,
    RowDelivery,
    Sending,
    reason_of_refusal,
)

INVALID = KafkaError.INVALID_RECORD


@pytest.mark.parametrize("is_compacted", [True, False])
def test_an_invalid_message_without_a_key_tells_of_others_only_if_the_topic_is_compacted(
    is_compacted,
):
    rows = [
        ProducedRow("t", b"bad"),
        ProducedRow("t", b"good"),
        ProducedRow("t", b"good", b"key"),
        ProducedRow("other", b"good"),
    ]
    limits = Limits(rows, compresses=False, is_compacted=lambda topic: is_compacted)
    limits.learn({0: RefusedRow(INVALID, is_exact=True)})
    assert sorted(limits.beyond(range(4))) == ([0, 1] if is_compacted else [])


def test_no_more_is_said_of_an_invalid_message_than_is_known():
    said = "the brokers say that the message is invalid, as by a schema"
    assert reason_of_refusal(INVALID, ProducedRow("t", b"v", b"k")) == said
    told = reason_of_refusal(INVALID, ProducedRow("t", b"v"))
    assert told == f"{said}, or since it has no key, which a compacted topic needs"


class Delivered(NamedTuple):
    """A message as the client tells of it."""

    content: tuple

    def topic(self):
        return self.content[0]

    def value(self):
        return self.content[1]

    def key(self):
        return self.content[2]


class Client:
    """A producer whose transaction is lost, of which it tells later, when it is asked to wait."""

    def __init__(self, refused):
        self.given, self.refused = [], refused

    def make(self, kind, defaults, **settings):
        return self

    def produce(self, topic, value, key, to, told, **more):
        if len(self.given) == 2:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.given.append((told, Delivered((topic, value, key))))

    def flush(self, seconds):
        for told, message in self.given[: self.refused]:
            told(KafkaError(INVALID), message)
        return 0


def test_a_transaction_that_is_lost_before_all_is_given_to_it_tells_of_the_message_it_is_lost_by():
    delivery = RowDelivery(Client(1), "t", Sending.ONE_BY_ONE, transactional_id="x")
    rows = [ProducedRow("t", b"v", b"k")] * 4
    assert delivery.write(rows, range(4)) == {0: RefusedRow(INVALID, is_exact=True)}


def test_a_transaction_that_is_lost_by_no_message_is_told():
    delivery = RowDelivery(Client(0), "t", Sending.ONE_BY_ONE, transactional_id="x")
    with pytest.raises(KafkaException, match="_STATE"):
        delivery.write([ProducedRow("t", b"v", b"k")] * 4, range(4))


class Refusing:
    """A producer that refuses the messages at some positions of what it is given."""

    def __init__(self, positions):
        self.given, self.positions = [], positions

    def make(self, kind, defaults, **settings):
        return self

    def produce(self, topic, value, key, to, told, **more):
        self.given.append((told, Delivered((topic, value, key))))

    def flush(self, seconds):
        for i, (told, message) in enumerate(self.given):
            told(KafkaError(INVALID) if i in self.positions else None, message)
        self.given = []
        return 0


def test_refused_messages_are_told_by_their_content_or_else_by_what_they_have_besides():
    rows = [
        ("t", b"v", b"k", 3, 0, None),
        ("t", b"v", b"k", -1, 5, None),
        ("t", b"v", b"k", -1, 0, [("h", b"1")]),
        ("t", b"v", b"k", -1, 0, None),
        ("t", b"", None, -1, 0, None),
        ("t", None, b"", -1, 0, None),
        ("u", b"v", b"k", -1, 0, None),
        ("t", b"w", b"k", -1, 0, None),
        ("t", b"w", b"k", -1, 0, None),
    ]
    for at in range(len(rows)):
        delivery = RowDelivery(Refusing({at}), "t", Sending.ONE_BY_ONE)
        refused = list(delivery.write(rows, range(len(rows))))
        assert refused == [at if at < 8 else 7], "of equal messages it does not matter which"
    delivery = RowDelivery(Refusing({1, 2}), "t", Sending.ONE_BY_ONE)
    assert list(delivery.write(rows, [8, 0, 7])) == [0, 8]
