"""Methods that are not async, and return what nobody awaits: an error, and no lost work."""

from functools import partialmethod

import pytest

from fulmen import (
    ArrowBolt,
    BasicBolt,
    BatchBolt,
    Bolt,
    TopologyBuilder,
    TransactionalTopologyBuilder,
)
from fulmen.errors import TopologyFailed
from fulmen.testing import ListSpout, run
from support.transactional_sources import Rows

TEXT = (
    "TypeError: it returned a coroutine that nobody awaits, so its work is not done. Await it in"
    " `async def execute`, or, where that can't be async, run it by asyncio.run"
)


async def looks_up(*_):
    raise AssertionError("nobody awaits it")


class CallsWithoutAwait(BasicBolt):
    def execute(self, tup, collector):
        return looks_up(tup)


class IsALambda(BasicBolt):
    execute = lambda self, tup, collector: looks_up(tup)  # noqa: E731


class IsAPartial(BasicBolt):
    async def look_up(self, how, tup, collector):
        raise AssertionError("nobody awaits it")

    execute = partialmethod(look_up, "fast")


class Anchors(Bolt):
    def execute(self, tup):
        return looks_up(tup)


class ReturnsRows(BasicBolt):
    """What a call returns beside an awaitable is of no use, and does no harm."""

    def execute(self, tup, collector):
        return [tup[0]]


class EndsWithoutAwait(BasicBolt):
    def execute(self, tup, collector):
        pass

    def end_batch(self, collector):
        return looks_up()


class OfColumns(ArrowBolt):
    def execute(self, batch, collector):
        return looks_up()


def pipeline(bolt):
    b = TopologyBuilder("t")
    b.set_spout("source", ListSpout([[i] for i in range(3)], replays=False))
    b.set_bolt("bolt", bolt).shuffle_grouping("source")
    return b


@pytest.mark.parametrize("bolt", [CallsWithoutAwait, IsALambda, IsAPartial, Anchors, OfColumns])
def test_a_coroutine_that_a_plain_execute_returns_fails_its_tuple(bolt):
    result = run(pipeline(bolt))
    reason = f"bolt 'bolt': execute: {TEXT}"
    assert dict(result.failed("source")) == dict.fromkeys(range(3), reason)
    assert not result.acked("source")


def test_other_results_of_execute_are_ignored():
    assert sorted(run(pipeline(ReturnsRows)).acked("source")) == [0, 1, 2]


def test_a_coroutine_that_end_batch_returns_is_an_error():
    result = run(pipeline(EndsWithoutAwait))
    assert sorted(result.acked("source")) == [0, 1, 2]
    assert {e.message for e in result.errors} == {f"end_batch: {TEXT}"}


class OfTransactions(BatchBolt):
    def prepare(self, conf, context, collector, attempt):
        pass

    def execute(self, tup):
        return looks_up()

    def finish_batch(self):
        pass


class AsyncInTransactions(BasicBolt):
    async def execute(self, tup, collector):
        raise AssertionError("nobody awaits it")


@pytest.mark.parametrize("bolt", [OfTransactions, AsyncInTransactions])
def test_a_coroutine_in_a_transactional_topology_fails_its_transaction(bolt):
    builder = TransactionalTopologyBuilder("t", "rows", Rows(("ab",)), on_error="crash")
    builder.set_bolt("bolt", bolt).shuffle_grouping("rows")
    with pytest.raises(TopologyFailed, match=f"execute: {TEXT}"):
        run(builder)
