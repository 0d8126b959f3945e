"""A topology with messages that kill, hang or raise. Which and how is in its configuration."""

from pathlib import Path

from fulmen import BasicBolt, Spout, TopologyBuilder
from support.runs.toy_stages import FAULTS


class Messages(Spout):
    """Emits a few numbers in each batch, and never again what has failed."""

    outputs = ("n", "what")

    def __init__(self):
        self.calls = self.emitted = 0

    def open(self, conf, context, collector):
        self.collector, self.index = collector, context.task_index
        self.tasks = len(context.tasks(context.component))
        self.limit, self.in_a_batch = conf["limit"], conf["in-a-batch"]
        self.poison = {int(n): what for n, what in conf["poison"].items()}

    def next_tuple(self):
        self.calls += 1
        if self.calls % (self.in_a_batch + 1) == 0 or self.is_exhausted():
            return False
        n = self.index + self.tasks * self.emitted
        self.emitted += 1
        self.collector.emit([n, self.poison.get(n, "")], msg_id=n)
        return True

    def ack(self, msg_id):
        self.state[msg_id] = [*self.state.get(msg_id, ()), "acked"]

    def fail(self, msg_id, reason):
        self.state[msg_id] = [*self.state.get(msg_id, ()), reason]

    def is_exhausted(self):
        return self.emitted == self.limit


class PinnedMessages(Messages):
    pinned = True


class Drink(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        if what := tup["what"]:
            FAULTS[what]()
        collector.emit([tup["n"]])


class Unlucky(Drink):
    """Its JVM is killed with its first tuple, again and again, as a cluster might.

    So often in all as the configuration says, whatever process it is in: a file counts.
    """

    def prepare(self, conf, context):
        super().prepare(conf, context)
        self.file, self.losses = Path(conf["file"]), conf["losses"]

    def execute(self, tup, collector):
        done = self.file.stat().st_size if self.file.exists() else 0
        if done < self.losses:
            self.file.write_bytes(b"x" * (done + 1))
            FAULTS["kill jvm"]()
        super().execute(tup, collector)


class Tally(BasicBolt):
    def execute(self, tup, collector):
        self.state[tup["n"]] = self.state.get(tup["n"], 0) + 1


class EndsWherePickled:
    def __reduce__(self):
        FAULTS["os._exit"]()


class Bomb(BasicBolt):
    """Ends its process with its third tick, whatever it receives."""

    def __init__(self):
        self.ticks = 0

    def execute(self, tup, collector):
        self.ticks += tup.is_tick()
        if self.ticks > 2:
            self.field = EndsWherePickled()


def poisonous(poison, limit, in_a_batch=3, spout=Messages, tasks=2, drink=Drink, conf=(), **spec):
    """`limit` messages come from each task of the spout. `poison` says what is wrong with some."""
    poison = {str(n): what for n, what in poison.items()}
    config = {"poison": poison, "limit": limit, "in-a-batch": in_a_batch, **dict(conf)}
    b = TopologyBuilder("poisonous", workers=2, config=config, **spec)
    b.set_spout("messages", spout, tasks)
    b.set_bolt("drink", drink, 2).shuffle_grouping("messages")
    b.set_bolt("tally", Tally, 2).fields_grouping("drink", ["n"])
    return b


def unlucky(file, losses, limit):
    """Nothing is wrong with any message, but JVMs are lost while the first one is executed."""
    conf = {"file": str(file), "losses": losses}
    return poisonous({}, limit, in_a_batch=1, tasks=1, drink=Unlucky, conf=conf)


def bomb():
    b = poisonous({}, limit=100_000, tasks=1)
    b.set_bolt("bomb", Bomb).shuffle_grouping("messages").set_tick_seconds(0.1)
    return b
