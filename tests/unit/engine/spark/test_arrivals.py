"""How long workers that start are waited for, and when those that fail may come again."""

from itertools import pairwise

import pytest

from fulmen.engine.spark.arrivals import Arrivals, Replacements


@pytest.fixture
def three():
    """Three workers, each of which may take a minute after the one before it."""
    return Arrivals(wanted=3, count=3, seconds=60, now=1000)


def test_time_begins_anew_with_each_worker(three):
    three.see(0, 1000)
    assert not three.is_late(1060)
    three.see(1, 1059)
    assert not three.is_late(1110)
    three.see(2, 1118)
    assert not three.is_late(1178)
    assert three.is_late(1179)
    assert three.failure("spark.log") == (
        "2 of 3 workers started within 60 seconds. The reason may be in 'spark.log'. On a busy "
        "machine, raise spec.startTimeoutSeconds."
    )


def test_a_worker_that_is_lost_gives_no_more_time(three):
    three.see(2, 1030)
    three.see(1, 1050)
    assert three.is_late(1091)


def test_enough_workers_are_never_late(three):
    three.see(3, 1059)
    assert three.is_over
    assert not three.is_late(5000)


def test_now_and_then_a_line_says_what_is_waited_for(three):
    lines = [three.see(0, 1000 + second) for second in range(25)]
    assert [line for line in lines if line] == [
        "waiting for workers: 0 of 3 are there after 10 s, and up to 60 s are allowed for the next",
        "waiting for workers: 0 of 3 are there after 20 s, and up to 60 s are allowed for the next",
    ]
    assert three.see(3, 1100) is None


def test_some_workers_may_be_enough():
    arrivals = Arrivals(wanted=1, count=3, seconds=60, now=0)
    arrivals.see(1, 5)
    assert arrivals.is_over


def pauses(failing, seconds=1400):
    """After how many seconds each pod is begun, of a topology of one, which needs two seconds.

    Args:
        failing: The number of the pod that stays, once it is there.
        seconds: For how long to look.
    """
    replacements, begun, failed, ends = Replacements(), [], 0, None
    for now in range(seconds):
        if ends == now:
            failed, ends = failed + 1, None
        there = ["stays"] if ends is None and len(begun) == failing else []
        if replacements.may_come(failed, there, 1 - len(there), now) and not there and ends is None:
            begun.append(now)
            ends = now + 2 if len(begun) < failing else None
    return [after - before for before, after in pairwise(begun)]


def test_pods_that_fail_in_a_row_come_later_and_later():
    assert pauses(failing=1000) == [2, 7, 12, 22, 42, 82, 162, 302, 302, 302]


def test_the_loss_of_those_that_were_there_costs_no_pause_however_many_they_are():
    replacements, pods = Replacements(), [str(number) for number in range(9)]
    for lost in range(1, 9):  # of a node that goes, one after another
        assert replacements.may_come(lost, pods[lost:], lost, 100 + lost)
    assert replacements.pause == 0
    for newest in range(10, 20):  # each comes, and is ended by its first batch
        assert replacements.may_come(newest - 2, [str(newest)], 0, 1000 + 10 * newest)
        assert replacements.may_come(newest - 1, [], 1, 1006 + 10 * newest)


def test_one_that_comes_ends_the_row():
    replacements = Replacements()
    for failed in (1, 2, 3):
        replacements.may_come(failed, [], 1, 1000)
    assert (replacements.in_a_row, replacements.pause) == (3, 10)
    assert not replacements.may_come(3, [], 1, 1009)
    assert replacements.may_come(3, ["7"], 0, 1010)
    assert replacements.in_a_row == 0
