"""Bolts with `async def execute`: many tuples wait side by side, and a chunk ends when all have."""

import asyncio
import threading

import pytest

from fulmen import BasicBolt, Bolt, FailedException, TopologyBuilder
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import CollectBolt, ListSpout, run


class Looks:
    """How many calls are under way, at most, and on which threads."""

    under_way = most = 0
    threads = ()
    gate = None

    @classmethod
    def begin(cls):
        cls.under_way = cls.most = 0
        cls.threads = set()
        cls.gate = None


@pytest.fixture(autouse=True)
def looks():
    Looks.begin()


async def look_up(value, together):
    """Returns when as many calls are under way as there can be: without that it would never."""
    Looks.under_way += 1
    Looks.most = max(Looks.most, Looks.under_way)
    Looks.threads.add(threading.current_thread().name)
    if Looks.under_way == together:
        Looks.gate.set()
    await Looks.gate.wait()
    Looks.under_way -= 1
    return value * 10


class LooksUp(BasicBolt):
    """Answers come in the reverse order."""

    outputs = ("value",)
    max_concurrency = 8

    async def prepare(self, conf, context):
        Looks.gate = asyncio.Event()  # of the loop that `execute` runs on

    async def execute(self, tup, collector):
        value = await look_up(tup[0], 4)
        for _ in range(10 - tup[0]):
            await asyncio.sleep(0)
        if tup[0] == 2:
            raise FailedException("two")
        if tup[0] == 3:
            raise ValueError("three")
        collector.emit([value])
        await asyncio.sleep(0)
        collector.emit([value + 1])

    async def cleanup(self):
        Looks.threads.add("cleanup")


class Acks(Bolt):
    """Acks and fails later than it began."""

    outputs = ("value",)

    async def prepare(self, conf, context, collector):
        self.collector = collector
        Looks.gate = asyncio.Event()

    async def execute(self, tup):
        value = await look_up(tup[0], 4)
        if tup[0] == 2:
            raise FailedException("two")
        if tup[0] == 3:
            self.collector.fail(tup, "three")
            return
        self.collector.emit([value], anchors=tup)
        self.collector.ack(tup)


class OneByOne(LooksUp):
    max_concurrency = 1

    async def execute(self, tup, collector):
        await look_up(tup[0], 1)
        collector.emit([tup[0]])


def pipeline(bolt, values=4, **spec):
    b = TopologyBuilder("t", **spec)
    b.set_spout("source", ListSpout([[i] for i in range(values)], replays=False))
    b.set_bolt("bolt", bolt).shuffle_grouping("source")
    b.set_bolt("end", CollectBolt).global_grouping("bolt")
    return b


def test_tuples_wait_side_by_side_and_their_emits_leave_in_their_order():
    result = run(pipeline(LooksUp))
    assert Looks.most == 4
    assert [row[0] for row in result.collected("end")] == [0, 1, 10, 11]
    assert sorted(result.acked("source")) == [0, 1]
    reasons = dict(result.failed("source"))
    assert reasons[2] == "two"
    assert "three" in reasons[3]
    assert Looks.threads == {"fulmen-async", "cleanup"}


def test_a_bolt_that_acks_itself_may_do_so_when_it_has_waited():
    result = run(pipeline(Acks))
    assert sorted(row[0] for row in result.collected("end")) == [0, 10]
    assert sorted(result.acked("source")) == [0, 1]
    assert sorted(result.failed("source")) == [(2, "two"), (3, "three")]


def test_at_most_max_concurrency_calls_are_under_way():
    result = run(pipeline(OneByOne, values=20))
    assert Looks.most == 1
    assert [row[0] for row in result.collected("end")] == list(range(20))


def test_an_exception_in_async_execute_crashes_a_topology_that_asks_for_it():
    with pytest.raises(TopologyFailed, match="three"):
        run(pipeline(LooksUp, on_error="crash"))


class AsyncEnd(BasicBolt):
    def execute(self, tup, collector): ...

    async def end_batch(self, collector): ...


def test_other_methods_can_not_be_async():
    with pytest.raises(ValidationFailed, match="end_batch is async"):
        run(pipeline(AsyncEnd))
