"""Sources whose service has handed out messages to their tasks, with another number of tasks."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen import Kept
from fulmen.connectors.postgres import PostgresQueueSpout
from fulmen.connectors.rabbitmq import RabbitSpout
from fulmen.connectors.redis import RedisListSpout, RedisStreamSpout

NUMBERS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def begun(kind, tasks, **more):
    """Tasks in which one message waits in a block, one by itself, and two are acked already."""
    return [
        Kept(
            {
                "failed": {f"{t}:2": None},
                "acked": {f"{t}:3": None} if kind is not PostgresQueueSpout else [f"{t}:3"],
                "in_blocks": {1: 1},
                **({"name": f"name {t}", "adopted": []} if kind is PostgresQueueSpout else {}),
                **more,
            },
            {1: pickle.dumps(([f"{t}:1", f"{t}:4"], ["one", "four"])), f"{t}:2": "two"},
            [f"{t}:1"],
        )
        for t in range(tasks)
    ]


@pytest.mark.parametrize("kind", [RedisListSpout, RedisStreamSpout, PostgresQueueSpout])
@given(st.integers(1, 6), NUMBERS)
def test_what_waits_is_in_one_task_by_itself(kind, first, numbers):
    kept = begun(kind, first)
    for tasks in numbers:
        kept = kind.redistribute(kept, tasks)
        assert len(kept) == tasks
        state = {key: (i, value) for i, one in enumerate(kept) for key, value in one.state.items()}
        assert len(state) == sum(len(one.state) for one in kept)
        wanted = {f"{t}:{n}": word for t in range(first) for n, word in ((1, "one"), (2, "two"))}
        assert {key: value for key, (_, value) in state.items()} == wanted
        for number, of in ((1, lambda one: one.failed), (2, lambda one: [*one.fields["failed"]])):
            found = {key: i for i, one in enumerate(kept) for key in of(one)}
            assert found == {key: i for key, (i, _) in state.items() if key.endswith(f":{number}")}
        acked = sorted(key for one in kept for key in one.fields["acked"])
        assert acked == [f"{t}:3" for t in range(first)]
        if kind is PostgresQueueSpout:
            names = [one.fields["name"] for one in kept if one.fields["name"]]
            names += [name for one in kept for name in one.fields["adopted"]]
            assert sorted(names) == [f"name {t}" for t in range(first)]


@given(NUMBERS)
def test_elements_of_a_list_are_with_the_task_that_redis_keeps_them_for(numbers):
    kept = begun(RedisListSpout, 6)
    for tasks in numbers:
        kept = RedisListSpout.redistribute(kept, tasks)
    own = {key: i for i, one in enumerate(kept) for key in one.state}
    assert own == {f"{t}:{n}": t if t < tasks else t % tasks for t in range(6) for n in (1, 2)}


@given(NUMBERS)
def test_what_the_broker_may_hand_out_again_is_known_to_all_tasks(numbers):
    kept = [
        Kept({"ended": 3 + t, "sequence": t}, {f"acked {t}": 3 + t, f"again {t}": -1}, [])
        for t in range(3)
    ]
    kept[1].state["failed"] = 0
    kept[1].failed.append("failed")
    for tasks in numbers:
        kept = RabbitSpout.redistribute(kept, tasks)
        for one in kept:
            assert {k: at for k, at in one.state.items() if at > 0} == {
                f"acked {t}": 3 + t for t in range(3)
            }
            assert one.fields == {"ended": 5, "sequence": 2}
            assert one.failed == [key for key, at in one.state.items() if at == 0]
        assert [key for one in kept for key in one.failed] == ["failed"]


@pytest.mark.parametrize("kind", [RedisListSpout, PostgresQueueSpout, RabbitSpout])
def test_fields_of_a_derived_class_need_a_method_of_its_own(kind):
    class Own(kind):
        pass

    with pytest.raises(ValueError, match="Own has the field 'seen' of its own"):
        Own.redistribute([Kept({"seen": 7})], 3)


def test_a_message_that_waits_by_itself_is_as_it_is_there_and_not_as_in_its_block():
    fields = {"failed": {}, "acked": {}, "in_blocks": {1: 2}}
    block = pickle.dumps((["a", "b"], ["as it was", "b"]))
    kept = [Kept(fields, {1: block, "a": "as it is"}, ["a", "b"])]
    [dealt] = RedisStreamSpout.redistribute(kept, 1)
    assert dealt.state == {"a": "as it is", "b": "b"}


@pytest.mark.parametrize("order", [1, -1])
def test_what_one_task_has_acked_is_acked_though_another_was_handed_it_and_failed(order):
    kept = [Kept({}, {"m": 5}, []), Kept({}, {"m": 0}, ["m"])][::order]
    for one in RabbitSpout.redistribute(kept, 2):
        assert one.state == {"m": 5}
