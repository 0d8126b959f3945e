"""Instances that are made in a job of their own, before the batch that needs them."""

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.errors import TopologyFailed
from fulmen.testing import ManualClock
from support.runs.engine_runs import Numbers, Steady, make_driver, new_store, state_of


class MakesFirst(Steady):
    """As on Spark: a job makes instances, and another one runs the batch."""

    def run(self, header, timeout_seconds):
        made = super().run(header.opening(), timeout_seconds)
        self.prepared = Counts.prepared
        return made or super().run(header, timeout_seconds)


class Counts(BasicBolt):
    prepared = 0
    clock = None

    def prepare(self, conf, context):
        Counts.prepared += 1
        Counts.clock.advance(360.0)
        if conf.get("broken"):
            raise ValueError("no model")

    def execute(self, tup, collector):
        assert Counts.prepared
        self.state[tup["number"]] = self.state.get(tup["number"], 0) + 1


def started(workers=1, **conf):
    Counts.prepared, Counts.clock = 0, ManualClock()
    builder = TopologyBuilder("making", config={"limit": 10, **conf}, workers=workers)
    builder.set_spout("source", Numbers)
    builder.set_bolt("counts", Counts).shuffle_grouping("source")
    store = new_store()
    jobs = MakesFirst(Counts.clock, store=store)
    return make_driver(builder, store=store, clock=Counts.clock, jobs=jobs).start()


def test_they_are_made_once_and_found_by_the_batch():
    driver = started()
    driver.run(Stop(when_drained=True))
    driver.close()
    assert Counts.prepared == 1
    assert state_of(driver, "counts") == dict.fromkeys(range(10), 1)


def test_one_stage_makes_those_of_all_stages():
    driver = started(workers=2)
    driver.step()
    assert (len(driver.plan.stages), driver.jobs.prepared) == (3, 1)


def test_the_batch_clock_does_not_count_that_time():
    driver = started()
    for _ in range(2):
        driver.step()
    assert driver.coordinator.clock.seconds < 1.0


def test_what_making_them_raises_ends_the_topology_and_runs_no_batch():
    driver = started(broken=True)
    with pytest.raises(TopologyFailed, match="prepare: ValueError: no model"):
        driver.run(Stop(when_drained=True))
    driver.close()
    assert Counts.prepared == 1
