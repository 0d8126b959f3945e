"""A topology whose tuples are large."""

from fulmen import BasicBolt, Spout, TopologyBuilder

TUPLE_BYTES = 100_000


class Loads(Spout):
    """Emits as much as it may; each tuple is an object of its own."""

    outputs = ("load",)

    def __init__(self):
        self.emitted = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        self.emitted += 1
        self.collector.emit([bytes(TUPLE_BYTES)], msg_id=self.emitted)


class Weigh(BasicBolt):
    def __init__(self):
        self.tuples = self.bytes = 0

    def execute(self, tup, collector):
        self.tuples += 1
        self.bytes += len(tup["load"])


def heavy():
    b = TopologyBuilder("heavy", workers=2)
    b.set_spout("loads", Loads, 2)
    b.set_bolt("weigh", Weigh, 2).shuffle_grouping("loads")
    return b
