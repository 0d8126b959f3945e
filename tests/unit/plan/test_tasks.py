"""Task ids and executors, as Storm makes them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.plan.model import Executor
from fulmen.plan.tasks import divide, executors_of, integer_divided, number_tasks
from support.cli.topologies import topology


@pytest.mark.parametrize(
    ("total", "pieces", "sizes"),
    [
        (5, 3, {1: 1, 2: 2}),
        (2, 8, {0: 6, 1: 2}),
        (10, 4, {2: 2, 3: 2}),
        (12, 8, {1: 4, 2: 4}),
        (6, 3, {2: 3}),
    ],
)
def test_tasks_are_divided_among_executors_in_whole_numbers(total, pieces, sizes):
    assert integer_divided(total, pieces) == sizes


@pytest.mark.parametrize(
    ("tasks", "executors", "sizes"),
    [
        (5, 3, [2, 2, 1]),
        (2, 8, [1, 1]),
        (12, 8, [2, 2, 2, 2, 1, 1, 1, 1]),
        (128, 3, [43, 43, 42]),
        (0, 0, []),
    ],
)
def test_executors_of_a_component(tasks, executors, sizes):
    divided = divide("a", range(7, 7 + tasks), executors)
    assert [len(executor.tasks) for executor in divided] == sizes
    assert [task for executor in divided for task in executor.tasks] == [*range(7, 7 + tasks)]


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.integers(0, 200), st.integers(1, 50))
def test_executors_are_as_even_as_can_be(tasks, executors):
    sizes = [len(executor.tasks) for executor in divide("a", range(1, tasks + 1), executors)]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == tasks
    assert len(sizes) == min(tasks, executors)
    assert not sizes or sizes[0] - sizes[-1] <= 1


def test_ids_follow_the_names():
    assert number_tasks({"b": 2, "__acker": 1, "Z": 3, "a": 1}) == {
        "Z": range(1, 4),
        "__acker": range(4, 5),
        "a": range(5, 6),
        "b": range(6, 8),
    }


def test_ackers_have_tasks_like_any_component():
    made = executors_of(topology({"a": 1}, {"b": (1, {"a": "shuffle"})}, workers=2))
    assert made == [
        Executor("__acker", 1, 1),
        Executor("__acker", 2, 2),
        Executor("a", 3, 3),
        Executor("b", 4, 4),
    ]


def test_without_acking_there_are_no_ackers():
    assert executors_of(topology({"a": 1}, {}, ackers=0)) == [Executor("a", 1, 1)]
