"""What is kept with the rows of a commit, as the metadata of an offset."""

import json
import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from fulmen.connectors.kafka.writing.transactions import (
    LONGEST_METADATA,
    TooManyRefused,
    Written,
    within,
)


@pytest.mark.parametrize("refused", [{}, {3: 10, 170: -190}, dict.fromkeys(range(1000), 10)])
def test_a_mark_is_read_as_it_was_written(refused):
    written = Written(812, "a-tag", refused)
    text = written.metadata("orders/out/0")
    assert len(text) <= LONGEST_METADATA
    assert Written.read(812, text) == written
    assert json.loads(text)["label"] == "orders/out/0"


def test_a_group_without_an_offset_is_no_mark():
    assert Written.read(-1001, None) == Written(None, None, {})


def test_an_offset_of_somebody_else_has_no_tag():
    assert Written.read(7, "") == Written(7, None, {})


def test_more_refused_rows_than_a_mark_can_tell_are_an_error():
    refused = {n * n: n % 7 for n in range(3000)}
    with pytest.raises(TooManyRefused, match="Kafka refuses 3000 rows of one batch"):
        Written(1, "tag", refused).metadata("label")


def test_a_call_that_never_returns_is_given_up():
    with pytest.raises(KafkaException) as raised:
        within(0.01, lambda: time.sleep(0.5))
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT


def test_what_a_call_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)
    assert within(5, lambda: None) is None
