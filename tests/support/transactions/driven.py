"""Transactional topologies whose batches a test makes one by one."""

from fulmen import TransactionalTopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.testing import ManualClock
from support.runs.engine_runs import Steady, make_driver, new_store
from support.transactions.sources import Rows
from support.transactions.words import Collect


def collecting(name, spout=None, **spec):
    builder = TransactionalTopologyBuilder(
        "collecting",
        "spout",
        spout or Rows([[1, 2, 3], [4, 5]], 1),
        **{"config": {"store": name}, **spec},
    )
    builder.set_bolt("collect", Collect, 2).set_num_tasks(2).shuffle_grouping("spout")
    return builder


class Driven:
    """A topology whose batches a test makes one by one."""

    def __init__(self, builder, **how):
        self.store, self.clock = new_store(), ManualClock()
        self.jobs = Steady(self.clock, store=self.store)
        self.driver = make_driver(
            builder, store=self.store, clock=self.clock, jobs=self.jobs, **how
        ).start()
        self.attempts = []

    @property
    def transactions(self):
        return self.driver.coordinator.transactions

    def step(self, times=1):
        for _ in range(times):
            assert self.driver.step()
            self.attempts += [one.attempt for one in self.transactions.active.values()]

    def lose(self, worker):
        """Between two batches, so that no attempt of a batch fails."""
        self.jobs._workers[worker] = self.jobs._worker()

    def to_the_end(self):
        self.driver.run(Stop(when_drained=True))
        self.driver.close()
