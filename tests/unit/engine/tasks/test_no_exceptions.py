"""What an author's code raises and is no Exception is dealt with as an exception is."""

from asyncio import CancelledError

import pytest

from fulmen import BasicBolt, Bolt, CustomStreamGrouping, Sink, Spout, TopologyBuilder
from fulmen.errors import FulmenError
from fulmen.testing import CollectBolt, run


class PanicException(BaseException):
    """As an extension in Rust raises it."""


class Raises:
    """Raises once, in one method."""

    kind, method, count = ValueError, "", 0

    @classmethod
    def armed(cls, kind, method):
        Raises.kind, Raises.method, Raises.count = kind, method, 0

    def __getstate__(self):
        return {}


def may_raise(method):
    if method == Raises.method:
        Raises.count += 1
        if Raises.count == 1:
            raise Raises.kind("of a helper")


class Source(Spout):
    outputs = ("x",)

    def __init__(self):
        may_raise("spout __init__")
        self.emitted = 0

    def open(self, conf, context, collector):
        may_raise("open")
        self.collector = collector

    def activate(self):
        may_raise("activate")

    def next_tuple(self):
        may_raise("next_tuple")
        if self.emitted < 3:
            self.emitted += 1
            self.collector.emit([Value(self.emitted)], msg_id=self.emitted)

    def ack(self, msg_id):
        may_raise("ack")

    def fail(self, msg_id, reason):
        may_raise("fail")

    def is_exhausted(self):
        may_raise("is_exhausted")
        return self.emitted == 3

    def deactivate(self):
        may_raise("deactivate")

    def committed(self, number):
        may_raise("committed")

    def close(self):
        may_raise("close")


class Value:
    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        may_raise("__reduce__")
        return Value, (self.n,)

    def __repr__(self):
        may_raise("__repr__")
        return f"Value({self.n})"


class Plain(BasicBolt):
    outputs = ("n",)

    def prepare(self, conf, context):
        may_raise("prepare")

    def execute(self, tup, collector):
        may_raise("execute")
        collector.emit([tup["x"].n])

    def end_batch(self, collector):
        may_raise("end_batch")

    def drain(self, collector):
        may_raise("drain")

    def cleanup(self):
        may_raise("cleanup")


class Async(Plain):
    async def execute(self, tup, collector):
        may_raise("async execute")
        collector.emit([tup["x"].n])


class Anchors(Bolt):
    outputs = ("n",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        may_raise("anchoring execute")
        self.collector.emit([tup["x"].n], anchors=tup)
        self.collector.ack(tup)


class Write(Sink):
    def encode(self, rows):
        may_raise("encode")
        return rows

    def write(self, rows, mark):
        may_raise("write")


class Choice(CustomStreamGrouping):
    def prepare(self, context, stream, target_tasks):
        may_raise("grouping prepare")
        self.tasks = target_tasks

    def choose_tasks(self, task_id, values):
        may_raise("choose_tasks")
        return self.tasks[:1]


METHODS = {
    Plain: [
        *("spout __init__", "open", "activate", "next_tuple", "ack", "is_exhausted", "deactivate"),
        *("committed", "close", "prepare", "execute", "end_batch", "drain", "cleanup"),
        *("encode", "write", "grouping prepare", "choose_tasks", "__reduce__", "__repr__"),
    ],
    Async: ["async execute"],
    Anchors: ["anchoring execute"],
}


def outcome(kind, bolt, method):
    """What is said, without the exception's name, and what became of the tuples."""
    builder = TopologyBuilder(workers=2, max_replays=1)
    builder.set_spout("source", Source)
    builder.set_bolt("values", bolt, 2).custom_grouping("source", Choice)
    builder.set_bolt("repr", CollectBolt, 2).fields_grouping("source", ["x"])
    builder.set_bolt("write", Write).shuffle_grouping("values")
    Raises.armed(kind, method)
    try:
        result = run(builder)
    except FulmenError as error:
        said = str(error).partition("\nTraceback")[0]
        return said.replace(kind.__name__, "…"), Raises.count > 0
    said = [error.message.replace(kind.__name__, "…") for error in result.errors]
    return said, result.trees, Raises.count > 0


@pytest.mark.parametrize(
    ("bolt", "method"), [(bolt, method) for bolt, methods in METHODS.items() for method in methods]
)
def test_it_is_dealt_with_as_an_exception_is(bolt, method):
    expected = outcome(ValueError, bolt, method)
    assert expected[-1], "the method was not called"
    assert outcome(SystemExit, bolt, method) == expected


@pytest.mark.parametrize("kind", [CancelledError, PanicException, GeneratorExit])
@pytest.mark.parametrize(("bolt", "method"), [(Plain, "execute"), (Async, "async execute")])
def test_whatever_it_is_its_tuple_alone_fails(kind, bolt, method):
    said, trees, _ = outcome(kind, bolt, method)
    assert said == ["execute: …: of a helper"]
    assert (trees["acked"], trees["failed"]) == (2, 1)


def test_ctrl_c_is_none_of_the_authors_exceptions():
    with pytest.raises(KeyboardInterrupt):
        outcome(KeyboardInterrupt, Plain, "execute")
