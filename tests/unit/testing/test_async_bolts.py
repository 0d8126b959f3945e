"""Bolts that wait, alone in a test's process."""

import asyncio

import pytest

from fulmen import BasicBolt, Bolt
from fulmen.testing import BoltHarness


class Doubles(BasicBolt):
    outputs = ("n",)

    async def prepare(self, conf, context):
        self.ready = asyncio.Event()
        self.ready.set()

    async def execute(self, tup, collector):
        await self.ready.wait()
        await asyncio.sleep(0)
        collector.emit([2 * tup["n"]])


class Acks(Bolt):
    outputs = ("n",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    async def execute(self, tup):
        await asyncio.sleep(0)
        self.collector.emit([tup["n"]], anchors=tup)
        self.collector.ack(tup)


class Forgets(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        return asyncio.sleep(0)


@pytest.mark.parametrize(("kind", "emitted"), [(Doubles, [2, 4]), (Acks, [1, 2])])
def test_an_async_bolt_is_waited_for(kind, emitted):
    with BoltHarness(kind, fields=["n"]) as harness:
        tuples = [harness.execute([n]) for n in (1, 2)]
        assert [emit.values for emit in harness.emitted] == [[n] for n in emitted]
        assert harness.acked == tuples


def test_what_nobody_awaits_is_refused():
    harness = BoltHarness(Forgets, fields=["n"])
    with pytest.raises(TypeError, match="returned a coroutine that nobody awaits"):
        harness.execute([1])
    assert harness.acked == []
