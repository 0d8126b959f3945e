"""Authors' code that forks, with a child that returns as its parent does."""

import subprocess
import sys

import pytest

PARTS = """
import os
from fulmen import ArrowBolt, BasicBolt, Bolt
from fulmen.testing import ListSpout

MAIN, CHILDREN, WHERE = os.getpid(), [], []

def fork(where):
    assert os.getpid() == MAIN, f"a child is in {where}"
    WHERE.append(where)
    if (child := os.fork()) != 0:
        CHILDREN.append(child)
    elif where.startswith("raises"):
        raise ValueError("of a child")

class Source(ListSpout):
    def open(self, *args):
        super().open(*args)
        fork("open")
    def next_tuple(self):
        super().next_tuple()
        fork("next_tuple")
    def ack(self, msg_id):
        super().ack(msg_id)
        fork("ack")
    def close(self):
        fork("close")

class Anchors(Bolt):
    outputs = ["value"]
    def prepare(self, conf, context, collector):
        self.collector = collector
    def execute(self, tup):
        self.collector.emit(tup.values, anchors=tup)
        self.collector.ack(tup)
        fork("execute")
        fork("raises in execute")

class Basic(BasicBolt):
    outputs = ["value"]
    def execute(self, tup, collector):
        collector.emit(tup.values)
        fork("basic execute")
    def drain(self, collector):
        fork("drain")

class Arrow(ArrowBolt):
    outputs = ["value"]
    def execute(self, batch, collector):
        collector.emit(batch)
        fork("arrow execute")

"""

PROGRAM = """
import os
from fulmen import TopologyBuilder
from fulmen.testing import CollectBolt, run
from parts import CHILDREN, MAIN, WHERE, Anchors, Arrow, Basic, Source

builder = TopologyBuilder()
builder.set_spout("source", Source([1, 2, 3]))
builder.set_bolt("anchors", Anchors).shuffle_grouping("source")
builder.set_bolt("basic", Basic).shuffle_grouping("anchors")
builder.set_bolt("arrow", Arrow).shuffle_grouping("basic")
builder.set_bolt("sink", CollectBolt).shuffle_grouping("arrow")
result = run(builder)
assert os.getpid() == MAIN, "a child has left the topology"
assert [value for (value,) in result.collected("sink")] == [1, 2, 3]
assert sorted(result.acked("source")) == [0, 1, 2]
assert result.errors == []
codes = {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in CHILDREN}
assert codes == {0}, codes
print(*sorted(set(WHERE)), sep="\\n")
"""


@pytest.mark.slow
def test_a_child_ends_where_the_callback_ends(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    (tmp_path / "parts.py").write_text(PARTS)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=50)

    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines() == [
        *("ack", "arrow execute", "basic execute", "close", "drain", "execute", "next_tuple"),
        *("open", "raises in execute"),
    ]
