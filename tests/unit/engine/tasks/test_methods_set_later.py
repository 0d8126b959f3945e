"""A callback that is set on the instance, instead of written in its class, is called as well."""

import pyarrow as pa
import pytest

from fulmen import ArrowBolt, ArrowSpout, BasicBolt, Bolt, Spout, TopologyBuilder
from fulmen.testing import ListSpout, run

HEARD = []


@pytest.fixture(autouse=True)
def heard():
    HEARD.clear()
    return HEARD


class Numbers(Spout):
    outputs = ("n",)

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = [3, 2, 1]
        self.ack = self.note
        self.fail = lambda msg_id, reason: HEARD.append(("fail", msg_id, reason))
        self.part_of = lambda msg_id: HEARD.append(("part_of", msg_id)) or "p"
        self.committed = lambda number: HEARD.append(("committed", number > 0))

    def note(self, msg_id):
        HEARD.append(("ack", msg_id))

    def next_tuple(self):
        if self.left:
            n = self.left.pop()
            self.collector.emit([n], msg_id=n)

    def is_exhausted(self):
        return not self.left


class Batches(ArrowSpout):
    outputs = ("n",)

    def open(self, conf, context, collector):
        self.collector, self.is_done = collector, False
        self.ack = lambda msg_id: HEARD.append(("ack", msg_id))

    def next_tuple(self):
        if not self.is_done:
            self.is_done = True
            self.collector.emit(pa.record_batch({"n": [1, 2]}), msg_ids=[1, 2])

    def is_exhausted(self):
        return self.is_done


class FailsTwo(BasicBolt):
    def execute(self, tup, collector):
        if tup[0] == 2:
            raise ValueError("two")


class Hears(Bolt):
    def prepare(self, conf, context, collector):
        self.collector, self.context = collector, context
        self.end_batch = lambda: HEARD.append("end_batch")
        self.drain = lambda: HEARD.append("drain")
        self.on_timer = lambda key, at: HEARD.append(("timer", key))
        self.committed = lambda number: HEARD.append("committed")
        self.state["seen"] = 0

    def execute(self, tup):
        if tup[0] == 0:
            self.context.timers.set_after("a", 0)
        self.collector.ack(tup)


class HearsArrow(ArrowBolt):
    def prepare(self, conf, context):
        self.end_batch = lambda collector: HEARD.append("end_batch")

    def execute(self, batch, collector):
        pass


def topology(spout, bolt):
    builder = TopologyBuilder("t")
    declared = builder.set_spout("source", spout)
    if spout is Numbers:
        declared.set_event_time("n", unit="ms")
    builder.set_bolt("bolt", bolt).shuffle_grouping("source")
    return builder


def test_callbacks_that_a_spout_sets_in_open_are_called(heard):
    run(topology(Numbers, FailsTwo))
    assert {("ack", 1), ("ack", 3), ("part_of", 1), ("committed", True)} <= {*heard}
    assert [one[:2] for one in heard if one[0] == "fail"] == [("fail", 2)]


def test_ack_that_an_arrow_spout_sets_in_open_is_called(heard):
    run(topology(Batches, HearsArrow))
    assert [one for one in heard if one != "end_batch"] == [("ack", 1), ("ack", 2)]
    assert "end_batch" in heard


def test_callbacks_that_a_bolt_sets_in_prepare_are_called(heard):
    run(topology(ListSpout([[0], [1]]), Hears))
    assert {"end_batch", "drain", "committed", ("timer", "a")} <= {*heard}


class ChangesFail(Numbers):
    """From its first failure on, what hears of them is written as Storm's."""

    transient = ("fail",)

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.fail = self.first

    def first(self, msg_id, reason):
        HEARD.append(("first", msg_id))
        self.fail = lambda msg_id: HEARD.append(("later", msg_id))
        self.left = [2]


class FailsTwoTwice(FailsTwo):
    def execute(self, tup, collector):
        if HEARD.count(("later", 2)) == 0:
            super().execute(tup, collector)


def test_fail_may_be_set_again_with_other_arguments(heard):
    run(topology(ChangesFail, FailsTwoTwice))
    assert [one for one in heard if one[0] in ("first", "later")] == [("first", 2), ("later", 2)]


class Counts(Bolt):
    """Has fields of its own by the names of callbacks."""

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.committed = self.drain = 0

    def execute(self, tup):
        self.committed += 1
        self.collector.ack(tup)


def test_a_field_by_the_name_of_a_callback_that_can_not_be_called_is_a_field():
    result = run(topology(ListSpout([[0], [1]]), Counts))
    assert result.fields("bolt")["committed"] == 2
