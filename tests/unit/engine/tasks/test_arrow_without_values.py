"""Rows of Arrow that Python has no values for: their tuples fail alone, wherever that is met."""

import pyarrow as pa
import pytest

from fulmen import ArrowBolt, ArrowSpout, BasicBolt, Bolt, TopologyBuilder
from fulmen.api import CustomStreamGrouping
from fulmen.api.components.sinks import Sink
from fulmen.testing import CollectBolt, run

NS = 1767225600000000000
ROWS = [NS, NS + 1, NS + 1000, 2**63 - 1, None]
GOOD = [0, 2, 4]
"""The numbers of rows whose time Python has."""


class Times(ArrowSpout):
    """Emits one batch of times in nanoseconds; a message that fails is given up."""

    outputs = ("i", "at")
    transient = ("collector", "again")

    def __init__(self):
        self.emitted, self.acked, self.failed = False, [], {}

    def open(self, conf, context, collector):
        self.collector, self.again = collector, conf.get("again")

    def next_tuple(self):
        if not self.emitted:
            self.emitted = True
            times = pa.array(ROWS, pa.timestamp("ns"))
            batch = pa.record_batch([pa.array(range(len(ROWS))), times], ["i", "at"])
            self.collector.emit(batch, msg_ids=range(len(ROWS)))

    def ack_batch(self, msg_ids):
        self.acked += msg_ids

    def fail(self, msg_id, reason):
        self.failed[msg_id] = reason
        self.emitted = not self.again

    def is_exhausted(self):
        return self.emitted


class Basic(BasicBolt):
    def execute(self, tup, collector):
        self.state[tup["i"]] = tup["at"]


class Anchoring(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.state[tup["i"]] = tup["at"]
        self.collector.ack(tup)


class Async(BasicBolt):
    async def execute(self, tup, collector):
        self.state[tup["i"]] = tup["at"]


class Written(Sink):
    def write(self, rows, mark):
        assert all(row[0] in GOOD for row in rows)


class Vectors(ArrowBolt):
    def execute(self, batch, collector):
        self.state["n"] = batch.num_rows


class ByTime(CustomStreamGrouping):
    def prepare(self, context, stream, target_tasks):
        self.tasks = target_tasks

    def choose_tasks(self, task_id, values):
        return [self.tasks[0]]


def topology(bolt, grouping):
    builder = TopologyBuilder()
    builder.set_spout("times", Times)
    declarer = builder.set_bolt("taken", bolt, 2)
    match grouping:
        case "shuffle":
            declarer.shuffle_grouping("times")
        case "fields":
            declarer.fields_grouping("times", ["at"])
        case "custom":
            declarer.custom_grouping("times", ByTime)
    return builder


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("grouping", ["shuffle", "fields", "custom"])
@pytest.mark.parametrize("bolt", [Basic, Anchoring, Async, Written])
def test_a_row_that_python_has_no_values_for_fails_alone(bolt, grouping, workers):
    result = run(topology(bolt, grouping), workers=workers, emits=True, at_most=200)
    fields = result.fields("times")
    assert (sorted(fields["acked"]), sorted(fields["failed"])) == (GOOD, [1, 3])
    if bolt is not Written:
        assert sorted(result.state("taken")) == GOOD
    assert any("Python has no value for this one" in str(error) for error in result.errors)
    assert result.notes == []


def test_an_arrow_bolt_gets_all_of_them():
    builder = topology(Vectors, "shuffle")
    result = run(builder, workers=1)
    assert sorted(result.fields("times")["acked"]) == [0, 1, 2, 3, 4]


def test_a_row_that_python_has_no_values_for_becomes_a_dead_letter_with_a_text():
    builder = TopologyBuilder(max_replays=1, config={"again": True})
    builder.set_spout("times", Times)
    builder.set_bolt("taken", Basic).shuffle_grouping("times")
    builder.set_bolt("letters", CollectBolt).shuffle_grouping("times", stream="__dead_letters")
    result = run(builder, at_most=200)
    values = [letter[1] for letter in result.collected("letters")]
    assert [1, "2026-01-01 00:00:00.000000001"] in values
