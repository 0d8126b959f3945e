"""What a finished or failed batch means for the next one, case by case."""

import numpy as np
import pytest

from fulmen.engine.batches.coordinator import FIRST_PERMIT, merged
from fulmen.engine.protocol.deliveries import Deliveries
from support.coordinators import Checked, placed, ranges


@pytest.fixture
def coordinator():
    return Checked()


@pytest.mark.parametrize(("stood_still", "passes"), [(1.0, 9.0), (0.99, 10.0)])
def test_the_clock_stands_still_for_a_second_or_more(coordinator, stood_still, passes):
    before = coordinator.begin().clock
    coordinator.succeed(seconds=0.0)
    coordinator.it.stand_still(stood_still)
    assert coordinator.it.begin(coordinator.now + 10).clock == pytest.approx(before + passes)


def test_what_a_pinned_spout_was_not_told_is_told_first_next_time(coordinator):
    coordinator.begin()
    owed = {
        1: Deliveries(ranges((0, 2)), ((9, "old"),)),
        2: Deliveries(ranges((5, 6))),
    }
    summary = coordinator.summary(acked={1: ranges((4, 5))})
    found = coordinator.it.finish([summary], 0.1, owed).deliveries
    assert found.keys() == {1, 2}
    assert found[1].acked.tolist() == [[0, 2], [4, 5]]
    assert found[1].failed == ((9, "old"),)
    assert found[2] is owed[2]


def test_trees_that_only_failed_leave_no_range_of_acks(coordinator):
    coordinator.begin()
    coordinator.succeed(failed=[(1, 3, "no")])
    acked = coordinator.it.deliveries[1].acked
    assert (acked.shape, acked.dtype) == ((0, 2), np.int64)


def test_a_batch_in_which_a_tree_ended_is_not_idle(coordinator):
    coordinator.begin()
    assert not coordinator.succeed(acked={1: ranges((0, 1))}).idle


@pytest.mark.parametrize(("tasks", "limit"), [(1, 30), (2, 31)])
def test_twice_what_batches_emit_is_what_a_failed_one_is_halved_from(tasks, limit):
    coordinator = Checked(placed(tasks))
    coordinator.begin()
    coordinator.succeed(emitted=30)
    for _ in range(2):
        coordinator.begin()
        coordinator.fail()
    assert coordinator.it.crashes.limit == limit


def test_no_batch_is_halved_from_more_than_spouts_may_emit(coordinator):
    for _ in range(2):
        coordinator.begin()
        coordinator.succeed(emitted=10_000, work=coordinator.it.target_seconds)
    coordinator.it.permit = FIRST_PERMIT
    for _ in range(2):
        coordinator.begin()
        coordinator.fail()
    assert coordinator.it.crashes.limit == FIRST_PERMIT  # of two tasks


def test_a_failure_without_more_about_it_may_be_a_tuples_fault(coordinator):
    coordinator.begin()
    coordinator.it.failed(coordinator.now)
    assert (coordinator.it.crashes.failures, coordinator.it.crashes.cause) == (1, "")


def test_a_slow_batch_of_few_and_light_tuples_keeps_its_permit(coordinator):
    coordinator.begin()
    coordinator.succeed(emitted=3, work=5.0, moved_bytes=100, cpu_seconds=5.0)
    assert coordinator.it.permit == FIRST_PERMIT


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([(1, 3)], [(1, 3)]),
        ([(3, 4), (1, 3)], [(1, 4)]),
        ([(5, 6), (1, 3)], [(1, 3), (5, 6)]),
    ],
)
def test_few_ranges_are_merged_as_well(pairs, expected):
    assert [tuple(pair) for pair in merged(ranges(*pairs)).tolist()] == expected
