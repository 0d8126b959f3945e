"""Which calls of bolts that are for no tuple batches leave out, and when they are tried again."""

import pytest

from fulmen.engine.batches.failures.blame import VoidAttempt
from fulmen.engine.batches.failures.crashes import Crashes
from fulmen.engine.batches.failures.own_calls import OwnCalls
from fulmen.engine.batches.failures.suspects import PAUSE_SECONDS
from fulmen.engine.protocol.callbacks.call_names import name_of
from fulmen.engine.protocol.callbacks.calls import Call
from fulmen.engine.protocol.summary import Summary
from support.runs.coordinators import Checked

TASK = 3
DIES = "ends its process"


@pytest.fixture
def calls():
    return OwnCalls()


def left_out(calls, now=0.0):
    return calls.without(now).get(TASK, {})


def test_of_timers_it_is_first_looked_for_the_one_and_that_is_left_out_at_its_second_death(calls):
    name = name_of("on_timer", "k7")
    calls.blame(TASK, "on_timer", 0.0)
    assert (calls.one_by_one, left_out(calls)) == ((TASK,), {})
    for expected in ({}, {name: f"on_timer {DIES}"}):
        calls.blame(TASK, name, 0.0)
        assert left_out(calls) == expected
    calls.succeeded([])  # it is over
    assert left_out(calls, 1e9) == {}
    assert calls.one_by_one == (TASK,)


def test_another_window_of_a_key_whose_windows_are_deadly_is_left_out_at_its_first_death(calls):
    first, second, of_another = (name_of("window", key, end) for key, end in ("a1", "a2", "b2"))
    for name in (first, first, second, of_another):
        calls.blame(TASK, name, 0.0)
    assert set(left_out(calls)) == {first, second}


@pytest.mark.parametrize("hung_seconds", [0.0, 1.0])
def test_what_comes_in_each_batch_is_left_out_for_a_pause_that_doubles_until_it_has_ended(
    calls, hung_seconds
):
    if not hung_seconds:
        calls.blame(TASK, "tick", 100.0)
        assert left_out(calls, 100.0) == {}
    for pause in (PAUSE_SECONDS, 2 * PAUSE_SECONDS):
        calls.blame(TASK, "tick", 100.0, hung_seconds)
        assert left_out(calls, 100.0 + 0.9 * pause)
        assert left_out(calls, 100.0 + pause) == {}
        calls.succeeded([Summary(0, 0, own_calls={TASK: ["end_batch"]})])  # no tick was due
        assert [one.callback for one in calls.paused] == ["tick"]
    calls.succeeded([Summary(0, 0, own_calls={TASK: ["tick"]})])
    assert (calls.paused, calls.one_by_one) == ([], ())


def test_names_of_calls_are_the_same_in_each_process_and_fit_into_where_they_are_noted():
    class Key:
        """Is shown with its place in memory."""

    assert name_of("on_timer", Key()) == name_of("on_timer", Key())
    assert name_of("window", ("a", 1), 2) != name_of("window", ("a", 1), 3)
    assert name_of("window", ("a", 1), 2) != name_of("window", ("a", "1"), 2)
    assert len(name_of("on_timer", "x" * 1000, 10**15)) < 52


@pytest.mark.parametrize("name", ["tick", "end_batch", "on_timer", "window", "drain", "committed"])
def test_a_call_that_is_for_no_tuple_is_no_evidence_against_one(name):
    coordinator = Checked()
    [task] = coordinator.it.placed.plan.tasks("count")
    for _ in range(10):
        coordinator.begin()
        coordinator.it.failed(VoidAttempt("killed", calls=[Call(task, name, 1.0)]), coordinator.now)
        coordinator.failed_before = None
        coordinator.it._is_retry = False
    assert coordinator.it.blame.crashes == Crashes()
    header = coordinator.it.begin(coordinator.now)
    assert header.default_permit > 0
    assert header.one_by_one == (task,)
    assert (task in header.without) == (name not in ("on_timer", "window"))
