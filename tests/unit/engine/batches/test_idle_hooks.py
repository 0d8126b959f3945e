"""A topology that is idle, with hooks that change something in each batch, does not spin."""

import pytest

from fulmen import BasicBolt, Spout, TopologyBuilder
from fulmen.testing import CollectBolt, ListSpout, ManualClock, run


class Polls(Spout):
    """Has nothing, and a field that changes with each look."""

    outputs = ("value",)

    def __init__(self):
        self.looks = 0

    def next_tuple(self):
        self.looks += 1

    def committed(self, number): ...


class Holds(BasicBolt):
    def __init__(self):
        self.ends = 0

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        self.context.hold_spouts("it waits")

    def end_batch(self, collector):
        self.ends += 1

    def committed(self, number): ...


@pytest.mark.parametrize(("spout", "bolt"), [(Polls(), CollectBolt), (ListSpout(["a"]), Holds)])
def test_commits_that_are_to_be_told_do_not_make_an_idle_topology_spin(spout, bolt):
    b = TopologyBuilder("t")
    b.set_spout("source", spout)
    b.set_bolt("bolt", bolt).shuffle_grouping("source")
    clock = ManualClock()
    run(b, batches=60, clock=clock, batch_seconds=0.001)
    assert clock.now > 2
