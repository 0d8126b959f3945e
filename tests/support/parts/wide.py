"""A topology with everything in it. Its bolts count what they receive in their state.

It has an equal share in each batch: every spout task emits two numbers (or four rows) and pauses.
"""

import threading
from collections import Counter
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from fulmen import (
    ArrowBolt,
    ArrowSpout,
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    Spout,
    Stream,
    TopologyBuilder,
)

KEYS = ("", "a", "the", "käse", "𝄞 clef", "word-17")
NUMBERS = (0, 5, 2.5, None, True, 10**6, -0.0)


def key_of(n):
    return KEYS[n % len(KEYS)]


def number_of(n):
    return NUMBERS[n % len(NUMBERS)]


class Numbers(Spout):
    """Task i of k emits i, i + k, i + 2k …, each on all of its streams."""

    outputs = MappingProxyType(
        {
            "default": ("n", "key", "number"),
            "twin": ("n",),
            "asked": ("n",),
            "named": Stream(("n", "task"), direct=True),
        }
    )

    def __init__(self):
        self.calls = self.emitted = 0
        self.failed = []

    def open(self, conf, context, collector):
        self.collector, self.context, self.limit = collector, context, conf["limit"]
        self.tasks = context.tasks(context.component)

    def next_tuple(self):
        self.calls += 1
        if self.calls % 3 == 0 or self.is_exhausted():
            return False
        n = self.context.task_index + len(self.tasks) * self.emitted
        self.emitted += 1
        emit = self.collector.emit
        emit([n, key_of(n), number_of(n)], msg_id=("default", n))
        emit([n], "twin", msg_id=("twin", n))
        self.state["asked", n] = emit([n], "asked", msg_id=("asked", n), need_task_ids=True)
        named = self.context.tasks("named")
        task = named[n % len(named)]
        self.collector.emit_direct(task, [n, task], "named", ("named", n) if n % 2 else None)
        return True

    def ack(self, msg_id):
        self.state["acked", msg_id] = self.state.get(("acked", msg_id), 0) + 1

    def fail(self, msg_id, reason):
        self.failed.append((msg_id, reason))

    def is_exhausted(self):
        return self.emitted == self.limit


class Columns(ArrowSpout):
    """Emits all the numbers of `Numbers`, and a text beside each."""

    outputs = ("n", "text")

    def __init__(self):
        self.emitted = 0
        self.turn = False

    def open(self, conf, context, collector):
        self.collector = collector
        self.limit = conf["limit"] * len(context.tasks("numbers"))

    def next_tuple(self):
        self.turn = not self.turn
        n = np.arange(self.emitted, min(self.emitted + 4, self.limit))
        if not self.turn or not len(n):
            return False
        self.emitted += len(n)
        columns = {"text": [f"row {i}" for i in n.tolist()], "n": n}
        self.collector.emit(pa.RecordBatch.from_pydict(columns), msg_ids=n)
        return True

    def ack_batch(self, msg_ids):
        for n in msg_ids:
            self.state[n] = self.state.get(n, 0) + 1

    def is_exhausted(self):
        return self.emitted == self.limit


class Tickets(Spout):
    """Pinned. Emits what has failed again."""

    outputs = ("ticket", "tries")
    pinned = True

    def __init__(self):
        self.calls = self.emitted = 0
        self.again = []

    def open(self, conf, context, collector):
        self.collector, self.limit = collector, conf["limit"]

    def next_tuple(self):
        self.calls += 1
        if self.calls % 3 == 0:
            return False
        if self.again:
            ticket = self.again.pop(0)
            self.collector.emit([ticket, 1], msg_id=ticket)
        elif self.emitted < self.limit:
            self.emitted += 1
            self.collector.emit([self.emitted - 1, 0], msg_id=self.emitted - 1)
        return True

    def ack(self, msg_id):
        self.state["acked", msg_id] = self.state.get(("acked", msg_id), 0) + 1

    def fail(self, msg_id, reason):
        self.state["failed", msg_id] = [*self.state.get(("failed", msg_id), ()), reason]
        self.again.append(msg_id)

    def is_exhausted(self):
        return self.emitted == self.limit and not self.again


class Record(BasicBolt):
    """Counts (component, stream, source task, *values)."""

    def __init__(self):
        self.worker = None

    def prepare(self, conf, context):
        self.worker = context.worker

    def execute(self, tup, collector):
        what = (tup.component, tup.stream, tup.task, *tup.values)
        self.state[what] = self.state.get(what, 0) + 1


class InOrder(BasicBolt):
    """Receives several streams of `Numbers`, all in the order in which they were emitted."""

    PLACE = MappingProxyType({"default": 0, "twin": 1, "asked": 2})

    def __init__(self):
        self.overtaken = []
        self.received = 0

    def execute(self, tup, collector):
        place = (tup["n"], self.PLACE[tup.stream])
        if place <= self.state.get(tup.task, (-1, 0)):
            self.overtaken.append(place)
        self.state[tup.task] = place
        self.received += 1


class Join(Bolt):
    """Waits for both halves of a number; the pair is anchored to both."""

    outputs = ("n", "text")

    def __init__(self):
        self.waiting = {}
        self.most_waiting = 0

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        other = self.waiting.pop(tup["n"], None)
        if other is None:
            self.waiting[tup["n"]] = tup
            self.most_waiting = max(self.most_waiting, len(self.waiting))
            return
        with_text = tup if tup.component == "columns" else other
        self.collector.emit([tup["n"], with_text["text"]], anchors=[tup, other])
        self.collector.ack(tup)
        self.collector.ack(other)


class Double(ArrowBolt):
    """Emits each number, and even ones once more."""

    outputs = ("n", "half")

    def execute(self, batch, collector):
        n = batch.column("n").to_numpy()
        rows = np.concatenate([np.arange(len(n)), np.flatnonzero(n % 2 == 0)])
        columns = {"n": n[rows], "half": n[rows] / 2}
        collector.emit(pa.RecordBatch.from_pydict(columns), rows=rows)


class Flaky(Bolt):
    """Fails some tickets when they come for the first time, and raises for others."""

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        ticket, tries = tup.values
        if not tries and ticket % 5 == 0:
            self.collector.fail(tup, "not today")
            return
        if not tries and ticket % 7 == 0:
            raise ValueError(f"ticket {ticket}")
        self.collector.ack(tup)


class Late(Bolt):
    """Acks what it has received at the next tick."""

    def __init__(self):
        self.held = []
        self.ticks = self.acked = self.most_held = 0

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        if not tup.is_tick():
            self.held.append(tup)
            self.most_held = max(self.most_held, len(self.held))
            return
        self.ticks += 1
        for held in self.held:
            self.collector.ack(held)
        self.acked += len(self.held)
        self.held = []


_meetings = {}


class Meet(BasicBolt):
    """Blocking: both executors of a worker must be in `execute` at the same time."""

    def __init__(self):
        self.met = 0

    def prepare(self, conf, context):
        self.meeting = _meetings.setdefault(context.worker, threading.Barrier(2))

    def execute(self, tup, collector):
        self.meeting.wait(30)
        self.met += 1


class ByRemainder(CustomStreamGrouping):
    """Four kinds of answers: nobody, one, two and all tasks."""

    def prepare(self, context, stream, target_tasks):
        self.targets = list(target_tasks)

    def choose_tasks(self, task_id, values):
        return chosen(self.targets, values[0] + self.config["offset"])


def chosen(targets, n):
    return [[], targets[:1], targets[1:3], targets][n % 4]


def wide(workers, limit):
    """The topology. Each worker has a task of `numbers`, from which `limit` numbers come."""
    b = TopologyBuilder(
        "wide", workers=workers, config={"limit": limit}, message_timeout_seconds=600
    )
    b.set_spout("numbers", Numbers, workers)
    b.set_spout("columns", Columns)
    b.set_spout("tickets", Tickets)
    b.set_bolt("shuffled", Record, workers).set_num_tasks(5).shuffle_grouping("numbers")
    b.set_bolt("by-key", Record, 4).fields_grouping("numbers", ["key", "number"])
    b.set_bolt("by-half", Record, 4).partial_key_grouping("numbers", ["key"])
    b.set_bolt("all", Record, 3).all_grouping("numbers")
    b.set_bolt("first", Record, 3).global_grouping("numbers")
    b.set_bolt("any", Record, 3).none_grouping("numbers")
    b.set_bolt("near", Record, 2 * workers).local_or_shuffle_grouping("numbers")
    b.set_bolt("custom", Record, 3).custom_grouping("numbers", ByRemainder, config={"offset": 1})
    b.set_bolt("named", Record, 3).direct_grouping("numbers", "named")
    b.set_bolt("asked", Record, 3).shuffle_grouping("numbers", "asked")
    some = b.set_bolt("some", Record, 3).fields_grouping("numbers", ["rest"])
    some.where("n % 3 <> 0").select({"rest": "n % 7", "text": "upper(key) || '!'"})
    some.fields_grouping("columns", ["rest"])
    some.where("n < 100").select({"rest": "n % 7", "text": "substr(text, 5)"})
    order = b.set_bolt("order", InOrder)
    for stream in InOrder.PLACE:
        order.global_grouping("numbers", stream)
    join = b.set_bolt("join", Join, 3).fields_grouping("numbers", ["n"], "twin")
    join.fields_grouping("columns", ["n"])
    b.set_bolt("joined", Record, 2).fields_grouping("join", ["n"])
    double = b.set_bolt("double", Double, 2).shuffle_grouping("columns")
    double.shuffle_grouping("numbers", "twin")
    b.set_bolt("doubled", Record, 2).fields_grouping("double", ["n"])
    b.set_bolt("flaky", Flaky, 2).shuffle_grouping("tickets")
    b.set_bolt("late", Late, 2).shuffle_grouping("tickets").set_tick_seconds(0.3)
    b.set_bolt("meet", Meet, 2 * workers).all_grouping("tickets").set_blocking()
    return b


def received(committed, component):
    """What a `Record` counted: {(component, stream, source, *values): Counter of its tasks}."""
    found = {}
    for task, state in committed.state(component).items():
        for what, n in state.items():
            found.setdefault(what, Counter())[task] += n
    return found
