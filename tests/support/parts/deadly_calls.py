"""A topology whose bolts end their process where no tuple is at hand: for one key, or always."""

import os

from fulmen import BasicBolt, Spout, TopologyBuilder
from fulmen.testing.components import Killed
from fulmen.windows import WindowedBolt

BASE = 1_700_000_000_000
MESSAGES, KEYS, DEADLY = 60, 5, 2


def end_process(how):
    if how == "exit":
        os._exit(3)
    raise Killed


class Source(Spout):
    outputs = ("key", "at")

    def __init__(self):
        self.at = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if not self.is_exhausted():
            self.at += 1
            self.collector.emit([self.at % KEYS, BASE + 1000 * self.at], msg_id=self.at)

    def fail(self, msg_id, reason):
        self.state[msg_id] = reason

    def is_exhausted(self):
        return self.at == MESSAGES


class Timer(BasicBolt):
    outputs = ("key", "n")
    transient = ("timers", "how")

    def prepare(self, conf, context):
        self.timers, self.how = context.timers, conf["how"]

    def execute(self, tup, collector):
        key = tup["key"]
        self.state[key] = self.state.get(key, 0) + 1
        self.timers.set(key, BASE + 1000 * MESSAGES)

    def on_timer(self, key, at, collector):
        if key == DEADLY:
            end_process(self.how)
        collector.emit([key, self.state.pop(key)])


class Windows(WindowedBolt):
    outputs = ("key", "n")
    transient = ("collector", "how")

    def prepare(self, conf, context, collector):
        self.collector, self.how = collector, conf["how"]

    def execute(self, window):
        (key,) = window.key
        if key == DEADLY:
            end_process(self.how)
        self.collector.emit([key, len(window.tuples)])


class End(BasicBolt):
    transient = ("how",)

    def prepare(self, conf, context):
        self.how = conf["how"]

    def execute(self, tup, collector):
        self.state[tup["key"]] = self.state.get(tup["key"], 0) + 1

    def end_batch(self, collector):
        end_process(self.how)


class Tick(End):
    def execute(self, tup, collector):
        if tup.is_tick():
            end_process(self.how)
        super().execute(tup, collector)

    def end_batch(self, collector):
        """Ends nothing."""


class Sums(BasicBolt):
    def execute(self, tup, collector):
        place = tup.component, tup["key"]
        self.state[place] = self.state.get(place, 0) + tup["n"]


class Letters(BasicBolt):
    def execute(self, tup, collector):
        place = tup.component, tup["stream"], tuple(tup["values"])
        self.state[place] = tup["reason"]


def deadly(how, *, ticks=True, **spec):
    builder = TopologyBuilder("deadly", workers=1, config={"how": how}, **spec)
    builder.set_spout("source", Source).set_event_time("at", lag="1s")
    builder.set_bolt("timers", Timer).fields_grouping("source", ["key"])
    by_time, by_number = Windows().with_tumbling_window("30s"), Windows().with_tumbling_window(3)
    by_time.with_timestamp_field("at").with_key("key")
    builder.set_bolt("windows", by_time).fields_grouping("source", ["key"])
    builder.set_bolt("triples", by_number.with_key("key")).fields_grouping("source", ["key"])
    builder.set_bolt("end", End).shuffle_grouping("source")
    if ticks:
        builder.set_bolt("tick", Tick).shuffle_grouping("source").set_tick_seconds(0.1)
    sums, letters = builder.set_bolt("sums", Sums), builder.set_bolt("letters", Letters)
    for name in ("timers", "windows", "triples"):
        sums.global_grouping(name)
        letters.global_grouping(name, "__dead_letters")
    return builder


OTHERS = [key for key in range(KEYS) if key != DEADLY]
RESULTS = "timers", "windows", "triples"
LETTERS = {
    ("timers", "__timer", (DEADLY, BASE + 1000 * MESSAGES)): "on_timer ends its process",
    ("windows", "__window", ((DEADLY,), BASE + 10_000)): "window ends its process",
    ("windows", "__window", ((DEADLY,), BASE + 40_000)): "window ends its process",
    ("windows", "__window", ((DEADLY,), BASE + 70_000)): "window ends its process",
    ("triples", "__window", ((DEADLY,), None)): "window ends its process",
}


def check(state):
    """All tuples and all other calls came to their end.

    Args:
        state: Gives that of a component.
    """
    each = MESSAGES // KEYS
    assert state("sums") == {(name, key): each for name in RESULTS for key in OTHERS}
    assert state("letters") == LETTERS
    assert sum(state("end").values()) == MESSAGES
    assert state("source") == {}  # none of its messages failed
