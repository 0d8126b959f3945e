"""Which tasks hold the spouts after a batch, and what that means for the end of a topology."""

from types import SimpleNamespace

import pytest

from fulmen.engine.batches.summaries import holds_after
from fulmen.engine.protocol.summary import Summary
from support.runs.coordinators import Checked

PLAN = SimpleNamespace(
    stages=(("source",), ("a", "b"), ("c",)),
    component_of=lambda task: "abc"[task // 10],
    worker_of=lambda task: task % 10,
)
"""Task 12 is one of `b` on worker 2."""


@pytest.mark.parametrize(
    ("before", "summaries", "after"),
    [
        pytest.param({}, [Summary(1, 0, holds={0: "full"})], {0: "full"}, id="begins"),
        pytest.param({0: "full"}, [Summary(1, 0)], {}, id="released"),
        pytest.param({0: "old"}, [Summary(1, 0, holds={0: "new"})], {0: "new"}, id="other-reason"),
        pytest.param({0: "full"}, [Summary(1, 1), Summary(2, 0)], {0: "full"}, id="others-ran"),
        pytest.param({0: "full"}, [Summary(0, 0)], {0: "full"}, id="its-stage-was-skipped"),
        pytest.param(
            {1: "full", 11: "full", 21: "full"},
            [Summary(1, 1, holds={11: "full"}), Summary(0, 1)],
            {11: "full", 21: "full"},
            id="one-of-two-in-a-stage",
        ),
    ],
)
def test_what_a_part_of_a_batch_does_not_say_any_more_is_over(before, summaries, after):
    assert holds_after(before, summaries, PLAN) == after


def exhausted_with(holds):
    """A coordinator whose spouts have nothing more, after a batch with these holds."""
    checked = Checked()
    tasks = checked.it.placed.task_of_origin.values()
    for _ in range(25):
        checked.begin()
        checked.succeed(exhausted=dict.fromkeys(tasks, True), holds=holds)
    return checked.it


def test_a_topology_whose_spouts_are_exhausted_goes_on_while_a_bolt_holds_them():
    held = next(iter(Checked().it.placed.plan.tasks("count")))
    assert exhausted_with({}).has_nothing_more
    coordinator = exhausted_with({held: "full"})
    assert not coordinator.has_nothing_more
    assert coordinator.settled
