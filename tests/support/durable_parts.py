"""Components whose committed state tells whether each tuple counted exactly once.

What they do is decided by `CHANCE`, which no restart takes back: another attempt of a batch is
another batch. A tuple is [id, content]; ids are (spout task, number), numbers as committed.
"""

import random

import pyarrow as pa

from fulmen import ArrowBolt, BasicBolt, Bolt, FailedException, Spout

CHANCE = random.Random()
HEARD = []
"""("ack" or "fail", id): what spouts were told, also in attempts that came to nothing."""


def begin(seed):
    CHANCE.seed(seed)
    HEARD.clear()


class DurableSpout(Spout):
    """Emits each position until it is acked; `state` says what was emitted and how it ended."""

    outputs = ("id", "content")

    def open(self, conf, context, collector):
        self.collector = collector
        self.me = context.task_index
        self.limit = conf["tuples"]
        self.position = 0
        self.number = 0
        self.again = []
        self.fails_directly = conf.get("fails_directly", False)

    def next_tuple(self):
        for _ in range(CHANCE.choice((0, 1, 1, 2, 5))):
            if self.again:
                self.emit(self.again.pop(0))
            elif self.position < self.limit:
                self.position += 1
                self.emit(self.position)

    def emit(self, position):
        self.number += 1
        content = CHANCE.choice("abcd")
        tracked = position % 4 != 0
        self.state["emit", self.number] = (position, content, tracked)
        msg_id = (position, self.number) if tracked else None
        self.collector.emit([(self.me, self.number), content], msg_id=msg_id)

    def ack(self, msg_id):
        HEARD.append(("ack", (self.me, msg_id[1])))
        self.count("ack", msg_id[1])

    def fail(self, msg_id, reason):
        HEARD.append(("fail", (self.me, msg_id[1])))
        self.count("fail", msg_id[1])
        if self.fails_directly:
            self.emit(msg_id[0])
        else:
            self.again.append(msg_id[0])

    def count(self, what, number):
        self.state[what, number] = self.state.get((what, number), 0) + 1

    def is_exhausted(self):
        return self.position >= self.limit and not self.again


class Relay(Bolt):
    """Passes tuples on; keeps some of them for later, in a field."""

    outputs = ("id", "content")

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.fails = conf["fails"]
        self.held = []
        self.lock = (x for x in ())  # can't be pickled

    def execute(self, tup):
        if tup.is_tick():
            self.work_off(len(self.held))
            return
        key = tup["id"]
        self.state[key] = self.state.get(key, 0) + 1
        if CHANCE.random() < 0.3:
            self.held.append(tup)
        else:
            self.finish(tup)
        self.work_off(CHANCE.randrange(2))

    def work_off(self, n):
        for _ in range(min(n, len(self.held))):
            self.finish(self.held.pop(0))

    def finish(self, tup):
        self.collector.emit([tup["id"], tup["content"]], anchors=tup)
        if CHANCE.random() < self.fails:
            self.collector.fail(tup, "bad luck")
        else:
            self.collector.ack(tup)


class Sink(BasicBolt):
    def prepare(self, conf, context):
        self.fails = conf["fails"]
        self.total = 0

    def execute(self, tup, collector):
        self.total += 1
        key = tup["id"]
        self.state[key] = (*self.state.get(key, ()), tup["content"])
        if CHANCE.random() < self.fails:
            raise FailedException("sunk")


class ArrowSink(ArrowBolt):
    def execute(self, batch, collector):
        for id, content in zip(batch["id"].to_pylist(), batch["content"].to_pylist(), strict=True):
            key = tuple(id)
            self.state[key] = (*self.state.get(key, ()), content)
        assert isinstance(batch, pa.RecordBatch)
