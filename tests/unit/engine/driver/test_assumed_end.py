"""That nothing comes is taken for the end of spouts that don't say theirs: when, and of which."""

import pytest

from fulmen import Spout, TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.testing import CollectBolt, ListSpout, ManualClock
from support.runs.engine_runs import Steady, make_driver, new_store

PAUSE = 60.0


class Queue(Spout):
    """Emits a row at once, and one after a pause; it never knows whether there will be more."""

    outputs = ("row",)
    clock = ManualClock()

    def __init__(self):
        self.emitted = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.emitted > min(1, self.clock() // PAUSE):
            return False
        self.collector.emit([self.emitted], msg_id=self.emitted)
        self.emitted += 1
        return True


def drained(spouts, more_seconds=0.0):
    """The driver of a topology that was run until it was drained."""
    Queue.clock, store = ManualClock(), new_store()
    builder = TopologyBuilder("queues")
    collects = builder.set_bolt("rows", CollectBolt())
    for name, spout in spouts.items():
        builder.set_spout(name, spout)
        collects.shuffle_grouping(name)
    jobs = Steady(Queue.clock, store=store)
    driver = make_driver(builder, clock=Queue.clock, store=store, jobs=jobs).start()
    driver.run(Stop(when_drained=True, more_seconds=more_seconds))
    driver.close()
    return driver


def test_some_seconds_in_which_nothing_comes_are_taken_for_the_end_and_said():
    driver = drained({"queue": Queue, "numbers": ListSpout([1, 2])})
    assert driver.totals.trees.acked == 3
    assert driver.end.assumed.spouts == ["queue"]
    assert 2 < driver.end.assumed.seconds < 10


def test_what_comes_after_a_pause_is_read_if_it_is_waited_for_longer():
    driver = drained({"queue": Queue}, more_seconds=PAUSE + 5)
    assert driver.totals.trees.acked == 2
    assert driver.end.assumed.seconds >= PAUSE + 5


def test_spouts_that_say_their_end_are_not_waited_for():
    driver = drained({"numbers": ListSpout([1, 2])}, more_seconds=PAUSE)
    assert driver.totals.trees.acked == 2
    assert driver.end.assumed is None
    assert driver.clocks.steady() < PAUSE


@pytest.mark.parametrize("more_seconds", [0.0, 30.0])
def test_a_run_ends_when_nothing_came_for_so_long(more_seconds):
    driver = drained({"queue": Queue}, more_seconds)
    assert driver.totals.trees.acked == 1
    assert more_seconds <= driver.clocks.steady() < PAUSE
