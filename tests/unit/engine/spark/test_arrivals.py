"""How long workers that start are waited for."""

import pytest

from fulmen.engine.spark.arrivals import Arrivals


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
