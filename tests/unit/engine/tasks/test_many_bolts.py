"""Bolts that receive and emit by the list: what comes of each tuple is as if it were alone."""

import pytest

from fulmen import BasicBolt, FailedException, ManyBolt, TopologyBuilder
from fulmen.errors import CollectorError, TopologyFailed
from fulmen.testing import BoltHarness, CollectBolt, ListSpout, run
from support.parts.hooks import HOOKS, OUTPUTS, Hooked, Topology, hooks, messages
from support.runs.bolt_runs import OUTSIDE, WHO


class Many(Hooked, ManyBolt):
    outputs = OUTPUTS

    def prepare(self, conf, context):
        self.begin(conf, context, "prepare")

    def execute_many(self, tuples, collector):
        return self.call("execute_many", tuples, collector)


class ManyAndOne(Many):
    def execute(self, tup, collector):
        self.call("execute", tup, collector)


def through(execute_many, values=("a", "b", "c"), **options):
    return Topology(Many, list(values)).run(functions={"execute_many": execute_many}, **options)


def test_rows_that_are_one_to_one_need_no_parents():
    def execute_many(bolt, tuples, collector):
        assert (tuples.component, tuples.stream) == ("source", "default")
        assert list(tuples.fields) == ["x"]
        assert list(tuples) == [[x] for x in tuples.column("x")]
        assert [tuples.tuple(i)["x"] for i in range(len(tuples))] == tuples.column("x")
        collector.emit_many([[x * 2] for x in tuples.column("x")])

    result = through(execute_many)
    assert result.collected("sink") == [["aa"], ["bb"], ["cc"]]
    assert sorted(result.acked("source")) == [0, 1, 2]


def test_each_row_belongs_to_the_tree_of_its_parent():
    def execute_many(bolt, tuples, collector):
        for of in (("a", "b"), ("c",)):
            places = [i for i, (x,) in enumerate(tuples) if x in of for _ in of]
            collector.emit_many([[tuples[i][0]] for i in places], parents=places)

    def fail_one(bolt, tup, collector):
        if tup["x"] == "b":
            raise FailedException("not this one")

    topology = Topology(Many, ["a", "b", "c"])
    topology.builder.set_bolt("broken", HookedBasic).set_config(
        hooks(execute=fail_one)
    ).shuffle_grouping("bolt")
    result = topology.run(functions={"execute_many": execute_many})
    assert [x for [x] in result.collected("sink")] == ["a", "a", "b", "b", "c"]
    assert result.failed("source") == [(1, "not this one")]
    assert sorted(result.acked("source")) == [0, 2]


class HookedBasic(ManyAndOne):
    """Leaves all tuples to `execute`."""

    def execute_many(self, tuples, collector):
        return range(len(tuples))


def test_a_tuple_that_is_failed_fails_alone():
    def execute_many(bolt, tuples, collector):
        for i, (x,) in enumerate(tuples):
            if x != "a":
                collector.fail(i, f"{x} is wrong" if x == "b" else None)
                collector.fail(i, "too late")
        collector.emit_many(tuples)

    result = through(execute_many)
    assert result.acked("source") == [0]
    assert sorted(result.failed("source")) == [(1, "b is wrong"), (2, "failed by the bolt")]
    assert messages(result) == []
    assert result.report["components"]["bolt"]["failed"] == 2


@pytest.mark.parametrize("error", [ValueError("no"), FailedException("no")])
def test_an_exception_fails_all_that_have_not_failed_before(error):
    def execute_many(bolt, tuples, collector):
        collector.fail(1, "its own reason")
        raise error

    result = through(execute_many)
    is_reported = isinstance(error, ValueError)
    text = "execute: ValueError: no"
    reason = f"bolt 'bolt': {text}" if is_reported else "no"
    assert sorted(result.failed("source")) == [(0, reason), (1, "its own reason"), (2, reason)]
    assert result.report["components"]["bolt"]["failed"] == 3
    assert messages(result) == ([text] if is_reported else [])


def test_with_on_error_crash_an_exception_stops_the_topology():
    topology = Topology(Many, ["a"], on_error="crash")
    with pytest.raises(TopologyFailed, match="ValueError: no"):
        topology.run(functions={"execute_many": lambda *_: raise_(ValueError("no"))})


def raise_(error):
    raise error


def test_execute_gets_ticks_and_the_tuples_that_are_left_and_the_order_of_emits_stays():
    def execute_many(bolt, tuples, collector):
        xs = tuples.column("x")
        collector.emit_many([[x] for x in xs if x != "b"], parents=[0, 2])
        return [1]

    def execute(bolt, tup, collector):
        if not tup.is_tick():
            collector.emit([tup["x"]])
            collector.emit([tup["x"]])

    def fail_one(bolt, tup, collector):
        if tup["x"] == "c":
            raise FailedException("not this one")

    topology = Topology(ManyAndOne, ["a", "b", "c"])
    topology.builder._bolts["bolt"]["tickSeconds"] = 1
    topology.builder.set_bolt("broken", HookedBasic).set_config(
        hooks(execute=fail_one)
    ).shuffle_grouping("bolt")
    result = topology.run(functions={"execute_many": execute_many, "execute": execute})
    assert result.collected("sink") == [["a"], ["c"], ["b"], ["b"]]
    assert sorted(result.acked("source")) == [0, 1]
    assert result.failed("source") == [(2, "not this one")]
    assert messages(result) == []


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda c: c.emit_many([["x"]]),
            f"{WHO}: emit_many of 1 rows for 3 tuples without `parents`. Give `parents`: for each"
            " row, the number of the tuple that it is anchored to",
        ),
        (
            lambda c: c.emit_many([["x"]], parents=[0, 1]),
            f"{WHO}: emit_many of 1 rows. Give `parents`: for each row, the number of the tuple"
            " that it is anchored to",
        ),
        (
            lambda c: c.emit_many([["x"]], parents=[3]),
            f"{WHO}: `parents` must be numbers from 0 to 2",
        ),
        (
            lambda c: c.emit_many([["x"], ["x", "y"]], parents=[0, 1]),
            f"{WHO}: emit of ['x', 'y'] on stream 'default', which has the fields ['x']. Emit a"
            " list with one value for each field, such as [x]",
        ),
        (
            lambda c: c.emit_many([["x"], "y"], parents=[0, 1]),
            f"{WHO}: emit('y'): the values must be a list or a tuple, such as ['y']",
        ),
        (
            lambda c: c.emit_many([["x"]], "to-task", [0]),
            f"{WHO}: stream 'to-task' is direct: use emit_direct(task, ...)",
        ),
        (lambda c: c.fail(3), f"{WHO}: fail of tuple 3, but there are 3, numbered from 0"),
    ],
)
def test_a_wrong_call_says_what_is_wrong_and_sends_nothing(call, text):
    result = through(lambda bolt, tuples, collector: call(collector))
    assert messages(result) == [f"execute: {text}"]
    assert len(result.failed("source")) == 3
    assert result.collected("sink") == []


@pytest.mark.parametrize("returned", [[0, 0], [3], [-1], "no", [True, 1.0]])
def test_an_answer_that_is_no_positions_fails_all(returned):
    result = through(lambda *_: returned)
    assert len(result.failed("source")) == 3
    assert "must return nothing, or ascending numbers" in messages(result)[0]


def test_a_collector_that_is_kept_can_not_be_used_later():
    heard = []

    def execute_many(bolt, tuples, collector):
        kept = HOOKS.setdefault("kept collector", collector)
        if kept is not collector:
            with pytest.raises(CollectorError) as caught:
                kept.fail(0)
            heard.append(str(caught.value))

    Topology(Many, ["a", "b"], max_spout_pending=1).run(functions={"execute_many": execute_many})
    assert heard == [OUTSIDE]


class Words(ManyBolt):
    outputs = ("word",)

    def execute_many(self, tuples, collector):
        rows, parents = [], []
        for i, (text,) in enumerate(tuples):
            if not text:
                collector.fail(i, "empty")
            for word in text.split():
                rows.append([word])
                parents.append(i)
        collector.emit_many(rows, parents=parents)


class Left(ManyBolt):
    """Leaves each second tuple to `execute`, which emits twice."""

    outputs = ("x",)

    def execute_many(self, tuples, collector):
        parents = range(0, len(tuples), 2)
        collector.emit_many([tuples[i] for i in parents], parents=parents)
        return range(1, len(tuples), 2)

    def execute(self, tup, collector):
        collector.emit(tup.values)
        collector.emit(tup.values)


class Refuse(BasicBolt):
    def execute(self, tup, collector):
        raise FailedException(tup[0])


def test_what_both_methods_emit_belongs_to_the_tree_of_its_tuple():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(["a", "b", "c", "d", "e"], replays=False))
    builder.set_bolt("left", Left).shuffle_grouping("source")
    builder.set_bolt("refuse", Refuse).shuffle_grouping("left")
    result = run(builder)
    assert sorted(result.failed("source")) == list(enumerate("abcde"))


@pytest.mark.parametrize("workers", [1, 2])
def test_words_of_lines(workers):
    builder = TopologyBuilder(workers=workers)
    builder.set_spout("lines", ListSpout(["a b", "", "c"], fields=["line"], replays=False))
    builder.set_bolt("words", Words, 2).shuffle_grouping("lines")
    builder.set_bolt("sink", CollectBolt).fields_grouping("words", ["word"])
    result = run(builder)
    assert sorted(result.collected("sink")) == [["a"], ["b"], ["c"]]
    assert sorted(result.acked("lines")) == [0, 2]
    assert result.failed("lines") == [(1, "empty")]


def test_one_tuple_alone_in_a_harness():
    with BoltHarness(Words, fields=["line"]) as bolt:
        good, bad = bolt.execute(["a b"]), bolt.execute([""])
        bolt.tick()
        assert [one.values for one in bolt.emitted] == [["a"], ["b"]]
        assert bolt.acked[0] is good
        assert bolt.failed == [(bad, "empty")]
