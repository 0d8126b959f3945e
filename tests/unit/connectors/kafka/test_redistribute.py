"""Partitions of a topic are dealt anew when the number of tasks changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import Kept
from fulmen.connectors.kafka.spout import KafkaSpout

PLACES = st.dictionaries(st.integers(0, 20), st.integers(0, 1000))


def kept(positions, tasks, topic="t"):
    """So many tasks. Of odd partitions a message waits, of even ones a message rests."""
    return KafkaSpout.redistribute(
        [
            Kept(
                {"positions": dict(positions), "topic_id": topic},
                {(p, at): True for p, at in positions.items() if p % 2},
                [(p, at) for p, at in positions.items() if not p % 2],
            )
        ],
        tasks,
    )


@given(PLACES, st.integers(1, 7), st.integers(1, 7))
def test_each_partition_is_with_the_task_that_reads_it(positions, before, then):
    dealt = KafkaSpout.redistribute(kept(positions, before), then)
    assert dealt == kept(positions, then)
    for task, one in enumerate(dealt):
        mine = {p: at for p, at in positions.items() if p % then == task}
        assert one.fields == {"positions": mine, "topic_id": "t"}
        assert one.state.keys() == {(p, at) for p, at in mine.items() if p % 2}
        assert one.failed == sorted((p, at) for p, at in mine.items() if not p % 2)


def test_a_topic_that_was_made_again_waits_until_all_have_noticed():
    tasks = [*kept({0: 5}, 1, "old"), *kept({1: 5}, 1, "new")]
    with pytest.raises(ValueError, match="not all tasks have noticed"):
        KafkaSpout.redistribute(tasks, 3)


def test_fields_of_a_derived_class_are_not_lost():
    class Own(KafkaSpout):
        pass

    tasks = [Kept({"positions": {}, "topic_id": "t", "seen": 7})]
    with pytest.raises(ValueError, match="has the field 'seen' of its own"):
        Own.redistribute(tasks, 2)
