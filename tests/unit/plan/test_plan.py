"""What a plan answers."""

import json
import pickle

import pytest

from fulmen.plan import Executor, Plan, make_plan
from support.cli.topologies import blue_green_yellow


@pytest.fixture
def plan():
    return make_plan(blue_green_yellow(), pinned=["blue"])


def test_tasks(plan):
    assert plan.tasks("__acker") == range(1, 3)
    assert plan.tasks("green") == range(5, 9)
    assert list(plan.component_tasks) == ["__acker", "blue", "green", "yellow"]
    assert plan.task_count == 14
    with pytest.raises(KeyError):
        plan.tasks("red")


def test_components(plan):
    assert [plan.component_of(task) for task in (1, 3, 4, 5, 8, 9, 14)] == [
        "__acker", "blue", "blue", "green", "green", "yellow", "yellow"
    ]  # fmt: skip


def test_workers(plan):
    assert plan.task_workers == (-1, 0, 1, -1, -1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1)
    assert [plan.worker_of(task) for task in (2, 3, 6)] == [1, -1, 0]
    assert plan.workers_of("yellow") == {0, 1}
    assert plan.executors_on(7) == ()


def test_stages(plan):
    assert [plan.stage_of(name) for name in ("blue", "green", "yellow", "__acker")] == [-1, 0, 1, 2]
    with pytest.raises(KeyError):
        plan.stage_of("red")


def test_keys_of_the_checkpoint(plan):
    assert [plan.key_of(task) for task in (1, 2, 5, 8)] == [
        "__acker/0", "__acker/1", "green/0", "green/3"
    ]  # fmt: skip


def test_json_and_back(plan):
    content = json.loads(json.dumps(plan.to_json()))
    assert content["workers"] == 2
    assert content["executors"][2] == {"component": "blue", "first": 3, "last": 3, "worker": -1}
    assert content["stages"] == [["green"], ["yellow"], ["__acker"]]
    assert Plan.from_json(content) == plan


def test_pickling(plan):
    copy = pickle.loads(pickle.dumps(plan))
    assert (copy, copy.task_workers) == (plan, plan.task_workers)
    assert hash(copy) == hash(plan)


def test_executors_are_ordered_by_component_and_task():
    assert sorted([Executor("b", 1, 1), Executor("a", 3, 4), Executor("a", 2, 2)]) == [
        Executor("a", 2, 2), Executor("a", 3, 4), Executor("b", 1, 1)
    ]  # fmt: skip
