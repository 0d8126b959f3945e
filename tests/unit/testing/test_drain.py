"""Bolts get a last turn when a topology is drained."""

import pyarrow as pa
import pytest

from fulmen import ArrowBolt, BasicBolt, Bolt, TopologyBuilder
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed
from fulmen.testing import BoltHarness, CollectBolt, ListSpout, run


class Window(BasicBolt):
    """Sums up what comes; emits the sum when it is drained."""

    outputs = ("value",)

    def __init__(self):
        self.sum = 0

    def execute(self, tup, collector):
        self.sum += tup["value"]

    def drain(self, collector):
        if self.sum:
            collector.emit([self.sum])
        self.sum = 0


class Pairs(Bolt):
    """Holds tuples until there are two; the rest is emitted when it is drained."""

    outputs = ("values",)

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.waiting = []

    def execute(self, tup):
        self.waiting.append(tup)
        if len(self.waiting) == 2:
            self.drain()

    def drain(self):
        if self.waiting:
            self.collector.emit([[t["value"] for t in self.waiting]], anchors=self.waiting)
        for tup in self.waiting:
            self.collector.ack(tup)
        self.waiting = []


class ArrowWindow(ArrowBolt):
    outputs = ("value",)

    def __init__(self):
        self.sum = 0

    def execute(self, batch, collector):
        self.sum += sum(batch["value"].to_pylist())

    def drain(self, collector):
        collector.emit(pa.record_batch({"value": [self.sum]}))
        self.sum = 0


class Broken(Window):
    def drain(self, collector):
        collector.emit([1])
        raise ValueError("no")


class FailsFirst(Pairs):
    def __init__(self):
        self.failures = 0

    def drain(self):
        if self.failures or not self.waiting:
            super().drain()
            return
        self.failures = 1
        for tup in self.waiting:
            self.collector.fail(tup, "not yet")
        self.waiting = []


class Dies(Window):
    turns = 0

    def drain(self, collector):
        Dies.turns += 1
        super().drain(collector)


def chain(*bolts, items=(1, 2, 3), **settings):
    builder = TopologyBuilder(**settings)
    builder.set_spout("source", ListSpout(items))
    before = "source"
    for i, bolt in enumerate(bolts):
        builder.set_bolt(f"bolt-{i}", bolt).global_grouping(before)
        before = f"bolt-{i}"
    builder.set_bolt("sink", CollectBolt).global_grouping(before)
    return builder


@pytest.mark.parametrize("bolt", [Window, ArrowWindow])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_bolt_holds_is_emitted_when_the_topology_is_drained(bolt, workers):
    result = run(chain(bolt), workers=workers)

    assert [*map(list, result.collected("sink"))] == [[6]]
    assert result.fields("bolt-0")["sum"] == 0


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_last_turn_comes_after_those_of_all_bolts_before_it(workers):
    result = run(chain(Window, Window, ArrowWindow, Window), workers=workers)

    assert result.collected("sink") == [[6]]


def test_several_tasks_have_a_last_turn_each():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(range(1, 101)), 2)
    builder.set_bolt("windows", Window, 3).fields_grouping("source", ["value"])
    builder.set_bolt("all", Window).global_grouping("windows")
    builder.set_bolt("sink", CollectBolt).global_grouping("all")

    assert run(builder, workers=2).collected("sink") == [[5050]]


def test_tuples_that_a_bolt_keeps_are_acked_in_its_last_turn():
    result = run(chain(Pairs, message_timeout_seconds=1000), batch_seconds=0.1)

    assert result.collected("sink") == [[[1, 2]], [[3]]]
    assert sorted(result.acked("source")) == [0, 1, 2]
    assert result.failed("source") == []


def test_what_ends_a_tree_in_a_last_turn_may_bring_new_tuples():
    """The spout emits again what the last turn has failed; then there is another last turn."""

    result = run(chain(FailsFirst, items=[1], message_timeout_seconds=1000))

    assert result.collected("sink") == [[[1]]]
    assert result.failed("source") == [(0, "not yet")]
    assert result.acked("source") == [0]


@pytest.mark.parametrize("moment", range(1, 13))
def test_a_worker_that_dies_after_its_last_turn_changes_nothing(moment):
    Dies.turns = 0
    moments = []

    def fault(stage, worker, at):
        if Dies.turns:
            moments.append(at)
            if len(moments) in (moment, 2 * moment):
                raise Crash("killed")

    result = run(chain(Dies, Window), workers=2, fault=fault)

    assert result.collected("sink") == [[6]]
    assert result.report["failed_attempts"] >= 1


def test_another_run_goes_on_after_the_last_turn():
    first = run(chain(Window))
    second = run(chain(Window, items=[1, 2, 3, 10]), checkpoint=first)

    assert second.collected("sink") == [[6], [10]]


def test_a_last_turn_is_not_counted_as_a_tuple():
    result = run(chain(Window))

    assert result.report["components"]["bolt-0"]["executed"] == 3
    assert result.report["components"]["sink"]["executed"] == 1


def test_an_exception_in_a_last_turn_is_reported():
    result = run(chain(Broken))

    assert [e.message for e in result.errors] == ["drain: ValueError: no"]
    assert result.collected("sink") == [[1]]


def test_an_exception_in_a_last_turn_can_stop_the_topology():
    with pytest.raises(TopologyFailed, match="drain: ValueError: no"):
        run(chain(Broken, on_error="crash"))


def test_blocking_bolts_have_a_last_turn_too():
    builder = chain(Window)
    builder.set_bolt("slow", Window, 2).fields_grouping("source", ["value"]).set_blocking()
    builder.set_bolt("end", CollectBolt).global_grouping("slow")

    assert sum(value for (value,) in run(builder).collected("end")) == 6


def test_the_harness_gives_a_bolt_its_last_turn():
    with BoltHarness(Window) as harness:
        harness.execute([3])
        harness.drain()

        assert [(*e.values, e.anchors) for e in harness.emitted] == [(3, ())]
        assert len(harness.acked) == 1

    with BoltHarness(Pairs) as harness:
        tup = harness.execute([3])
        assert harness.acked == []
        harness.drain()

        assert [(e.values, e.anchors) for e in harness.emitted] == [([[3]], (tup,))]
        assert harness.acked == [tup]

    with BoltHarness(ArrowWindow) as harness:
        harness.execute([3])
        harness.drain()

        assert [(*e.values, e.anchors) for e in harness.emitted] == [(3, ())]
