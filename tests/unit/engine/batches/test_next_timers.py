"""Which timers of bolts are due in the next batch."""

import pytest

from fulmen.engine.batches.pace.next_timers import RARE, NextTimers
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary


class Plan:
    """With a task of each of two bolts."""

    def component_of(self, task):
        return {1: "a", 2: "b"}[task]


@pytest.fixture
def timers():
    return NextTimers()


def is_due(timers, clock=50.0, **watermarks):
    marks = {name: (at, None) for name, at in watermarks.items()}
    return timers.is_due(Header(1, "t", "b", clock, clock, 1, watermarks=marks), Plan())


def say(timers, run="run", stage=1, **pending):
    of_tasks = {{"a": 1, "b": 2}[name]: one for name, one in pending.items()}
    timers.committed(run, [Summary(stage, 0, timers=of_tasks)])


@pytest.mark.parametrize(
    ("pending", "watermark", "due"),
    [
        pytest.param(PendingTimers(None, None), 100, False, id="none"),
        pytest.param(PendingTimers(10, None), None, False, id="no-watermark-yet"),
        pytest.param(PendingTimers(10, None), 9, False, id="event-time-not-yet"),
        pytest.param(PendingTimers(10, None), 10, True, id="event-time"),
        pytest.param(PendingTimers(10, 60.0), 9, False, id="neither"),
        pytest.param(PendingTimers(None, 50.1), 100, False, id="clock-not-yet"),
        pytest.param(PendingTimers(None, 50.0), None, True, id="clock"),
        pytest.param(PendingTimers(10, 60.0), 10, True, id="event-time-before-clock"),
    ],
)
def test_a_timer_is_due_when_its_time_has_come(timers, pending, watermark, due):
    assert not is_due(timers, a=100)
    say(timers, a=pending)
    assert is_due(timers, a=watermark, b=100) is due


def test_one_of_several_tasks_is_enough(timers):
    say(timers, a=PendingTimers(None, None), b=PendingTimers(10, None))
    assert not is_due(timers, a=10)
    assert is_due(timers, b=10)


def test_a_stage_that_was_left_out_keeps_its_timers_until_its_tasks_are_made_anew(timers):
    say(timers, a=PendingTimers(10, None))
    say(timers, stage=2, b=PendingTimers(20, None))
    assert is_due(timers, a=10)
    say(timers, a=PendingTimers(None, None))
    assert not is_due(timers, a=10)
    assert is_due(timers, b=20)
    say(timers, run="other")
    assert not is_due(timers, b=20)
    say(timers, run="other", stage=2, b=PendingTimers(20, None))
    say(timers, run="other")
    assert is_due(timers, b=20)


def rarely_due(timers, batches, at):
    """Of so many batches with this watermark, in which a timer for 10 is rarely due."""
    return [timers.is_rarely_due({"a": (at, None)}, Plan()) for _ in range(batches)]


@pytest.mark.parametrize(
    ("between", "is_rare"), [(0, False), (RARE - 1, False), (RARE, True), (3 * RARE, True)]
)
def test_a_timer_is_rarely_due_if_none_of_its_task_was_for_some_batches(timers, between, is_rare):
    say(timers, a=PendingTimers(10, None))
    assert rarely_due(timers, 3, 9) == [False, False, False]
    assert rarely_due(timers, 2, 10) == [True, False]
    assert rarely_due(timers, between, 9) == [False] * between
    assert rarely_due(timers, 1, 10) == [is_rare]


@pytest.mark.parametrize(
    ("pending", "watermarks"),
    [
        (PendingTimers(None, 1.0), {"a": (10, None)}),
        (PendingTimers(10, None), {}),
        (PendingTimers(10, None), {"b": (10, None)}),
    ],
)
def test_only_a_timer_of_event_time_is_rarely_due_and_by_the_watermark_of_its_bolt(
    timers, pending, watermarks
):
    say(timers, a=pending)
    assert not timers.is_rarely_due(watermarks, Plan())


def test_one_task_whose_timer_is_rarely_due_is_enough(timers):
    say(timers, a=PendingTimers(10, None), b=PendingTimers(20, None))
    assert timers.is_rarely_due({"a": (10, None), "b": (10, None)}, Plan())
    assert timers.is_rarely_due({"a": (10, None), "b": (20, None)}, Plan())
    assert not timers.is_rarely_due({"a": (10, None), "b": (20, None)}, Plan())


def test_timers_of_the_batch_clock_are_so_far_away(timers):
    say(timers, a=PendingTimers(10, 52.5), b=PendingTimers(10, None))
    say(timers, stage=2, b=PendingTimers(None, 40.0))
    assert list(timers.seconds_until(50.0, {})) == [2.5, 0.0]
