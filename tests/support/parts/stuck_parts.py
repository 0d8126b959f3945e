"""A topology with a spout that ends its process or hangs, or takes long to open, and a good one."""

import os
import time
from pathlib import Path

from fulmen import BasicBolt, Spout, TopologyBuilder

FAULTS = {"end": lambda: os._exit(3), "hang": lambda: time.sleep(1000)}


class Bad(Spout):
    """Does something in one of its methods, as long as there is no file `over`."""

    outputs = ("n",)

    def open(self, conf, context, collector):
        self.collector, self.conf = collector, conf
        self.emitted = 0
        self.may_fail("open")

    def may_fail(self, method):
        if method == self.conf["method"] and not Path(self.conf["over"]).exists():
            FAULTS[self.conf["fault"]]()

    def next_tuple(self):
        self.may_fail("next_tuple")
        if self.emitted < 3:
            self.emitted += 1
            self.collector.emit([self.emitted], msg_id=self.emitted)

    def ack(self, msg_id):
        self.may_fail("ack")
        self.state[msg_id] = True

    def is_exhausted(self):
        return len(self.state) == 3


class Good(Spout):
    """Emits a number in each turn, for ever."""

    outputs = ("n",)

    def __init__(self):
        self.emitted = 0
        self.acked = 0

    def open(self, conf, context, collector):
        self.collector, self.may_emit = collector, True

    def next_tuple(self):
        self.may_emit = not self.may_emit
        if self.may_emit:
            self.emitted += 1
            self.collector.emit([self.emitted], msg_id=self.emitted)

    def ack(self, msg_id):
        self.acked += 1


class Tally(BasicBolt):
    def execute(self, tup, collector):
        self.state[tup["n"]] = self.state.get(tup["n"], 0) + 1


class Slow(Tally):
    """Its model loads for so long, or never."""

    def prepare(self, conf, context):
        FAULTS.get(conf.get("fault"), lambda: time.sleep(conf["seconds"]))()


def beside(over, method, fault, workers=2, **spec):
    """A bad spout beside a good one, which share a worker or not."""
    builder = TopologyBuilder("beside", workers=workers, **spec)
    conf = {"over": str(over), "method": method, "fault": fault}
    builder.set_spout("bad", Bad).set_config(conf)
    builder.set_spout("good", Good)
    builder.set_bolt("tally", Tally).fields_grouping("bad", ["n"])
    builder.set_bolt("sum", Tally).fields_grouping("good", ["n"])
    return builder


def loading(seconds, fault="", **spec):
    """A bolt whose `prepare` takes so long, or has a fault."""
    builder = TopologyBuilder("loading", **spec)
    builder.set_spout("good", Good)
    builder.set_bolt("slow", Slow).fields_grouping("good", ["n"]).set_config(
        {"seconds": seconds, "fault": fault}
    )
    return builder
