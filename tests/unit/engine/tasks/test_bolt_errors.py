"""Exceptions in bolts, and what they fail."""

import pytest

from fulmen import FailedException, ReportedFailedException
from fulmen.engine.emitting.collectors.bolt_collectors import EXPLICIT
from fulmen.errors import TopologyFailed
from fulmen.testing import EOF, CollectBolt, run
from support.parts.hooks import (
    Fragile,
    HookArrowBolt,
    HookBasicBolt,
    HookBolt,
    Topology,
    messages,
    with_bolt,
)
from support.runs.bolt_runs import WHO, raises_at


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt])
def test_an_exception_fails_its_tuple_and_is_reported(kind):
    result = with_bolt(raises_at("b", ValueError("no")), ["a", "b", "c"], kind=kind)
    assert result.acked("source") == [0, 2]
    assert result.failed("source") == [(1, "bolt 'bolt': execute: ValueError: no")]
    assert messages(result) == ["execute: ValueError: no"]
    assert "raise error" in result.errors[0].traceback
    assert "fulmen/engine" not in result.errors[0].traceback


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt])
@pytest.mark.parametrize(
    ("error", "reason", "reported"),
    [
        (FailedException("bad"), "bad", []),
        (FailedException(), "FailedException", []),
        (
            ReportedFailedException("bad"),
            "bad",
            ["execute: ReportedFailedException: bad"],
        ),
    ],
)
def test_a_failed_exception_fails_its_tuple(kind, error, reason, reported):
    result = with_bolt(raises_at("b", error), ["a", "b"], kind=kind)
    assert result.failed("source") == [(1, reason)]
    assert messages(result) == reported


@pytest.mark.parametrize("says", ["ack", "fail"])
def test_what_was_said_of_a_tuple_before_an_exception_stands(says):
    def execute(bolt, tup):
        getattr(bolt.collector, says)(tup)
        raise ValueError("no")

    result = with_bolt(execute, ["a", "b"], kind=HookBolt)
    acked, failed = ([0, 1], []) if says == "ack" else ([], [0, 1])
    assert result.acked("source") == acked
    assert [number for number, _ in result.failed("source")] == failed
    assert messages(result) == ["execute: ValueError: no"] * 2
    told = result.report["components"]["bolt"]
    assert (told["acked"], told["failed"]) == (len(acked), len(failed))


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt, HookArrowBolt])
def test_with_on_error_crash_an_exception_stops_the_topology(kind):
    def execute(bolt, *args):
        raise ValueError("no")

    with pytest.raises(TopologyFailed) as failure:
        with_bolt(execute, ["a"], kind=kind, on_error="crash")
    assert failure.value.reason == f"{WHO}: execute: ValueError: no"
    assert 'raise ValueError("no")' in failure.value.traceback


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt])
def test_with_on_error_crash_a_failed_exception_does_not_stop_the_topology(kind):
    result = with_bolt(raises_at("a", FailedException("x")), ["a"], kind=kind, on_error="crash")
    assert result.failed("source") == [(0, "x")]


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt, HookArrowBolt])
def test_an_exception_in_prepare_stops_the_topology(kind):
    def prepare(bolt):
        raise LookupError("no connection")

    with pytest.raises(TopologyFailed) as failure:
        with_bolt(None, kind=kind, prepare=prepare)
    assert failure.value.reason == f"{WHO}: prepare: LookupError: no connection"


def test_of_many_errors_some_are_told_and_all_are_counted():
    def execute(bolt, tup):
        raise ValueError("x" * 100_000)

    result = with_bolt(execute, list(range(50)))
    assert len(result.errors) == 5
    assert result.errors[-1].more == 45
    assert all(len(error.message) < 1100 for error in result.errors)
    assert len(result.failed("source")) == 50
    assert all(len(reason) <= 500 for _, reason in result.failed("source"))


class Counted(ValueError):
    """Says something else each time."""

    times = 0

    def __str__(self):
        Counted.times += 1
        return f"{Counted.times}"


def test_each_of_many_errors_has_its_own_reason():
    errors = [ValueError("x"), KeyError("x"), ValueError("x", 1), TypeError("x"), ValueError("y")]

    def execute(bolt, tup, collector):
        raise errors[tup[0] % 5] if tup[0] < 15 else Counted("x")

    failed = with_bolt(execute, range(17), kind=HookBasicBolt).failed("source")
    texts = ["ValueError: x", "KeyError: 'x'", "ValueError: ('x', 1)", "TypeError: x"]
    texts = [*texts, "ValueError: y"] * 3 + ["Counted: 1", "Counted: 2"]
    assert failed == [(n, f"bolt 'bolt': execute: {text}") for n, text in enumerate(texts)]


def test_reported_errors_change_nothing_else():
    def execute(bolt, tup):
        bolt.collector.report_error("careful")
        bolt.collector.report_error(ValueError("very"))
        bolt.collector.ack(tup)

    result = with_bolt(execute)
    assert messages(result) == ["careful", "ValueError: very"]
    assert result.acked("source") == [0]


def test_an_exception_in_a_grouping_that_is_made_stops_the_topology():
    topology = Topology(HookBolt, [1])
    topology.builder._bolts.pop("sink")
    sink = topology.builder.set_bolt("sink", CollectBolt)
    sink.custom_grouping("bolt", "support.parts.hooks.BrokenGrouping")
    with pytest.raises(TopologyFailed) as failure:
        topology.run(functions={})
    assert failure.value.reason == f"{WHO}: making its groupings: OSError: no table"


@pytest.mark.parametrize("where", ["state", "fields"])
def test_state_that_can_not_be_restored_stops_the_topology(where):
    def execute(bolt, tup):
        if where == "state":
            bolt.state["x"] = Fragile()
        else:
            bolt.x = Fragile()
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, [1, EOF, 2])
    result = topology.run(functions={"execute": execute})
    Fragile.is_broken = True
    try:
        with pytest.raises(TopologyFailed) as failure:
            run(topology.builder, checkpoint=result.checkpoint)
    finally:
        Fragile.is_broken = False
    what = {"state": "restoring self.state", "fields": "restoring its fields"}[where]
    shown = "`fulmen state get CHECKPOINT bolt --kind unreadable` shows what can't be read"
    assert failure.value.reason == f"{WHO}: {what}: ValueError: of an older version. {shown}"


@pytest.mark.parametrize(
    ("reason", "heard"),
    [
        (ValueError("no number"), "ValueError: no number"),
        (KeyError(), "KeyError"),
        (7, "7"),
        ("", EXPLICIT),
        (None, EXPLICIT),
    ],
    ids=repr,
)
def test_a_reason_may_be_the_exception_itself(reason, heard):
    def execute(bolt, tup):
        bolt.collector.fail(tup, reason)

    result = with_bolt(execute, [1, 2])
    assert result.failed("source") == [(0, heard), (1, heard)]
    assert result.notes == []
    batches = with_bolt(lambda bolt, batch, c: c.fail([0, 1], reason), [1, 2], kind=HookArrowBolt)
    assert batches.failed("source") == [(0, heard), (1, heard)]
