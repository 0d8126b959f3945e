"""How far a topology's time has come."""

import pytest

from fulmen.engine.batches.batch_clock import BatchClock


@pytest.fixture
def clock():
    made = BatchClock(100.0, now=5.0)
    made.begin(8.0, is_retry=False, stands=False)
    return made


def test_time_passes_between_batches_that_count(clock):
    assert (clock.before, clock.seconds) == (100.0, 103.0)


def test_a_batch_that_is_tried_again_has_the_same_time(clock):
    clock.begin(60.0, is_retry=True, stands=False)
    assert (clock.before, clock.seconds) == (100.0, 103.0)


@pytest.mark.parametrize("is_retry", [False, True])
def test_nothing_becomes_due_by_a_batch_in_which_time_stands(clock, is_retry):
    clock.begin(60.0, is_retry=is_retry, stands=True)
    assert (clock.before, clock.seconds) == (103.0, 103.0)


@pytest.mark.parametrize(("seconds", "now"), [(4.0, 106.0), (0.9, 110.0)])
def test_only_seconds_in_which_it_stood_still_are_left_out(clock, seconds, now):
    clock.stand_still(seconds)
    clock.begin(15.0, is_retry=False, stands=False)
    assert clock.seconds == now
