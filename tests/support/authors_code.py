"""A topology of what is easily got wrong, written to a folder for `fulmen run`."""

import yaml

SHAPES = """
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    name: str
    cents: int
"""
CHANGED_SHAPES = SHAPES.replace("    cents: int", "    currency: str\n    cents: int")
CODE = '''
import asyncio
import os
import pathlib
import time

import shapes
from fulmen import BasicBolt, Bolt, Spout


class Unreadable(Exception):
    """Pickles, and does not unpickle."""

    def __init__(self, code, text):
        super().__init__(text)


class Numbers(Spout):
    """Sets one callback in `open`; another has an argument of its own. Raises no Exception once."""

    outputs = ["number"]

    def __init__(self):
        self.next, self.raised = 0, []
        self.acked, self.failed = [], {}

    def open(self, conf, context, collector):
        self.collector, self.count = collector, conf["count"]
        self.ack = self.note

    def note(self, msg_id):
        self.acked.append(msg_id)

    def fail(self, msg_id, delay=0.5):
        self.failed[msg_id] = delay

    def next_tuple(self):
        if self.next == self.count:
            return False
        if self.next == self.count // 2 and not self.raised:
            self.raised.append(self.next)
            raise asyncio.CancelledError("of a helper")
        self.collector.emit([self.next], msg_id=self.next)
        self.next += 1
        return True

    def is_exhausted(self):
        return self.next == self.count


class Orders(Numbers):
    pass


class Hours(Spout):
    """Says from the driver's process what the clock shows there, which it tries to end before."""

    outputs = ["hour"]
    pinned = True

    def __init__(self):
        self.is_done = self.has_exited = False

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if not self.has_exited:
            self.has_exited = True
            os._exit(3)
        if self.is_done:
            return False
        self.is_done = True
        self.collector.emit([time.localtime(0).tm_hour], msg_id=1)
        return True

    def is_exhausted(self):
        return self.is_done


class Compares(BasicBolt):
    def execute(self, tup, collector):
        self.state["pinned"], self.state["bolt"] = tup["hour"], time.localtime(0).tm_hour


class Makes(BasicBolt):
    """Each twentieth value can't be read where it arrives."""

    outputs = ["number", "value"]

    def execute(self, tup, collector):
        n = tup["number"]
        collector.emit([n, Unreadable(1, "text") if n % 20 == 7 else n])


class Keeps(BasicBolt):
    """Sets its callbacks in `prepare`."""

    def __init__(self):
        self.heard = set()

    def prepare(self, conf, context):
        for name in ("end_batch", "drain", "committed"):
            setattr(self, name, lambda _, name=name: self.heard.add(name))

    def execute(self, tup, collector):
        self.state[tup["number"]] = tup["value"]


class Prices(BasicBolt):
    def execute(self, tup, collector):
        self.state["newest"] = shapes.Price(str(tup["number"]), tup["number"])


class Holds(Bolt):
    """Acks nothing before there is the file `said`."""

    def __init__(self):
        self.held = []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        if not tup.is_tick():
            self.held.append(tup)
        elif pathlib.Path("said").exists():
            for held in self.held:
                self.collector.ack(held)
            self.held = []
'''
COUNT, AT_ONCE = 200, 40


def write_code(folder, shapes=SHAPES):
    (folder / "shapes.py").write_text(shapes)
    (folder / "parts.py").write_text(CODE)
    document = {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "authors"},
        "spec": {
            "code": {"folder": "."},
            "workers": 2,
            "maxSpoutPending": AT_ONCE,
            "env": [{"name": "TZ", "value": "Asia/Tokyo"}],
            "spouts": [
                {"name": "numbers", "class": "parts.Numbers", "config": {"count": COUNT}},
                {"name": "orders", "class": "parts.Orders", "config": {"count": 2 * AT_ONCE}},
                {"name": "hours", "class": "parts.Hours"},
            ],
            "bolts": [
                bolt("makes", "numbers", numTasks=2, parallelism=2),
                bolt("keeps", "makes", "fields", numTasks=2, parallelism=2),
                bolt("prices", "numbers"),
                bolt("holds", "orders", tickSeconds=1),
                bolt("compares", "hours"),
            ],
        },
    }
    (folder / "authors.yaml").write_text(yaml.safe_dump(document))


def bolt(name, source, grouping="shuffle", **settings):
    how = {"type": grouping, **({"fields": ["number"]} if grouping == "fields" else {})}
    inputs = [{"from": source, "grouping": how}]
    return {"name": name, "class": f"parts.{name.title()}", "inputs": inputs, **settings}
