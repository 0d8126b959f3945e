"""Messages that have failed: their pauses, their counts, and what the checkpoint has of them."""

import pickle
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen.checkpoint import rewriting
from fulmen.engine.state.messages.failed_messages import (
    LEAST_SHARE,
    FailedMessages,
    pause_seconds,
)


def failing(count, clock=0.0, rests=True):
    messages = FailedMessages()
    for sequence in range(count):
        messages.add([(sequence, f"m{sequence}", "no")], clock, rests=rests)
    return messages


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.05), (2, 0.1), (3, 0.2), (10, 25.6), (11, 30.0), (5000, 30.0)]
)
def test_each_pause_is_twice_as_long_as_the_one_before_up_to_half_a_minute(failures, seconds):
    assert pause_seconds(failures) == pytest.approx(seconds)


def test_a_message_rests_until_its_pause_is_over():
    messages = failing(1, clock=7.0)
    assert list(messages.take(7.04, 9)) == []
    assert list(messages.take(7.06, 9)) == [("m0", "no")]
    assert list(messages.take(99.0, 9)) == []


def test_a_message_that_fails_again_has_a_longer_pause():
    messages = failing(1)
    list(messages.take(1.0, 9))
    messages.add([(5, "m0", "no")], 1.0, rests=True)
    assert messages.described() == (1, pytest.approx(1.1), 2, "no")


def test_a_message_that_was_acked_begins_anew():
    messages = failing(1)
    list(messages.take(1.0, 9))
    messages.acked(["other", "m0"])
    assert messages.tried == {}


def test_no_more_are_taken_than_allowed_and_the_longest_over_come_first():
    messages = failing(2, clock=2.0)
    messages.add([(9, "early", "no")], 1.0, rests=True)
    assert list(messages.take(9.0, 2)) == [("early", "no"), ("m0", "no")]
    assert messages.resting == 1


def test_without_a_pause_a_message_is_due_at_once():
    assert [one for one, _ in failing(2, clock=50.0, rests=False).take(0.0, 9)] == ["m0", "m1"]


def test_messages_that_are_acked_when_they_come_again_get_a_larger_share():
    messages = failing(200)
    assert messages.share == LEAST_SHARE
    list(messages.take(9.0, 200))
    messages.acked([f"m{i}" for i in range(200)])
    assert messages.share > 0.4


class Strange:
    """An id whose == raises."""

    def __eq__(self, other):
        raise ValueError

    def __hash__(self):
        return 1


def test_an_id_that_can_not_be_compared_does_no_harm():
    messages = FailedMessages()
    ids = [Strange(), Strange(), "fine"]
    for sequence, one in enumerate(ids):
        messages.add([(sequence, one, "no")], 0.0, rests=True)
    assert len(list(messages.take(1.0, 9))) == 3
    assert 2 in messages.among(ids)
    messages.acked(ids)
    assert "fine" not in messages.tried


# ---- what is durable ------------------------------------------------------------------------

CHANGES = st.lists(
    st.tuples(st.sampled_from(["fail", "take", "ack", "commit"]), st.integers(0, 5)), max_size=60
)


AGAIN = ("commit", 0), ("take", 5), ("commit", 0)


def seen(messages):
    return sorted(messages._resting.items()), dict(messages.tried), sorted(messages._queue)


@settings(max_examples=150)
@example([("fail", 0), ("fail", 0), ("take", 1), ("commit", 0)], rewriting.FEW)
@example([*(("fail", n) for n in range(6)), *AGAIN, ("ack", 1), ("commit", 0)], 0)
@given(CHANGES, st.sampled_from((0, rewriting.FEW)))
def test_the_log_says_what_there_is_after_every_commit(changes, few):
    with mock.patch.object(rewriting, "FEW", few):
        check_the_log(changes)


def check_the_log(changes):
    messages, records, number, sequence = FailedMessages(), [], 0, 0
    for what, n in changes:
        if what == "fail":
            messages.add([(sequence, n, f"reason {n % 2}")], float(number), rests=n % 3 > 0)
            sequence += 1
        elif what == "take":
            list(messages.take(float(number) + n / 10, n))
        elif what == "ack":
            messages.acked([n])
        else:
            number += 1
            for data, keep_from in messages.updates(number).values():
                records = [data] if keep_from == number else [*records, data]
            assert seen(FailedMessages.restore({"failed": records})) == seen(messages)


def test_equal_reasons_are_in_a_record_once():
    messages = FailedMessages()
    for sequence in range(50):
        messages.add(
            [(sequence, sequence, "".join(["a long reason ", "x" * 200]))], 0.0, rests=True
        )
    [(data, _)] = messages.updates(1).values()
    assert len(data) < 3000
    assert len(pickle.loads(data)[0]) == 50
