"""Methods that are not async, and return what nobody awaits: an error, and no lost work."""

from functools import partialmethod

import pytest

from fulmen import (
    ArrowBolt,
    BasicBolt,
    BatchBolt,
    Bolt,
    Spout,
    TopologyBuilder,
    TransactionalTopologyBuilder,
)
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run
from support.transactions.sources import Rows

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
    """As in other frameworks."""

    def execute(self, tup, collector):
        return [[tup[0]]]


def timed(method):
    """Hides from validation what kind of method it is."""

    def around(self, *args):
        return method(self, *args)

    return around


class YieldsRows(BasicBolt):
    @timed
    def execute(self, tup, collector):
        yield [tup[0]]


class YieldsLater(BasicBolt):
    @timed
    async def execute(self, tup, collector):
        yield [tup[0]]


class AnchorsAndReturns(Bolt):
    def execute(self, tup):
        return tup[0] + 1


class AsyncReturnsRows(BasicBolt):
    async def execute(self, tup, collector):
        return [[tup[0]]]


class AsyncReturnsNumber(Bolt):
    async def execute(self, tup):
        return tup[0] + 1


class ReturnsColumns(ArrowBolt):
    def execute(self, batch, collector):
        return batch


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


YIELDS = (
    " that nobody runs, so its work is not done. Write the method without `yield`: emit each tuple"
    " with `collector.emit([...])`"
)
GOES_NOWHERE = (
    ", which goes nowhere. Emit each tuple with `collector.emit([...])`, and return nothing"
)


@pytest.mark.parametrize(
    ("bolt", "what"),
    [
        pytest.param(ReturnsRows, f"a list{GOES_NOWHERE}", id="rows"),
        pytest.param(AnchorsAndReturns, f"an int{GOES_NOWHERE}", id="a-number"),
        pytest.param(AsyncReturnsRows, f"a list{GOES_NOWHERE}", id="rows-of-an-async-one"),
        pytest.param(AsyncReturnsNumber, f"an int{GOES_NOWHERE}", id="a-number-of-an-async-one"),
        pytest.param(ReturnsColumns, f"a RecordBatch{GOES_NOWHERE}", id="a-batch"),
        pytest.param(YieldsRows, f"a generator{YIELDS}", id="a-generator"),
        pytest.param(YieldsLater, f"an async_generator{YIELDS}", id="an-async-generator"),
    ],
)
def test_a_tuple_fails_whose_execute_returns_what_goes_nowhere(bolt, what):
    result = run(pipeline(bolt))
    reason = f"bolt 'bolt': execute: TypeError: it returned {what}"
    assert dict(result.failed("source")) == dict.fromkeys(range(3), reason)
    assert not result.acked("source")


class Five(Spout):
    outputs = ("n",)

    def __init__(self):
        self.next = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.next < 5:
            self.next += 1
            self.collector.emit([self.next], msg_id=self.next)

    def is_exhausted(self):
        return self.next == 5


class Mistaken(Five):
    """Does all but one thing well."""


@pytest.fixture
def mistaken(monkeypatch):
    """Makes the spout do one thing otherwise."""
    return lambda name, method: monkeypatch.setattr(Mistaken, name, method, raising=False)


def spouting():
    b = TopologyBuilder("t")
    b.set_spout("source", Mistaken)
    b.set_bolt("bolt", CollectBolt).shuffle_grouping("source")
    return b


@timed
async def is_async(self, *_):
    raise AssertionError("nobody awaits it")


@timed
def yields(self, *_):
    yield


def returns(self):
    return [[1]]


@pytest.mark.parametrize(
    ("method", "what"),
    [
        pytest.param(returns, f"a list{GOES_NOWHERE}", id="rows"),
        pytest.param(yields, f"a generator{YIELDS}", id="a-generator"),
        pytest.param(is_async, "a coroutine that nobody awaits", id="a-coroutine"),
    ],
)
def test_what_next_tuple_returns_and_nobody_takes_is_an_error(mistaken, method, what):
    mistaken("next_tuple", method)
    result = run(spouting(), batches=1)
    [error] = result.errors
    assert error.message.startswith(f"next_tuple: TypeError: it returned {what}")


@pytest.mark.parametrize("name", ["open", "activate", "ack", "is_exhausted"])
@pytest.mark.parametrize("method", [is_async, yields])
def test_another_method_of_a_spout_that_has_not_run_stops_the_topology(mistaken, name, method):
    mistaken(name, method)
    with pytest.raises(TopologyFailed, match=f"{name}: TypeError: it returned a (corout|generat)"):
        run(spouting(), at_most=9)


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


def test_a_coroutine_in_a_transactional_topology_fails_its_transaction():
    builder = TransactionalTopologyBuilder("t", "rows", Rows(("ab",)), on_error="crash")
    builder.set_bolt("bolt", OfTransactions).shuffle_grouping("rows")
    with pytest.raises(TopologyFailed, match=f"execute: {TEXT}"):
        run(builder)
