"""Which spout tasks batches leave out, and when they are tried again."""

import pytest

from fulmen.engine.batches.failures.suspects import (
    LONGEST_PAUSE_SECONDS,
    PAUSE_SECONDS,
    Suspects,
)


def out(left_out, now):
    return left_out.paused(now)


def test_a_task_whose_call_ended_its_process_once_is_not_left_out():
    left_out = Suspects()
    left_out.blame(3, "next_tuple", 100.0)
    assert out(left_out, 100.0) == ()
    assert 3 not in left_out
    assert not left_out


def test_it_is_left_out_when_that_happens_twice_in_a_row_and_tried_again_later():
    left_out = Suspects()
    for _ in range(2):
        left_out.blame(3, "next_tuple", 100.0)
    assert 3 in left_out
    assert out(left_out, 100.0) == (3,)
    assert out(left_out, 100.0 + PAUSE_SECONDS) == ()
    assert left_out.tasks == (3,)


def test_a_batch_with_the_task_that_counts_clears_it():
    left_out = Suspects()
    left_out.blame(3, "next_tuple", 100.0)
    left_out.succeeded(())
    left_out.blame(3, "next_tuple", 101.0)
    assert 3 not in left_out


def test_a_batch_without_the_task_clears_others_only():
    left_out = Suspects()
    for task in (3, 3, 4):
        left_out.blame(task, "next_tuple", 100.0)
    left_out.succeeded((3,))
    left_out.blame(4, "next_tuple", 101.0)
    assert [suspect.task for suspect in left_out] == [3]


def test_pauses_double_up_to_the_longest():
    left_out, now, pauses = Suspects(), 0.0, []
    left_out.blame(3, "ack", now)
    for _ in range(12):
        suspect = left_out.blame(3, "ack", now)
        pauses.append(suspect.again - now)
        now = suspect.again
    assert pauses[:3] == [PAUSE_SECONDS, 2 * PAUSE_SECONDS, 4 * PAUSE_SECONDS]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS


def test_a_task_that_hangs_is_left_out_at_once_for_as_long_as_it_has_cost():
    left_out = Suspects()
    suspect = left_out.blame(3, "open", 100.0, 300.0)
    assert suspect.again == 400.0
    assert suspect.is_certain


@pytest.mark.parametrize(("deaths", "certain"), [(1, False), (2, False), (3, True)])
def test_three_deaths_in_a_row_are_nobody_elses_fault(deaths, certain):
    left_out = Suspects()
    for _ in range(deaths):
        suspect = left_out.blame(3, "next_tuple", 100.0)
    assert suspect.is_certain is certain


def test_what_is_proven_takes_one_failure():
    suspect = Suspects().prove(3, 100.0)
    assert suspect.is_out
    assert suspect.is_certain


def test_the_last_call_of_a_task_is_the_one_that_is_named():
    left_out, unmade = Suspects(), Suspects()
    for callback, hung_seconds in (("prepare", 0.0), ("restoring self.state", 1.0)):
        suspect = left_out.blame(3, callback, 100.0, hung_seconds)
        unmade.blame(3, callback, 100.0, hung_seconds)
    for last in (suspect, unmade.certain):
        assert (last.callback, last.hangs, last.failures) == ("restoring self.state", True, 2)
