"""Objects whose own methods raise, or that are nested deeply, and a topology that sends some."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from fulmen import BasicBolt, Spout, TopologyBuilder


class Hostile:
    """Every method that anybody but its author calls raises."""

    def no(self, *_):
        raise RuntimeError("no")

    __repr__ = __str__ = __hash__ = __eq__ = __reduce__ = __reduce_ex__ = no
    __len__ = __iter__ = __getitem__ = __sizeof__ = __bool__ = no


class HostileList(list):
    def no(self, *_):
        raise RuntimeError("no")

    __iter__ = __getitem__ = __reduce_ex__ = __len__ = no


class Unsayable(Exception):
    def __str__(self):
        raise RuntimeError("no")


def nested(depth, mapping=False):
    value = 1
    for _ in range(depth):
        value = {"a": value} if mapping else [value]
    return value


UNPICKLABLE, UNGROUPED = "can't be pickled", "no task can be chosen by a value of type"
CASES: list[tuple[str, Callable[[], Any], str]] = [
    ("shuffled", lambda: 1, "acked"),
    ("by-value", lambda: 1, "acked"),
    ("shuffled", Hostile, UNPICKLABLE),
    ("by-value", Hostile, "RuntimeError"),
    ("shuffled", lambda: HostileList([1]), UNPICKLABLE),
    ("shuffled", lambda: nested(3000), UNPICKLABLE),
    ("by-value", lambda: nested(3000), UNGROUPED),
    ("by-value", lambda: nested(3000, mapping=True), UNGROUPED),
    ("shuffled", lambda: "raise", "<Unsayable, whose __str__ raised RuntimeError>"),
    ("by-value", lambda: 2, "acked"),
    ("shuffled", lambda: 2, "acked"),
]
"""Stream, value, and what is in the reason for which it fails; the number of a case is its id."""


class HostileSource(Spout):
    """Emits each case once, and keeps how it ended."""

    outputs = MappingProxyType({"shuffled": ("value",), "by-value": ("value",)})

    def __init__(self):
        self.next = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.next < len(CASES):
            stream, make, _ = CASES[self.next]
            self.collector.emit([make()], stream=stream, msg_id=self.next)
            self.next += 1

    def ack(self, msg_id):
        self.state[msg_id] = "acked"

    def fail(self, msg_id, reason):
        self.state[msg_id] = reason

    def is_exhausted(self):
        return self.next == len(CASES)


class Receive(BasicBolt):
    def execute(self, tup, collector):
        if tup["value"] == "raise":
            raise Unsayable


def hostile():
    b = TopologyBuilder("hostile", workers=2)
    b.set_spout("source", HostileSource)
    bolt = b.set_bolt("receive", Receive, 2).shuffle_grouping("source", "shuffled")
    bolt.fields_grouping("source", ["value"], "by-value")
    return b
