"""What a driver's start does to time."""

from fulmen import Bolt, TopologyBuilder
from fulmen.testing import ListSpout, ManualClock
from support.engine_runs import Steady, make_driver, new_store


class Keep(Bolt):
    """Acks nothing."""

    def execute(self, tup):
        pass


class SlowToStart(Steady):
    def start(self, setup):
        workers = super().start(setup)
        self.clock.advance(1000)
        return workers


def test_trees_do_not_grow_older_while_workers_start():
    builder = TopologyBuilder(name="kept", workers=1, message_timeout_seconds=30)
    builder.set_spout("numbers", ListSpout([1, 2]))
    builder.set_bolt("keep", Keep).shuffle_grouping("numbers")
    store = new_store()
    for batches in (1, 2):
        clock = ManualClock()
        jobs = SlowToStart(clock, 1.0, store=store)
        driver = make_driver(builder, store=store, clock=clock, jobs=jobs)
        driver.start()
        for _ in range(batches):
            driver.step()
        driver.close()
    assert driver.totals.trees.pending == 2
    assert driver.totals.trees.timed_out == 0
    driver = make_driver(builder, store=store, seconds=20.0)
    driver.start()
    for _ in range(4):
        driver.step()
    driver.close()
    assert driver.totals.trees.timed_out > 0
