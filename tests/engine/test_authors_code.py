"""What authors write and Storm or Python lets pass: it works, or is told, on real Spark as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fulmen.checkpoint import Store
from fulmen.engine.state.committed_state import read_state
from support.runs.spark_topologies import Committed

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


pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

RUN = [
    str(Path(sys.executable).with_name("fulmen")),
    *("run", "authors.yaml", "--checkpoint", "kept", "--until-drained"),
]
FULL = (
    f"'orders' emits nothing: {AT_ONCE} messages are pending, as many as maxSpoutPending allows,"
    " and none has ended for "
)


def run(folder, see=lambda _: None):
    """Run the topology. Returns the exit code, and all that was said, of which `see` sees lines."""
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
    said = []
    with subprocess.Popen(
        RUN,
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            said.append(line)
            see(line)
    return process.returncode, "".join(said)


def test_each_is_dealt_with_and_a_class_that_has_changed_is_noticed(tmp_path):
    write_code(tmp_path)
    code, said = run(tmp_path, lambda line: FULL in line and (tmp_path / "said").touch())
    assert code == 0, said
    assert "; 'holds' has not acked all that it received" in said
    store, committed = Store.open(str(tmp_path / "kept")), Committed(str(tmp_path / "kept"))
    bad = set(range(7, COUNT, 20))
    (numbers,) = committed.fields("numbers").values()
    assert sorted(numbers["acked"]) == [n for n in range(COUNT) if n not in bad]
    assert numbers["failed"] == dict.fromkeys(bad, 0.5)  # a delay, and no reason
    (orders,) = committed.fields("orders").values()
    assert sorted(orders["acked"]) == [*range(2 * AT_ONCE)]
    kept = read_state(store, "keeps").tasks.values()
    assert {n: value for task in kept for n, value in task.items()} == {
        n: n for n in range(COUNT) if n not in bad
    }
    assert [f["heard"] for f in committed.fields("keeps").values()] == [
        {"end_batch", "drain", "committed"}
    ] * 2
    assert "in 'makes', task " in said
    assert ": emit on stream 'default': the value of field 'value' can't be unpickled" in said
    assert "in 'hours', task " in said
    assert ": next_tuple: SystemExit: 3\n" in said
    assert ": next_tuple: CancelledError: of a helper\n" in said
    assert "is run again" not in said  # no batch came to nothing
    (hours,) = read_state(store, "compares").tasks.values()
    assert dict(hours) == {"pinned": 9, "bolt": 9}

    write_code(tmp_path, CHANGED_SHAPES)
    code, said = run(tmp_path)
    assert code == 1
    assert (
        "the fields of class shapes.Price were 'name', 'cents' when its values were written" in said
    )
