"""Emits whose tasks are known already, behind the steps of an input."""

from fulmen.engine.emitting.input_steps import InputSteps
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.expressions.steps import Steps


def test_tasks_that_are_known_are_those_of_the_rows_that_emits_have_become():
    steps = InputSteps(Steps(("n",), "n > 1", (("m", "10 // n"),)))
    taken = steps.take(TupleRows([[1], [2], [0], [5]]))
    assert [*taken.rows] == [(5,), (2,)]
    assert taken.at.tolist() == [1, 3]
    assert taken.chosen({0: "a", 1: "b", 3: "d"}) == {0: "b", 1: "d"}


def test_tasks_that_are_known_are_those_of_each_row_that_an_emit_has_become():
    steps = InputSteps(Steps(("l",), None, (("m", "unnest(l)"),)))
    taken = steps.take(TupleRows([[[1, 2]], [[]], [[3]]]))
    assert [*taken.rows] == [(1,), (2,), (3,)]
    assert taken.at.tolist() == [0, 0, 2]
    assert taken.chosen({0: "a", 1: "b"}) == {0: "a", 1: "a"}
