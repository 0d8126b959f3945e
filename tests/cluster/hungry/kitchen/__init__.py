"""Numbers, one of which takes more memory than any worker has. The driver needs much, too.

How much is in a file of the package, as of a project that is more than Python files.
"""

from pathlib import Path

from fulmen import BasicBolt, Spout

MEGABYTES = int(Path(__file__).with_name("megabytes.txt").read_text())


def filled(megabytes):
    """So much memory, all of it in use."""
    return b"\1" * (megabytes << 20)


class Meals(Spout):
    """Emits `count` numbers. It is hosted by the driver, of whose memory it takes 1200 MiB."""

    outputs = ("n", "megabytes")
    pinned = True
    transient = ("collector", "ballast", "count")

    def __init__(self):
        self.position = 0
        self.ballast = filled(1200)

    def open(self, conf, context, collector):
        self.collector, self.count = collector, conf["count"]

    def next_tuple(self):
        if self.position < self.count:
            number, self.position = self.position, self.position + 1
            size = MEGABYTES if number == self.count // 2 else 0
            self.collector.emit([number, size], msg_id=number)

    def fail(self, msg_id, reason):
        self.state[msg_id] = str(reason)


class Eat(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        filled(tup["megabytes"])
        collector.emit([tup["n"]])


class Count(BasicBolt):
    def execute(self, tup, collector):
        self.state[tup["n"]] = self.state.get(tup["n"], 0) + 1
