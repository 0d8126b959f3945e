"""Users that lack a right are told which, and components go on by themselves once they have it."""

import zlib

import pytest

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.kafka import (
    KafkaSink,
    KafkaSinkOptions,
    KafkaSpout,
    KafkaSpoutOptions,
    TransactionalKafkaSpout,
)
from support.lives.sink_lives import SinkLife
from support.lives.spout_lives import SpoutLife
from support.servers.kafka_server import OTHER_USERS, PASSWORD
from support.transactions.lives import TransactionalLife

USERS = iter(OTHER_USERS)


@pytest.fixture
def topic(request, kafka):
    """This test's own topic."""
    name = f"rights-{zlib.crc32(request.node.name.encode()):x}"
    kafka.make_topic(name)
    return name


@pytest.fixture
def user():
    """Somebody without a right."""
    return next(USERS)


@pytest.fixture
def given(kafka, topic, user):
    """How that user connects."""
    return {
        "bootstrap.servers": kafka.secured,
        "topic": topic,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


@pytest.fixture
def made():
    """Makes lives of components, and ends them."""
    lives = []

    def make(kind, options, *more):
        lives.append(kind(*options, *more))
        return lives[-1]

    yield make
    for life in lives:
        if isinstance(life, SinkLife):
            life.sink.cleanup()
        else:
            life.close()


def test_a_spout_that_may_not_read_is_told_and_reads_once_it_may(kafka, topic, user, given, made):
    kafka.produce(topic, [b"a", b"b"])
    lacks = f"this user lacks the right Read for topic '{topic}'"
    options = KafkaSpoutOptions.model_validate(given | {"group.id": f"{topic}-group"})
    with pytest.raises(ServiceUnavailable, match=f"can't be used: {lacks}$"):
        SpoutLife(KafkaSpout, options)
    kafka.grant(user, "DESCRIBE", "TOPIC", topic)
    life = made(SpoutLife, (KafkaSpout, options))
    life.until(lambda: any(text.endswith(lacks) for text in life.reports), "a report")
    kafka.grant(user, "READ", "TOPIC", topic)
    life.until_emitted(2)
    group = f"not committed to group '{topic}-group' (this user lacks the right Read for group"
    life.until(lambda: any(group in text for text in life.reports), "what the group lacks")
    life.commit()  # it can be closed all the same


def test_a_transactional_spout_that_may_not_read_is_told_and_reads_once_it_may(
    kafka, topic, user, given, made
):
    kafka.produce(topic, [b"a", b"b"])
    lacks = f"this user lacks the right Read for topic '{topic}'"
    with pytest.raises(ServiceUnavailable, match=f"can't be used: {lacks}$"):
        TransactionalLife(TransactionalKafkaSpout, given)
    kafka.grant(user, "DESCRIBE", "TOPIC", topic)
    life = made(TransactionalLife, (TransactionalKafkaSpout, given))
    life.until(lambda _: any(text.endswith(lacks) for text in life.reports), "a report")
    kafka.grant(user, "READ", "TOPIC", topic)
    life.until_emitted(2)


def test_a_spout_without_a_group_of_its_own_needs_no_right_to_one(kafka, topic, user, given, made):
    kafka.produce(topic, [b"a", b"b"])
    kafka.grant(user, "READ", "TOPIC", topic)
    life = made(SpoutLife, (KafkaSpout, KafkaSpoutOptions.model_validate(given)))
    life.until_emitted(1)
    life.commit()
    kafka.produce(topic, [b"c"])
    life.until_emitted(1)
    assert life.reports == []


def said(life, number):
    """What a sink says instead of writing."""
    with pytest.raises(ServiceUnavailable) as raised:
        life.write(("a",), number=number)
    assert raised.value.state == "can't be used"
    return raised.value.reason


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_sink_that_lacks_a_right_is_told_which_and_writes_once_it_has_it(
    kafka, topic, user, given, made, guarantee
):
    options = KafkaSinkOptions.model_validate(given | {"guarantee": guarantee})
    number = 1 if guarantee == "exactly-once" else None
    both = f"for topic '{topic}': with `exactly-once` it needs both"
    kafka.grant(user, "DESCRIBE", "TOPIC", topic)
    life = made(SinkLife, (KafkaSink, options, ("value",)), topic)
    if number is None:
        assert said(life, number).startswith(f"this user lacks the right Write for topic '{topic}'")
        kafka.grant(user, "WRITE", "TOPIC", topic)
    else:
        ids = "this user lacks the right Write for transactional ids that begin with `fulmen-`"
        assert said(life, number) == ids
        kafka.grant(user, "DESCRIBE", "GROUP", "fulmen-*")
        kafka.grant(user, "WRITE", "TRANSACTIONAL_ID", "fulmen-*")
        assert both in said(life, number)
        kafka.grant(user, "WRITE", "TOPIC", topic)
        groups = "this user lacks the right Read for groups that begin with `fulmen-`"
        assert said(life, number) == groups
        kafka.grant(user, "READ", "GROUP", "fulmen-*")
        assert both in said(life, number)  # the mark is an offset of the topic
        kafka.grant(user, "READ", "TOPIC", topic)
    assert life.write_at_last(("a",), number=number) == {}
    assert [message.value() for message in kafka.read(topic)] == [b"a"]


def test_rows_for_another_topic_that_may_not_be_written_are_refused_in_a_transaction(
    kafka, topic, user, given, made
):
    other = f"{topic}-2"
    kafka.make_topic(other)
    options = KafkaSinkOptions.model_validate(
        given | {"guarantee": "exactly-once", "topicField": "to"}
    )
    for right in ("READ", "WRITE"):
        kafka.grant(user, right, "TOPIC", topic)
    kafka.grant(user, "DESCRIBE", "TOPIC", other)
    kafka.grant(user, "READ", "GROUP", "fulmen-*")
    kafka.grant(user, "WRITE", "TRANSACTIONAL_ID", "fulmen-*")
    life = made(SinkLife, (KafkaSink, options, ("value", "to")), topic)
    refused = life.write_at_last(("a", None), ("b", other), ("c", other), number=1)
    assert refused == dict.fromkeys((1, 2), "this user has no right to that topic")
    assert [message.value() for message in kafka.read(topic)] == [b"a"]
    assert kafka.read(other) == []
