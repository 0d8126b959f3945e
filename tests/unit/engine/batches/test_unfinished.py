"""What tasks still have, as they said last."""

import pytest

from fulmen.engine.batches.ends.unfinished import Unfinished
from fulmen.engine.protocol.summary import Resting, Summary
from support.runs.coordinators import told


@pytest.fixture
def unfinished():
    return Unfinished()


@pytest.mark.parametrize("has", ["spout_pending", "result_pending"])
def test_what_has_failed_rests_until_its_task_says_what_it_has_without_it(unfinished, has):
    resting = Resting(messages=1, due=5.0, failures=1, reason="no")
    said = told(**{has: {1: 3, 2: 4}}, resting={1: resting})
    unfinished.committed("run", [Summary(0, 0, **said)])
    assert unfinished.rests(lambda _: True) == [5.0]
    assert unfinished.rests(lambda task: task != 1) == []
    unfinished.committed("run", [Summary(1, 0, **told(**{has: {2: 0}}))])  # of task 1 nothing
    assert unfinished.rests(lambda _: True) == [5.0]
    unfinished.committed("run", [Summary(0, 0, **told(**{has: {1: 3}}))])
    assert unfinished.rests(lambda _: True) == []
    assert unfinished.messages(()) == 3
    assert unfinished.messages((1,)) == 0


@pytest.mark.parametrize(
    ("said", "is_exhausted", "is_awaited"),
    [
        pytest.param({}, False, False, id="first-turn-has-not-ended"),
        pytest.param({1: None, 2: None}, False, False, id="never-say"),
        pytest.param({1: True, 2: None}, False, False, id="one-never-says"),
        pytest.param({1: True, 2: False}, False, True, id="one-has-more"),
        pytest.param({1: True}, False, False, id="one-has-not-said"),
        pytest.param({1: True, 2: True}, True, False, id="both"),
    ],
)
def test_spouts_are_exhausted_when_all_have_said_so(unfinished, said, is_exhausted, is_awaited):
    unfinished.committed("run", [Summary(0, 0, exhausted=said)])
    assert unfinished.are_exhausted([1, 2]) is is_exhausted
    assert unfinished.awaits_end_of([1, 2]) is is_awaited
    assert not unfinished.awaits_end_of([1])


def test_a_part_that_ran_twice_wants_a_batch_if_it_said_so_once(unfinished):
    unfinished.committed("run", [Summary(0, 0, wants_batch=True), Summary(0, 0)])
    assert unfinished.wants_batch("run")
    unfinished.committed("run", [Summary(1, 0)])
    assert unfinished.wants_batch("run")
    unfinished.committed("run", [Summary(0, 0)])
    assert not unfinished.wants_batch("run")
