"""fulmen.testing.BoltHarness: one bolt alone."""

import pyarrow as pa
import pytest

from fulmen import ArrowBolt, BasicBolt, Bolt, FailedException, Stream
from fulmen.errors import CollectorError, StreamError
from fulmen.testing import BoltHarness


class WordCount(BasicBolt):
    outputs = ("word", "count")

    def execute(self, tup, collector):
        if tup.is_tick():
            collector.emit(["tick", tup[0]])
            return
        if tup["value"] == "bad":
            raise FailedException("bad word")
        if tup["value"] == "worse":
            raise KeyError("worse")
        self.state[tup["value"]] = count = self.state.get(tup["value"], 0) + 1
        collector.emit([tup["value"], count])


class Pairs(Bolt):
    """Joins two tuples each."""

    def __init__(self, separator=" "):
        self.separator = separator

    def declare_output_fields(self, declarer):
        declarer.declare(["pair"])
        declarer.declare_stream("to-task", ["x"], direct=True)

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.context = context
        self.waiting = []
        self.limit = conf.get("limit", 2)

    def execute(self, tup):
        if tup.is_tick():
            for waiting in self.waiting:
                self.collector.reset_timeout(waiting)
            return
        self.waiting.append(tup)
        if len(self.waiting) == self.limit:
            text = self.separator.join(t["value"] for t in self.waiting)
            self.collector.emit([text], anchors=self.waiting)
            self.collector.emit_direct(7, [text], "to-task")
            for waiting in self.waiting:
                self.collector.ack(waiting)
            self.waiting.clear()
            self.collector.report_error("a pair")


class Doubled(ArrowBolt):
    outputs = ("value",)
    cleaned = False

    def execute(self, batch, collector):
        numbers = batch["value"].to_pylist()
        assert collector.source == ("source", "default")
        collector.emit(pa.record_batch({"value": [2 * n for n in numbers]}))
        bad = [i for i, n in enumerate(numbers) if n < 0]
        if bad:
            collector.fail(bad, "negative")

    def tick(self, collector):
        collector.emit(pa.record_batch({"value": [0]}))

    def cleanup(self):
        self.cleaned = True


def test_a_basic_bolt():
    with BoltHarness(WordCount) as harness:
        first = harness.execute(["a"])
        harness.execute(["a"])
        assert [e.values for e in harness.emitted] == [["a", 1], ["a", 2]]
        assert harness.emitted[0].anchors == (first,)
        assert harness.acked[0] is first
        assert harness.state == {"a": 2}


def test_failed_exceptions_fail_and_others_are_raised():
    harness = BoltHarness(WordCount())
    bad = harness.execute(["bad"])
    assert harness.failed == [(bad, "bad word")]
    with pytest.raises(KeyError, match="worse"):
        harness.execute(["worse"])
    assert harness.acked == []


def test_a_bolt_that_anchors_and_acks_itself():
    harness = BoltHarness(Pairs("-"), conf={"limit": 2})
    first = harness.execute(["a"])
    harness.tick()
    assert (harness.resets, harness.acked) == ([first], [])
    second = harness.execute(["b"])
    joined, direct = harness.emitted
    assert (joined.values, joined.anchors, joined.task) == (["a-b"], (first, second), None)
    assert (direct.stream, direct.anchors, direct.task) == ("to-task", (), 7)
    assert harness.acked == [first, second]
    assert harness.errors == ["a pair"]


def test_a_restart_keeps_what_a_topology_would_keep():
    harness = BoltHarness(Pairs())
    harness.execute(["a"])
    before = harness.bolt
    harness.restart()
    assert harness.bolt is not before
    harness.execute(["b"])
    assert harness.emitted[0].values == ["a b"]
    counting = BoltHarness(WordCount)
    for _ in range(3):
        counting.execute(["a"])
        counting.restart()
    assert counting.state == {"a": 3}


def test_fields_survive_restarts_between_which_nothing_changes():
    harness = BoltHarness(Pairs())
    harness.execute(["a"])
    harness.restart()
    harness.restart()
    harness.execute(["b"])
    assert [e.values for e in harness.emitted if e.stream == "default"] == [["a b"]]


def test_what_a_restart_would_lose_is_told():
    harness = BoltHarness(WordCount)
    harness.bolt.handle = (x for x in ())
    harness.restart()
    assert "field 'handle' can't be pickled" in harness.errors[0]


def test_a_bolt_of_batches():
    with BoltHarness(Doubled) as harness:
        bolt = harness.bolt
        one, two = harness.execute_batch(pa.record_batch({"value": [1, -1]}))
        three = harness.execute([3])
        assert [(e.values, e.anchors) for e in harness.emitted] == [
            ((2,), (one,)),
            ((-2,), (two,)),
            ((6,), (three,)),
        ]
        assert (harness.acked, harness.failed) == ([one, three], [(two, "negative")])
        harness.tick()
        assert harness.emitted[-1].anchors == ()
    assert bolt.cleaned


def test_ticks():
    harness = BoltHarness(WordCount)
    harness.tick(5.0)
    assert harness.emitted[0].values == ["tick", 5.0]


def test_mistakes_are_those_of_a_topology():
    class Wrong(BasicBolt):
        outputs = {"default": ["x"], "direct": Stream(("x",), direct=True)}  # noqa: RUF012

        def execute(self, tup, collector):
            self.collector = collector
            collector.emit(*tup["value"])

    harness = BoltHarness(Wrong, name="wrong")
    for args, text in (
        ((["a", "b"],), "bolt 'wrong', task 2: emit of ['a', 'b'] on stream 'default'"),
        (("a",), "bolt 'wrong', task 2: emit"),
        ((["a"], "nowhere"), "bolt 'wrong', task 2: emit on stream 'nowhere'"),
        ((["a"], "direct"), "bolt 'wrong', task 2: stream 'direct' is direct"),
    ):
        with pytest.raises(StreamError) as error:
            harness.execute([args])
        assert str(error.value).startswith(text)
    with pytest.raises(CollectorError):
        harness.bolt.collector.emit(["x"])


def test_tuples_have_the_fields_and_the_source_that_are_wanted():
    harness = BoltHarness(Pairs, fields=["value", "n"], component="words", stream="long")
    tup = harness.execute(["a", 1])
    assert (tup.component, tup.stream, tup["n"], tup.task) == ("words", "long", 1, 1)
    assert harness.bolt.context.sources == (("words", "long"),)
    with pytest.raises(ValueError, match="is not a list of values for the fields"):
        harness.execute(["a"])
