"""Calls that last are told through the checkpoint's store, and taken back when they have ended."""

import time

import pytest

from fulmen.engine.protocol.callbacks.calls import Calls
from fulmen.engine.protocol.callbacks.told_calls import FOLDER, LOOK_SECONDS, CallTeller, ToldCalls
from support.runs.engine_runs import new_store


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Told:
    """A worker and a driver with one store; the worker looks when it is asked to."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(CallTeller, "_look", lambda _: None)
        self.store, self.calls, self.clock = new_store(), Calls(), Clock()
        self.teller = CallTeller(self.calls)
        self.teller.serve("run-1", self.store, hang_seconds=0)
        self.driver = ToldCalls(self.store, "run-1", self.clock)

    def read(self):
        self.teller.look()
        self.clock.now += LOOK_SECONDS
        return [(call.task, call.callback) for call in self.driver.read()]


@pytest.fixture
def told(monkeypatch):
    return Told(monkeypatch)


def test_a_call_is_told_as_long_as_it_lasts_and_leaves_nothing(told):
    before = told.calls.begin(3, "making the instance")
    assert told.read() == [(3, "making the instance")]
    assert told.read() == [(3, "making the instance")]
    assert len(told.store.list(FOLDER)) == 1
    told.calls.end(before)
    assert told.read() == []
    assert told.store.list(FOLDER) == []


def test_a_call_gets_older_between_two_looks_at_the_store(told):
    told.calls.begin(3, "open")
    told.read()
    (call,) = told.driver.read()
    told.clock.now += 2.0
    (later,) = told.driver.read()
    assert later.seconds == pytest.approx(call.seconds + 2.0)


def test_what_a_worker_left_that_died_is_deleted_after_the_job(told):
    told.calls.begin(3, "open")
    assert told.read() == [(3, "open")]
    told.driver.forget()
    assert told.store.list(FOLDER) == []


def test_calls_that_are_short_and_those_of_another_run_are_not_told(told):
    told.calls.begin(3, "open")
    told.teller.serve("run-2", told.store, hang_seconds=0)
    assert told.read() == []
    told.teller.serve("run-1", told.store, hang_seconds=100)
    assert told.read() == []
    assert told.store.list(FOLDER) == []


def test_a_process_tells_by_itself():
    calls, store = Calls(), new_store()
    teller, driver = CallTeller(calls), ToldCalls(store, "run", Clock())
    calls.begin(4, "next_tuple")
    teller.serve("run", store, hang_seconds=0.01)
    deadline = time.monotonic() + 30
    while not store.list(FOLDER) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [call.callback for call in driver.read()] == ["next_tuple"]
    calls.end()  # the thread goes on, with nothing to tell
