"""What a refused message tells of others, and what is said of it."""

import pytest
from confluent_kafka import KafkaError

from fulmen.connectors.kafka.writing.producing import Limits, Refused, Row, reason_of_refusal

INVALID = KafkaError.INVALID_RECORD


@pytest.mark.parametrize("is_compacted", [True, False])
def test_an_invalid_message_without_a_key_tells_of_others_only_if_the_topic_is_compacted(
    is_compacted,
):
    rows = [Row("t", b"bad"), Row("t", b"good"), Row("t", b"good", b"key"), Row("other", b"good")]
    limits = Limits(rows, compresses=False, is_compacted=lambda topic: is_compacted)
    limits.learn({0: Refused(INVALID, is_exact=True)})
    assert sorted(limits.beyond(range(4))) == ([0, 1] if is_compacted else [])


def test_no_more_is_said_of_an_invalid_message_than_is_known():
    said = "the brokers say that the message is invalid, as by a schema"
    assert reason_of_refusal(INVALID, Row("t", b"v", b"k")) == said
    told = reason_of_refusal(INVALID, Row("t", b"v"))
    assert told == f"{said}, or since it has no key, which a compacted topic needs"
