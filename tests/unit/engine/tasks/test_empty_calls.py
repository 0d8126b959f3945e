"""A spout that looks at much and emits little; one that has nothing; one that waits by itself."""

import numpy as np
import pytest

from fulmen.engine.tasks.spouts.empty_calls import MOST_CALLS, MOST_SECONDS, EmptyCalls
from fulmen.engine.tasks.spouts.turn_time import TurnTime
from support.parts.hooks import hooks
from support.runs.engine_runs import make_driver
from support.runs.spout_runs import topology, with_spout


class Turn:
    """A turn with a clock that moves by what each call takes."""

    def __init__(self, seconds=1.0):
        self.now = self.delay = 0.0
        self.empty = EmptyCalls()
        self.time = TurnTime(lambda: self.now, lambda: self.delay)
        self.seconds = seconds

    def calls(self, seconds, returned=None, most=10_000, emitted=0, delay=0.0):
        """How many calls there are, with `most` if they never end.

        Args:
            seconds: What each takes.
            delay: For how long each has no processor besides.
        """
        begun = self.now
        self.time.begin(self.seconds)
        self.empty.begin(self.time)
        for number in range(1, most + 1):
            self.now += seconds + delay
            self.delay += delay
            if not self.empty.go_on(returned, emitted, begun):
                return number
        return most


@pytest.mark.parametrize(
    ("returned", "seconds", "calls"),
    [
        (None, 1e-6, MOST_CALLS),
        (None, 1e-3, 1 + MOST_SECONDS * 1e3),
        (None, 0.1, 2),
        (False, 1e-6, 1),
        (True, 1e-3, 1000),  # until the turn is over
    ],
)
def test_how_often_a_spout_is_asked_that_emits_nothing(returned, seconds, calls):
    assert Turn().calls(seconds, returned) == pytest.approx(calls, abs=1)


@pytest.mark.parametrize("returned", [None, True])
def test_a_spout_is_asked_as_often_where_it_has_a_processor_for_a_fiftieth_of_the_time(returned):
    calls = Turn().calls(1e-4, returned)
    assert Turn().calls(1e-4, returned, delay=49e-4) == pytest.approx(calls, rel=0.05)


def test_a_spout_that_waits_by_itself_does_so_once_in_a_turn():
    turn = Turn()
    assert [turn.calls(0.1) for _ in range(3)] == [2, 1, 1]
    assert turn.calls(1e-6) == MOST_CALLS  # it does not wait any more


def test_each_emit_begins_a_new_row():
    turn = Turn()
    turn.time.begin(1.0)
    turn.empty.begin(turn.time)
    for emitted in range(5 * MOST_CALLS):
        assert turn.empty.go_on(None, emitted, turn.now)


def looking_at(records, *, passing=None):
    """next_tuple of a spout that passes over 49 of 50 records."""

    def next_tuple(spout):
        at = spout.__dict__.setdefault("at", 0)
        if at >= records:
            return False
        spout.at += 1
        if spout.at % 50 == 0:
            spout.collector.emit([spout.at], msg_id=spout.at)
        return passing

    return next_tuple


def test_a_spout_may_pass_over_most_of_what_it_reads():
    """In half as many batches as it emits tuples, however slow the machine is."""
    result = with_spout(next_tuple=looking_at(1000), options={"batches": 10})
    assert result.collected("sink") == [[n] for n in range(50, 1001, 50)]


def test_the_next_batch_comes_at_once_when_a_spout_did_something():
    """It says so for one record in each batch; a spout that does not is asked later and later."""

    def next_tuple(spout):
        spout.at = spout.__dict__.get("at", 0) + 1
        return spout.at % 2 == 1 if says else None

    waits = {}
    for says in (True, None):
        driver = make_driver(topology(conf=hooks(next_tuple=next_tuple))).start()
        for _ in range(30):
            driver.step()
        waits[says] = driver.coordinator.idle_seconds()
        driver.close()
    assert waits[True] < 0.01 < waits[None]


@pytest.mark.parametrize(("returned", "calls"), [(np.True_, 3), (np.False_, 1)])
def test_an_answer_of_numpy_is_one(returned, calls):
    def next_tuple(spout):
        spout.calls = spout.__dict__.get("calls", 0) + 1
        return returned if spout.calls < 3 else False

    result = with_spout(next_tuple=next_tuple, options={"batches": 1})
    assert result.fields("source")["calls"] == calls
    assert result.errors == []


@pytest.mark.parametrize("returned", [1, 0])
def test_what_else_it_returns_is_told(returned):
    result = with_spout(next_tuple=lambda spout: returned, options={"batches": 1})
    text = (
        "it returned an int, which goes nowhere. Emit each tuple with `collector.emit([...])`, and"
        " return nothing, or True or False: whether it did something"
    )
    assert any(text in error.message for error in result.errors)
