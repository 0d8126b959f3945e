"""Async bolts whose `execute` ends in other ways than by returning or by an ordinary exception."""

import asyncio
import subprocess
import sys

import pytest

from fulmen import BasicBolt, Bolt, TopologyBuilder
from fulmen.testing import ListSpout, run


class CancelsWhatItWaitsFor(BasicBolt):
    async def execute(self, tup, collector):
        if tup[0] == 1:
            waiting = asyncio.ensure_future(asyncio.sleep(10))
            waiting.cancel()
            await waiting


class IsCancelled(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    async def execute(self, tup):
        if tup[0] == 1:
            raise asyncio.CancelledError
        self.collector.ack(tup)


class CountsCalls(BasicBolt):
    max_concurrency = 0

    def __init__(self):
        self.calls = 0

    async def execute(self, tup, collector):
        self.calls += 1


def pipeline(bolt):
    b = TopologyBuilder("t")
    b.set_spout("source", ListSpout([[i] for i in range(4)], replays=False))
    b.set_bolt("bolt", bolt).shuffle_grouping("source")
    return b


@pytest.mark.parametrize("bolt", [CancelsWhatItWaitsFor, IsCancelled])
def test_a_cancelled_call_fails_its_tuple_and_no_batch(bolt):
    result = run(pipeline(bolt), at_most=200)
    assert [(i, "CancelledError" in why) for i, why in result.failed("source")] == [(1, True)]
    assert sorted(result.acked("source")) == [0, 2, 3]
    assert not result.notes


def test_a_concurrency_of_none_executes_every_tuple_all_the_same():
    assert run(pipeline(CountsCalls)).fields("bolt")["calls"] == 4


PARTS = """
import os, sys
from fulmen import BasicBolt, TopologyBuilder
from fulmen.testing import ListSpout, run

MAIN, CHILDREN = os.getpid(), []

class Exits(BasicBolt):
    async def execute(self, tup, collector):
        sys.exit(3)

class Forks(BasicBolt):
    async def execute(self, tup, collector):
        if child := os.fork():
            CHILDREN.append(child)

def topology(bolt):
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1, 2], replays=False))
    builder.set_bolt("bolt", bolt).shuffle_grouping("source")
    return builder
"""
EXITS = "from parts import *\nprint(run(topology(Exits)).failed('source'))"
EXITED = [(i, "bolt 'bolt': execute: SystemExit: 3") for i in range(2)]
FORKS = """
from parts import *
run(topology(Forks))
assert os.getpid() == MAIN
print(len(CHILDREN), {os.waitpid(child, 0)[1] for child in CHILDREN})
"""


@pytest.mark.slow
@pytest.mark.parametrize(("program", "told"), [(EXITS, f"{EXITED}\n"), (FORKS, "2 {0}\n")])
def test_a_call_that_exits_or_forks_does_not_hang(tmp_path, program, told):
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stdout) == (0, told), done.stderr
