"""What is kept with the rows of a commit, as the metadata of offsets."""

import json
import random
import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from fulmen.connectors.kafka.writing.marks import LONGEST_METADATA, Written
from fulmen.connectors.kafka.writing.transactions import within

LABEL = "orders/out/0"


@pytest.mark.parametrize(
    ("refused", "count"),
    [
        ({}, 1),
        ({0: 10}, 1),
        ({3: 10, 170: -190}, 1),
        (dict.fromkeys(range(100_000), 10), 1),
        (dict.fromkeys(range(10, 9000, 3), 10), 1),
        ({i: random.Random(i).choice((10, 87, 44)) for i in range(9000)}, 2),
    ],
    ids=["none", "first", "two", "all", "regular", "random"],
)
def test_a_mark_is_read_as_it_was_written(refused, count):
    written = Written(812, "a-tag", refused)
    pages = written.pages(LABEL)
    assert all(len(page.encode()) <= LONGEST_METADATA for page in pages)
    assert Written.read(812, pages) == written
    assert json.loads(pages[0])["label"] == LABEL
    assert Written.pages_after(pages[0]) == len(pages) - 1
    assert len(pages) == count


def test_a_group_without_an_offset_is_no_mark():
    assert Written.read(-1001, [None]) == Written(None, None, {})


def test_an_offset_of_somebody_else_has_no_tag():
    assert Written.read(7, [""]) == Written(7, None, {})
    assert Written.pages_after("") == 0


def test_a_call_that_never_returns_is_given_up():
    with pytest.raises(KafkaException) as raised:
        within(0.01, lambda: time.sleep(0.5))
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT


def test_what_a_call_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)
    assert within(5, lambda: None) is None
