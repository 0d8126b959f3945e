"""A running topology becomes another one: other workers, executors, ackers or limits."""

from collections import Counter

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.testing import ListSpout
from support.parts.hooks import HookBasicBolt, hooks
from support.runs.engine_runs import make_driver, state_of

NUMBERS = [i % 10 for i in range(2000)]


def count(bolt, tup, collector):
    bolt.state[tup[0]] = bolt.state.get(tup[0], 0) + 1


def counting(workers=2, executors=2, **spec):
    """Counts numbers; 4 tasks in so many executors."""
    builder = TopologyBuilder(name="counting", workers=workers, **spec)
    builder.set_spout("source", ListSpout(NUMBERS), 1)
    bolt = builder.set_bolt("count", HookBasicBolt, executors).set_num_tasks(4)
    bolt.set_config(hooks(execute=count)).fields_grouping("source", ["value"])
    return builder.build()


def changing(driver, stop):
    """Run batches until the driver has become what `stop` asks for."""
    while stop.topology is not None:
        driver.follow(stop)
        driver.step()


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"workers": 3}, id="a worker more"),
        pytest.param({"workers": 1}, id="a worker less"),
        pytest.param({"executors": 4}, id="executors"),
        pytest.param({"ackers": 5}, id="ackers"),
        pytest.param({"message_timeout_seconds": 7}, id="a limit"),
    ],
)
def test_nothing_is_lost_or_counted_twice(changed):
    driver = make_driver(counting(max_spout_pending=50)).start()
    for _ in range(3):
        driver.step()
    before = driver.coordinator.last.number
    stop = Stop(topology=counting(max_spout_pending=50, **changed))
    wanted = stop.topology
    changing(driver, stop)
    driver.run(Stop(when_drained=True))
    assert driver.topology is wanted
    assert driver.coordinator.last.number > before
    assert state_of(driver, "count") == Counter(NUMBERS)
    assert driver.totals.trees.failed == driver.totals.trees.timed_out == 0
    assert driver.plan.workers == wanted.spec.workers
    driver.close()


def test_a_limit_changes_while_spouts_emit():
    driver = make_driver(counting(max_spout_pending=50)).start()
    driver.step()
    driver.follow(Stop(topology=counting(max_spout_pending=60)))
    assert driver.topology.spec.max_spout_pending == 60
    assert driver.coordinator.active
    driver.close()


class Marking(BasicBolt):
    """Counts in self.state, and in a field, under what the configuration says at the time."""

    def prepare(self, conf, context):
        self.mark = conf["mark"]
        self.seen = getattr(self, "seen", 0)

    def execute(self, tup, collector):
        self.seen += 1
        self.state[self.mark] = self.state.get(self.mark, 0) + 1
        self.state["seen"] = self.seen


def marking(mark):
    builder = TopologyBuilder(name="marking", workers=2, max_spout_pending=50)
    builder.set_spout("source", ListSpout(NUMBERS), 1)
    builder.set_bolt("mark", Marking, 1).shuffle_grouping("source").set_config({"mark": mark})
    return builder.build()


def test_configuration_changes_while_spouts_emit():
    """Instances are opened with it, and keep what they know; pending trees end well."""
    driver = make_driver(marking("old")).start()
    for _ in range(3):
        driver.step()
    driver.follow(Stop(topology=marking("new")))
    assert driver.coordinator.active
    driver.run(Stop(when_drained=True))
    counted = state_of(driver, "mark")
    assert counted["old"] > 0
    assert counted["new"] > 0
    assert counted["old"] + counted["new"] == counted["seen"] == len(NUMBERS)
    assert driver.totals.trees.acked == len(NUMBERS)
    assert driver.totals.trees.failed == driver.totals.trees.timed_out == 0
    driver.close()


def test_spouts_that_were_told_to_stop_stay_stopped():
    driver = make_driver(counting()).start()
    stop = Stop(active=False, topology=counting(workers=3))
    changing(driver, stop)
    assert driver.plan.workers == 3
    assert not driver.coordinator.active
    driver.close()
