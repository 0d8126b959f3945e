"""What a bolt may do with its tuples, and when it is called."""

import threading

import pytest

from fulmen.testing import PAUSE, run
from support.parts.hooks import (
    HookBasicBolt,
    HookBolt,
    Topology,
    messages,
    with_bolt,
)
from support.runs.bolt_runs import keep_two, raises_at

# ---- acks and fails -------------------------------------------------------------------------


def test_an_acked_tuple_ends_its_tree():
    result = with_bolt(lambda bolt, tup: bolt.collector.ack(tup), [1, 2, 3])
    assert result.acked("source") == [0, 1, 2]
    assert result.trees["acked"] == 3


def test_a_forgotten_tuple_times_out():
    result = with_bolt(lambda bolt, tup: None, [1])
    assert result.failed("source") == [(0, "timed out")]
    assert result.trees["timed_out"] == 1


@pytest.mark.parametrize(
    ("args", "reason"), [((), "failed by the bolt"), (("because",), "because")]
)
def test_a_failed_tuple_tells_the_spout_why(args, reason):
    result = with_bolt(lambda bolt, tup: bolt.collector.fail(tup, *args), [1])
    assert result.failed("source") == [(0, reason)]
    assert (result.trees["failed"], result.trees["timed_out"]) == (1, 0)


def test_the_first_of_several_acks_and_fails_counts():
    def execute(bolt, tup):
        first, second = bolt.collector.ack, bolt.collector.fail
        if tup["x"] == "fail":
            first, second = second, first
        for method in (first, first, second):
            method(tup)

    result = with_bolt(execute, ["ack", "fail"])
    assert result.acked("source") == [0]
    assert [msg_id for msg_id, _ in result.failed("source")] == [1]
    assert result.report["components"]["bolt"]["acked"] == 1
    assert result.report["components"]["bolt"]["failed"] == 1


def test_a_tuple_may_be_acked_batches_later():
    def execute(bolt, tup):
        bolt.kept.append(tup)
        if len(bolt.kept) == 2:
            first = bolt.kept.pop(0)
            bolt.collector.emit([first["x"]], anchors=first)
            bolt.collector.ack(first)
            bolt.collector.ack(first)

    result = with_bolt(execute, ["a", PAUSE, "b", PAUSE, "c"], prepare=keep_two)
    assert result.acked("source") == [0, 2]
    assert result.failed("source") == [(4, "timed out")]
    assert result.collected("sink") == [["a"], ["b"]]


def test_a_kept_tuple_survives_its_process():
    def execute(bolt, tup):
        bolt.kept.append(tup)
        if tup["x"] == "last":
            for kept in bolt.kept:
                bolt.collector.emit([kept["x"]], "default", [kept, tup])
                bolt.collector.ack(kept)

    topology = Topology(HookBolt, ["a", "b", PAUSE, "last"], message_timeout_seconds=60)
    functions = {"execute": execute, "prepare": keep_two}
    first = topology.run(functions=functions, batches=1)
    assert first.trees["pending"] == 2
    second = run(topology.builder, checkpoint=first.checkpoint, workers=2, ackers=3)
    assert second.trees["acked"] == 3
    assert second.acked("source") == [0, 1, 3]
    assert [x for [x] in second.collected("sink")] == ["a", "b", "last"]


def test_what_is_anchored_to_a_kept_tuple_counts_after_a_restart():
    """The emit is in one run, the ack of its anchor in another, and the child fails in a third."""

    def execute(bolt, tup):
        if tup["x"] == "kept":
            bolt.kept.append(tup)
        elif tup["x"] == "emit":
            bolt.collector.emit(["child"], anchors=bolt.kept[0])
            bolt.collector.ack(tup)
        else:
            bolt.collector.ack(bolt.kept[0])
            bolt.collector.ack(tup)

    items = ["kept", PAUSE, "emit", PAUSE, "ack"]
    topology = Topology(HookBolt, items, message_timeout_seconds=60)
    functions = {"execute": execute, "prepare": keep_two}
    result = topology.run(functions=functions, batches=1)
    for _ in range(2):
        result = run(topology.builder, checkpoint=result.checkpoint, batches=2)
    result = run(topology.builder, checkpoint=result.checkpoint)
    assert sorted(result.acked("source")) == [0, 2, 4]


def test_reset_timeout_keeps_a_tree_alive():
    def execute(bolt, tup):
        if tup.is_tick():
            for kept in bolt.kept:
                if len(bolt.kept) == 1:
                    bolt.collector.reset_timeout(kept)
            bolt.ticks += 1
            if bolt.ticks == 6:
                bolt.collector.ack(bolt.kept.pop())
        else:
            bolt.kept.append(tup)

    def prepare(bolt):
        bolt.kept, bolt.ticks = [], 0

    functions = {"execute": execute, "prepare": prepare}
    topology = Topology(HookBolt, ["a"], tick=1.0, message_timeout_seconds=2)
    assert topology.run(functions=functions).acked("source") == [0]


# ---- ticks ----------------------------------------------------------------------------------


def ticks_of(options, items=(1,), tick=1.0):
    seen = []

    def execute(bolt, tup):
        if tup.is_tick():
            seen.append((tup.values, tup.component, tup.stream, tup.task, tup.fields))
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, items, tick=tick)
    result = topology.run(functions={"execute": execute}, **options)
    return seen, result


def test_a_tick_comes_when_its_period_has_passed():
    seen, result = ticks_of({"batches": 25, "batch_seconds": 0.5}, items=list(range(10_000)))
    assert seen == [([1.0], "__system", "__tick", -1, ("rate_secs",))] * 12
    assert result.report["components"]["bolt"]["executed"] == 12 + 10_000


def test_at_most_one_tick_in_a_batch_however_long_it_was():
    seen, _ = ticks_of({"batches": 6, "batch_seconds": 7.5})  # the first begins at 0
    assert len(seen) == 5


@pytest.mark.parametrize("tasks", [1, 3])
def test_every_task_gets_each_tick(tasks):
    seen = []

    def execute(bolt, tup, collector):
        if tup.is_tick():
            seen.append(bolt.context.task_index)

    topology = Topology(HookBasicBolt, [1], tasks=tasks, tick=0.5)
    topology.run(functions={"execute": execute}, batches=5, batch_seconds=0.5)
    assert sorted(seen) == sorted(list(range(tasks)) * 4)


def test_what_a_bolt_emits_at_a_tick_arrives():
    def execute(bolt, tup):
        if tup.is_tick():
            bolt.collector.emit(["tick"])
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, [1], tick=1.0, workers=2)
    result = topology.run(functions={"execute": execute}, batches=5, batch_seconds=1.0)
    assert result.collected("sink") == [["tick"]] * 4


def test_an_exception_at_a_tick_is_reported():
    def execute(bolt, tup):
        if tup.is_tick():
            raise ValueError("no")
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, [1], tick=1.0)
    result = topology.run(functions={"execute": execute}, batches=3, batch_seconds=1.0)
    assert messages(result) == ["execute: ValueError: no"] * 2
    assert result.acked("source") == [0]


# ---- blocking bolts -------------------------------------------------------------------------


def test_the_executors_of_a_blocking_bolt_wait_side_by_side():
    meeting = threading.Barrier(3)

    def execute(bolt, tup):
        meeting.wait(timeout=30)  # nobody gets past it alone
        bolt.collector.emit([tup["x"]], anchors=tup)
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, list(range(6)), tasks=3)
    topology.bolt.set_blocking()
    result = topology.run(functions={"execute": execute})
    assert sorted(result.acked("source")) == list(range(6))
    assert sorted(x for [x] in result.collected("sink")) == list(range(6))


def test_ticks_of_a_blocking_bolt_wait_side_by_side():
    meeting = threading.Barrier(3)

    def execute(bolt, tup, collector):
        if tup.is_tick():
            meeting.wait(timeout=30)
            collector.emit(["tick"])

    topology = Topology(HookBasicBolt, [1], tasks=3, tick=1.0)
    topology.bolt.set_blocking()
    result = topology.run(functions={"execute": execute}, batches=2, batch_seconds=1.0)
    assert result.collected("sink") == [["tick"]] * 3


def test_the_tasks_of_one_executor_run_one_after_another():
    threads = {}

    def execute(bolt, tup, collector):
        threads.setdefault(threading.get_ident(), set()).add(bolt.context.task_index)

    topology = Topology(HookBasicBolt, list(range(40)), tasks=2)
    topology.bolt.set_blocking().set_num_tasks(4)
    topology.run(functions={"execute": execute})
    assert threading.get_ident() not in threads
    together = [tasks for tasks in threads.values() if len(tasks) > 2]
    assert set().union(*threads.values()) == {0, 1, 2, 3}
    assert len(threads) <= 2 or not together


def test_exceptions_in_threads_are_like_any_other():
    result = with_bolt(raises_at("b", ValueError("no")), ["a", "b"], tasks=2)
    assert result.failed("source") == [(1, "bolt 'bolt': execute: ValueError: no")]
