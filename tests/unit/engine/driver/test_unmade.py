"""A bolt whose `prepare` ends its process: batches can't do without it, so the topology ends."""

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.batches.failures.suspects import CERTAIN_DEATHS
from fulmen.errors import TopologyFailed
from fulmen.testing import ListSpout, run
from fulmen.testing.components import Killed


class Model(BasicBolt):
    """One of its methods ends its process, so often."""

    deaths = 0

    def __init__(self, method):
        self.method = method

    def die_in(self, method):
        if method == self.method and Model.deaths > 0:
            Model.deaths -= 1
            raise Killed("the process dies")

    def prepare(self, conf, context):
        self.die_in("prepare")

    def execute(self, tup, collector):
        self.die_in("execute")
        self.state[tup["value"]] = self.state.get(tup["value"], 0) + 1


FOR_EVER = 10**9


def predicting(method, deaths, **spec):
    Model.deaths = deaths
    builder = TopologyBuilder("predicting", **spec)
    builder.set_spout("values", ListSpout(list(range(100))))
    builder.set_bolt("model", Model(method)).shuffle_grouping("values")
    return builder


@pytest.mark.parametrize("on_error", ["fail", "crash"])
def test_the_topology_ends_and_names_the_call(on_error):
    ended = r"bolt 'model', task \d+: prepare ends its process"
    with pytest.raises(TopologyFailed, match=ended):
        run(predicting("prepare", FOR_EVER, on_error=on_error))
    assert FOR_EVER - Model.deaths == CERTAIN_DEATHS


def test_a_process_that_is_lost_twice_in_prepare_ends_nothing():
    result = run(predicting("prepare", CERTAIN_DEATHS - 1))
    assert result.trees == {**result.trees, "acked": 100, "failed": 0, "dropped": 0}
    assert len([note for note in result.notes if "is run again" in note]) == CERTAIN_DEATHS - 1


def test_a_tuple_that_ends_its_process_is_looked_for_as_ever():
    result = run(predicting("execute", 1))
    assert result.trees == {**result.trees, "acked": 100, "failed": 0, "dropped": 0}
