"""Sinks whose code does what it should not, or that are no sinks any more."""

import decimal
import os
import subprocess
import sys
from collections import Counter

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.errors import CheckpointMismatch, TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run
from support.docs.pages import ROOT
from support.parts import sink_parts
from support.parts.sink_parts import Memory, MemorySink, Unrepeatable, emitted


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setattr(sink_parts, "MEMORY", Memory())
    return sink_parts.MEMORY


def topology(source, sink, guarantee="exactly-once"):
    b = TopologyBuilder("t")
    b.set_spout("source", source)
    b.set_bolt("sink", sink).shuffle_grouping("source").set_config({"guarantee": guarantee})
    b.set_bolt("errors", CollectBolt).shuffle_grouping("sink", "errors")
    return b


PARTS = """
import os
from support.parts.sink_parts import MemorySink

CHILDREN = []

class Forks(MemorySink):
    def write(self, rows, mark):
        super().write(rows, mark)
        if child := os.fork():
            CHILDREN.append(child)
"""
PROGRAM = """
import os
from fulmen import TopologyBuilder
from fulmen.testing import ListSpout, run
from parts import CHILDREN, Forks

b = TopologyBuilder("t")
b.set_spout("source", ListSpout(["a"]))
config = {"guarantee": "exactly-once"}
b.set_bolt("sink", Forks).shuffle_grouping("source").set_config(config)
run(b)
print([os.waitpid(child, 0)[1] for child in CHILDREN])
"""


@pytest.mark.slow
def test_a_child_ends_where_the_write_of_committed_rows_ends(tmp_path):
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        capture_output=True,
        text=True,
        timeout=50,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
    )
    assert (done.returncode, done.stdout) == (0, "[0]\n"), done.stderr


class Decimals(MemorySink):
    calls = 0

    def encode(self, rows):
        type(self).calls += 1
        if self.calls > 100:  # a batch that is tried again and again comes to an end
            return rows
        return [[decimal.Decimal(value)] for (value,) in rows]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_an_exception_of_a_librarys_own_in_encode_does_not_block_the_topology(
    guarantee, monkeypatch
):
    monkeypatch.setattr(Decimals, "calls", 0)
    source = ListSpout([["1"], ["one"]], replays=False)
    result = run(topology(source, Decimals, guarantee), at_most=200)
    assert any("encode: InvalidOperation" in why for _, why in result.failed("source"))


class NoSink(BasicBolt):
    outputs = MemorySink.outputs

    def execute(self, tup, collector): ...


def test_a_bolt_in_the_place_of_a_sink_does_not_drop_rows_that_are_not_written_yet(memory):
    source = Unrepeatable(rounds=200)
    built = topology(source, MemorySink)
    stopped = run(built, until=lambda result: result.trees["acked"] > 20)
    assert emitted(stopped) - Counter(memory.rows)
    with pytest.raises(TopologyFailed, match="'sink' was a sink"):
        run(topology(source, NoSink), checkpoint=stopped)
    result = run(built, checkpoint=stopped)
    assert Counter(memory.rows) == emitted(result)
    run(topology(source, NoSink), checkpoint=result)


def test_a_sink_that_is_left_out_does_not_take_rows_with_it_that_are_not_written_yet(memory):
    source = Unrepeatable(rounds=200)
    stopped = run(topology(source, MemorySink), until=lambda result: result.trees["acked"] > 20)
    assert emitted(stopped) - Counter(memory.rows)
    without = TopologyBuilder("t")
    without.set_spout("source", source)
    without.set_bolt("errors", CollectBolt).shuffle_grouping("source")
    with pytest.raises(CheckpointMismatch, match="sink 'sink' is not in this topology any more"):
        run(without, checkpoint=stopped)


class Unpicklable(MemorySink):
    def encode(self, rows):
        return [lambda: None for _ in rows]


class NotReadAgain(Exception):
    def __init__(self, row, why):
        super().__init__(why)


class OddRows(MemorySink):
    """Makes of two of its rows what can't be kept."""

    def encode(self, rows):
        odd = {"lambda": lambda: None, "error": NotReadAgain("b", "odd")}
        return [[odd.get(value, value)] for (value,) in rows]


def test_a_row_that_can_not_be_kept_for_the_commit_fails_alone(memory):
    source = ListSpout([["a"], ["lambda"], ["error"], ["d"]], replays=False)
    result = run(topology(source, OddRows))
    assert memory.rows == ["a", "d"]
    failed = dict(result.failed("source"))
    assert failed.keys() == {1, 2}
    assert "encode: what it made of the row can't be kept in the checkpoint: " in failed[1]
    assert "can be pickled, but not unpickled again: TypeError: NotReadAgain" in failed[2]
    assert len(result.errors) == 2
    assert not result.notes


class FailsWithExceptions(MemorySink):
    def encode(self, rows):
        rows.fail(1, ValueError("it is odd"))
        return rows


@pytest.mark.parametrize(("sink", "why"), [(Unpicklable, "encode: "), (FailsWithExceptions, "odd")])
def test_what_encode_returns_or_fails_with_is_the_rows_mistake_and_not_the_batchs(sink, why):
    result = run(topology(ListSpout([["a"], ["b"]], replays=False), sink), at_most=200)
    assert why in dict(result.failed("source"))[1]
    assert not result.notes


class WithoutErrors(MemorySink):
    outputs = ()


def test_a_sink_without_the_stream_errors_tells_what_was_refused_and_goes_on(memory):
    b = TopologyBuilder("t")
    b.set_spout("source", ListSpout([["a"], ["bad"]], replays=False))
    sink = b.set_bolt("sink", WithoutErrors).shuffle_grouping("source")
    sink.set_config({"guarantee": "exactly-once"})
    result = run(b)
    assert memory.rows == ["a"]
    assert "1 of 2 rows were refused" in str(result.errors[0])
    assert not result.notes
