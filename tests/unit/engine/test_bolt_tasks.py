"""What a bolt may do, what comes of it, and what it is told if it may not."""

import threading

import pyarrow as pa
import pytest

from fulmen import FailedException, ReportedFailedException
from fulmen.errors import TopologyFailed
from fulmen.testing import EOF, PAUSE, CollectBolt, Message, run
from support.hooks import (
    Fragile,
    HookArrowBolt,
    HookBasicBolt,
    HookBolt,
    Topology,
    hooks,
    with_bolt,
)


def messages(result):
    return [error.message for error in result.errors]


# ---- acks and fails --------------------------------------------------------------------------


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


def keep_two(bolt):
    bolt.kept = []


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


# ---- emits -----------------------------------------------------------------------------------


def test_an_unanchored_tuple_is_not_tracked():
    def execute(bolt, tup):
        bolt.collector.emit([tup["x"]])
        bolt.collector.emit([tup["x"]], anchors=None)
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, [1])
    topology.builder.set_bolt("broken", HookBasicBolt).set_config(
        hooks(execute=fail_always)
    ).shuffle_grouping("bolt")
    result = topology.run(functions={"execute": execute})
    assert result.acked("source") == [0]
    assert result.report["components"]["broken"]["failed"] == 2


def fail_always(bolt, tup, collector):
    raise FailedException("never mind")


def test_a_child_that_fails_fails_the_trees_of_all_its_anchors():
    def execute(bolt, tup):
        bolt.kept.append(tup)
        if len(bolt.kept) == 3:
            bolt.collector.emit(["joined"], anchors=[bolt.kept[0], bolt.kept[1], bolt.kept[0]])
            for kept in bolt.kept:
                bolt.collector.ack(kept)

    topology = Topology(HookBolt, ["a", "b", "c"])
    topology.builder.set_bolt("broken", HookBasicBolt).set_config(
        hooks(execute=fail_always)
    ).shuffle_grouping("bolt")
    result = topology.run(functions={"execute": execute, "prepare": keep_two})
    assert sorted(result.failed("source")) == [(0, "never mind"), (1, "never mind")]
    assert result.acked("source") == [2]


def test_the_list_of_anchors_may_be_used_again():
    def execute(bolt, tup):
        bolt.kept.append(tup)
        if len(bolt.kept) == 2:
            bolt.collector.emit(["joined"], anchors=bolt.kept)
            for kept in bolt.kept:
                bolt.collector.ack(kept)
            bolt.kept.clear()

    topology = Topology(HookBolt, ["a", "b"])
    topology.builder.set_bolt("broken", HookBasicBolt).set_config(
        hooks(execute=fail_always)
    ).shuffle_grouping("bolt")
    result = topology.run(functions={"execute": execute, "prepare": keep_two})
    assert len(result.failed("source")) == 2


def test_need_task_ids_tells_where_a_tuple_goes():
    told = []

    def execute(bolt, tup):
        told.append(bolt.collector.emit(["x"], anchors=tup, need_task_ids=True))
        told.append(bolt.collector.emit(["a", "b"], "pair", need_task_ids=True))
        told.append(bolt.collector.emit(["x"], anchors=tup))
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, [1])
    result = topology.run(functions={"execute": execute})
    sink = result.report["components"]
    assert sink["sink"]["executed"] == 3
    assert told == [[3], [3], None]  # __acker is 1, bolt 2, sink 3, source 4
    assert result.acked("source") == [0]


def test_need_task_ids_without_subscribers_is_an_empty_list():
    told = []

    def execute(bolt, tup):
        told.append(bolt.collector.emit(["x"], anchors=tup, need_task_ids=True))
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, [1])
    topology.builder._bolts.pop("sink")
    assert topology.run(functions={"execute": execute}).acked("source") == [0]
    assert told == [[]]


def test_a_direct_stream_reaches_the_named_task_if_it_subscribes():
    def execute(bolt, tup):
        for task in (*bolt.context.tasks("sink"), bolt.context.task_id, 99):
            bolt.collector.emit_direct(task, [task], "to-task", tup)
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, [1])
    result = topology.run(functions={"execute": execute})
    assert result.collected("sink") == [[3]]
    assert result.acked("source") == [0]
    counts = result.report["components"]["bolt"]
    assert (counts["emitted"], counts["transferred"]) == (3, 1)


WHO = "bolt 'bolt', task 2"


@pytest.mark.parametrize(
    ("emit", "text"),
    [
        pytest.param(
            lambda c: c.emit([1], "other"),
            f"{WHO}: emit on stream 'other', but the component declares"
            " ['default', 'pair', 'to-task']",
            id="undeclared",
        ),
        pytest.param(
            lambda c: c.emit([1], "__dead_letters"),
            f"{WHO}: emit on stream '__dead_letters', but the component declares"
            " ['default', 'pair', 'to-task']",
            id="reserved",
        ),
        pytest.param(
            lambda c: c.emit([1, 2]),
            f"{WHO}: emit of [1, 2] on stream 'default', which has the fields ['x']. Emit a list"
            " with one value for each field, such as [x]",
            id="too-many-values",
        ),
        pytest.param(
            lambda c: c.emit([1], "pair"),
            f"{WHO}: emit of [1] on stream 'pair', which has the fields ['a', 'b']. Emit a list"
            " with one value for each field, such as [a, b]",
            id="too-few-values",
        ),
        pytest.param(
            lambda c: c.emit(["x" * 200, 2]),
            f"{WHO}: emit of ['{'x' * 75}... on stream 'default', which has the fields ['x']. Emit"
            " a list with one value for each field, such as [x]",
            id="long-values",
        ),
        pytest.param(
            lambda c: c.emit("ab"),
            f"{WHO}: emit of 'ab' on stream 'default', which has the fields ['x']. Emit a list with"
            " one value for each field, such as [x]",
            id="a-str",
        ),
        pytest.param(
            lambda c: c.emit([1], "to-task"),
            f"{WHO}: stream 'to-task' is direct: use emit_direct(task, ...)",
            id="direct-without-task",
        ),
        pytest.param(
            lambda c: c.emit_direct(3, [1]),
            f"{WHO}: stream 'default' is not direct: use emit(...), or declare it with direct=True",
            id="not-direct",
        ),
        pytest.param(
            lambda c: c.emit([1], "default", "abc"),
            f"{WHO}: emit with anchors='abc': anchors are tuples that the bolt has received, one or"
            " a list of them",
            id="anchors-are-text",
        ),
        pytest.param(
            lambda c: c.emit([1], anchors=5),
            f"{WHO}: emit with anchors=5: anchors are tuples that the bolt has received, one or"
            " a list of them",
            id="anchors-are-a-number",
        ),
    ],
)
def test_a_wrong_emit_fails_its_tuple_and_says_why(emit, text):
    def execute(bolt, tup):
        if tup["x"] == "wrong":
            emit(bolt.collector)
        bolt.collector.ack(tup)

    result = with_bolt(execute, ["a", "wrong", "b"])
    assert result.acked("source") == [0, 2]
    assert messages(result) == [f"execute: {text}"]
    assert result.failed("source") == [(1, f"bolt 'bolt': execute: {text}"[:500])]


def test_a_str_of_the_right_length_fails_its_tuple():
    def execute(bolt, tup):
        bolt.collector.emit(tup["x"] if tup["x"] == "b" else [tup["x"]], anchors=tup)
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, ["a", "b", "c"])
    topology.builder._bolts.pop("sink")  # with one stream subscribed to, only lengths are looked at
    result = topology.run(functions={"execute": execute}, emits=True)
    text = f"{WHO}: emit('b'): the values must be a list or a tuple, such as ['b']"
    assert messages(result) == [f"emit: {text}"]
    assert result.failed("source") == [(1, text)]
    assert result.acked("source") == [0, 2]
    assert result.emitted("bolt") == [["a"], ["c"]]


class Unhashable:
    """A fields grouping has no stable hash of this."""


def test_an_emit_that_no_task_can_be_chosen_for_fails_its_tuple():
    def execute(bolt, tup):
        value = Unhashable() if tup["x"] == "b" else tup["x"]
        bolt.collector.emit([tup["x"]], anchors=tup)
        bolt.collector.emit([value], anchors=tup)
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, ["a", "b", "c"])
    topology.builder._bolts.pop("sink")
    topology.builder.set_bolt("sink", CollectBolt, 2).fields_grouping("bolt", ["x"])
    result = topology.run(functions={"execute": execute})
    assert len(messages(result)) == 1
    assert messages(result)[0].startswith("emit: ")
    assert "Unhashable" in messages(result)[0]
    assert result.acked("source") == [0, 2]
    assert [msg_id for msg_id, _ in result.failed("source")] == [1]
    assert sorted(x for [x] in result.collected("sink")) == ["a", "a", "b", "c", "c"]


def test_with_on_error_crash_it_stops_the_topology():
    topology = Topology(HookBolt, ["a"], on_error="crash")
    topology.builder._bolts.pop("sink")
    topology.builder.set_bolt("sink", CollectBolt, 2).fields_grouping("bolt", ["x"])
    with pytest.raises(TopologyFailed, match=r"^bolt 'bolt', task 2: emit: "):
        topology.run(functions={"execute": lambda bolt, tup: bolt.collector.emit([Unhashable()])})


def test_an_emit_for_a_tuple_from_an_earlier_batch_that_can_not_be_sent_fails_that():
    def execute(bolt, tup):
        bolt.kept.append(tup)
        if tup["x"] == "b":
            first = bolt.kept[0]
            bolt.collector.emit([Unhashable()], anchors=first)
            bolt.collector.ack(first)
            bolt.collector.ack(tup)

    topology = Topology(HookBolt, ["a", PAUSE, "b"])
    topology.builder._bolts.pop("sink")
    topology.builder.set_bolt("sink", CollectBolt, 2).fields_grouping("bolt", ["x"])
    result = topology.run(functions={"execute": execute, "prepare": keep_two})
    assert [msg_id for msg_id, _ in result.failed("source")] == [0]
    assert result.acked("source") == [2]


OUTSIDE = (
    f"{WHO}: emit, ack or fail outside of a callback. Use the collector only inside of next_tuple,"
    " ack, fail, activate, deactivate or execute, and on the thread that calls them"
)


@pytest.mark.parametrize(
    "use",
    [
        lambda c, tup: c.emit(["x"]),
        lambda c, tup: c.emit(["x"], need_task_ids=True),
        lambda c, tup: c.emit_direct(1, ["x"], "to-task"),
        lambda c, tup: c.ack(tup),
        lambda c, tup: c.fail(tup),
        lambda c, tup: c.reset_timeout(tup),
    ],
)
def test_a_collector_outside_of_callbacks_is_an_error(use):
    heard = []

    def prepare(bolt):
        bolt.kept = []

    def execute(bolt, tup):
        bolt.kept.append(tup)

    def cleanup(bolt):
        try:
            use(bolt.collector, bolt.kept[0])
        except Exception as e:  # noqa: BLE001
            heard.append(str(e))

    topology = Topology(HookBolt, [1])
    topology.run(functions={"prepare": prepare, "execute": execute, "cleanup": cleanup})
    assert heard == [OUTSIDE]


def test_emitting_in_prepare_stops_the_topology():
    with pytest.raises(TopologyFailed) as failure:
        with_bolt(None, prepare=lambda bolt: bolt.collector.emit(["x"]))
    assert failure.value.reason == f"{WHO}: prepare: {OUTSIDE}"


def test_a_value_that_can_not_leave_its_worker_fails_its_tuple():
    def execute(bolt, tup):
        value = threading.Lock() if tup["x"] == "lock" else tup["x"]
        bolt.collector.emit([value], anchors=tup)
        bolt.collector.ack(tup)

    result = with_bolt(execute, ["a", "lock", "b"], workers=2)
    assert sorted(result.acked("source")) == [0, 2]
    text = (
        "emit on stream 'default': the value of field 'x' can't be pickled (cannot pickle"
        " '_thread.lock' object), so it can't go to another worker or stage, where 'sink' is"
    )
    assert messages(result) == [text]
    assert result.failed("source") == [(1, text)]
    assert sorted(result.collected("sink")) == [["a"], ["b"]]


# ---- exceptions ------------------------------------------------------------------------------


def raises_at(x, error):
    def execute(bolt, tup, collector=None):
        if tup["x"] == x:
            raise error
        if collector is None:
            bolt.collector.ack(tup)

    return execute


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


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt, HookArrowBolt])
def test_with_on_error_crash_an_exception_stops_the_topology(kind):
    def execute(bolt, *args):
        raise ValueError("no")

    with pytest.raises(TopologyFailed) as failure:
        with_bolt(execute, ["a"], kind=kind, on_error="crash")
    assert failure.value.reason == f"{WHO}: execute: ValueError: no"
    assert 'raise ValueError("no")' in failure.value.traceback


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt])
def test_but_a_failed_exception_does_not(kind):
    result = with_bolt(raises_at("a", FailedException("x")), ["a"], kind=kind, on_error="crash")
    assert result.failed("source") == [(0, "x")]


@pytest.mark.parametrize("kind", [HookBolt, HookBasicBolt, HookArrowBolt])
def test_an_exception_in_prepare_stops_the_topology(kind):
    def prepare(bolt):
        raise OSError("no connection")

    with pytest.raises(TopologyFailed) as failure:
        with_bolt(None, kind=kind, prepare=prepare)
    assert failure.value.reason == f"{WHO}: prepare: OSError: no connection"


def test_of_many_errors_some_are_told_and_all_are_counted():
    def execute(bolt, tup):
        raise ValueError("x" * 100_000)

    result = with_bolt(execute, list(range(50)))
    assert len(result.errors) == 5
    assert result.errors[-1].more == 45
    assert all(len(error.message) < 1100 for error in result.errors)
    assert len(result.failed("source")) == 50
    assert all(len(reason) <= 500 for _, reason in result.failed("source"))


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
    sink.custom_grouping("bolt", "support.hooks.BrokenGrouping")
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
    assert failure.value.reason == f"{WHO}: {what}: ValueError: of an older version"


# ---- ticks -----------------------------------------------------------------------------------


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


# ---- blocking bolts --------------------------------------------------------------------------


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


# ---- bolts of record batches -----------------------------------------------------------------


def test_rows_of_a_batch_are_acked_but_those_that_fail():
    def execute(bolt, batch, collector):
        assert collector.source == ("source", "default")
        bad = [i for i, x in enumerate(batch["x"].to_pylist()) if x % 3 == 0]
        collector.emit(batch)
        if bad:
            collector.fail(bad, "divisible")
            collector.fail(bad[0])

    result = with_bolt(execute, [1, 2, 3, 4, 6], kind=HookArrowBolt)
    assert result.acked("source") == [0, 1, 3]
    assert result.failed("source") == [(2, "divisible"), (4, "divisible")]
    assert [x for (x,) in result.collected("sink")] == [1, 2, 3, 4, 6]


def test_a_batch_may_be_anchored_to_any_rows():
    def execute(bolt, batch, collector):
        n = batch.num_rows
        twice = [i for i in range(n) for _ in range(2)]
        collector.emit(batch.take(pa.array(twice)), rows=twice)
        collector.emit(pa.record_batch({"b": ["b"], "a": ["a"]}), "pair", rows=pa.array([n - 1]))

    topology = Topology(HookArrowBolt, [1, 2])
    topology.builder.set_bolt("picky", HookBasicBolt).set_config(
        hooks(execute=fail_always)
    ).shuffle_grouping("bolt", "pair")
    result = topology.run(functions={"execute": execute})
    assert result.acked("source") == [0]
    assert result.failed("source") == [(1, "never mind")]
    assert ("a", "b") in result.collected("sink")


@pytest.mark.parametrize(
    ("use", "text"),
    [
        pytest.param(
            lambda c, b: c.emit(b.slice(1)),
            f"{WHO}: emit of 2 rows for 3 input rows without `rows`. Give `rows`: for each emitted"
            " row, the number of the input row that it is anchored to",
            id="rows-missing",
        ),
        pytest.param(
            lambda c, b: c.emit(b, rows=[0, 1]),
            f"{WHO}: `rows` must give one number from 0 to 2 for each of 3 rows",
            id="too-few-rows",
        ),
        pytest.param(
            lambda c, b: c.emit(b, rows=[0, 1, 3]),
            f"{WHO}: `rows` must give one number from 0 to 2 for each of 3 rows",
            id="row-beyond-the-end",
        ),
        pytest.param(
            lambda c, b: c.emit(b, rows=[0, -1, 1]),
            f"{WHO}: `rows` must give one number from 0 to 2 for each of 3 rows",
            id="negative-row",
        ),
        pytest.param(
            lambda c, b: c.fail([0, 3]),
            f"{WHO}: fail of row 3, but there are 3 input rows, numbered from 0",
            id="fail-beyond-the-end",
        ),
        pytest.param(
            lambda c, b: c.fail(-1),
            f"{WHO}: fail of row -1, but there are 3 input rows, numbered from 0",
            id="fail-negative",
        ),
        pytest.param(
            lambda c, b: c.emit(pa.table({"x": [1, 2, 3]})),
            f"{WHO}: emit of a Table, but it must be a pyarrow.RecordBatch. A table has them:"
            " table.to_batches()",
            id="a-table",
        ),
        pytest.param(
            lambda c, b: c.emit(b, "pair"),
            f"{WHO}: a batch with the columns ['x'] on stream 'pair', which has the fields"
            " ['a', 'b']",
            id="other-columns",
        ),
        pytest.param(
            lambda c, b: c.emit(b, "other"),
            f"{WHO}: emit on stream 'other', but the component declares"
            " ['default', 'pair', 'to-task']",
            id="undeclared",
        ),
        pytest.param(
            lambda c, b: c.emit(b, "to-task"),
            f"{WHO}: emit of a batch on stream 'to-task', which is direct: only tuples that are"
            " emitted one by one, with emit_direct(task, ...), can name their task",
            id="direct",
        ),
    ],
)
def test_a_wrong_batch_fails_all_rows_and_says_why(use, text):
    result = with_bolt(lambda bolt, batch, c: use(c, batch), [1, 2, 3], kind=HookArrowBolt)
    assert messages(result) == [f"execute: {text}"]
    assert result.failed("source") == [(i, f"bolt 'bolt': execute: {text}") for i in range(3)]


def test_values_that_arrow_can_not_hold_fail():
    result = with_bolt(lambda *args: None, ["a", 1], kind=HookArrowBolt)
    assert len(result.failed("source")) == 2
    assert len(result.errors) == 1


def test_ticks_of_a_bolt_of_batches():
    def tick(bolt, collector):
        collector.emit(pa.record_batch({"x": ["tick", "tock"]}))

    topology = Topology(HookArrowBolt, [1], tick=1.0, workers=2)
    functions = {"execute": lambda *args: None, "tick": tick}
    result = topology.run(functions=functions, batches=3, batch_seconds=1.0)
    assert result.collected("sink") == [("tick",), ("tock",)] * 2


def test_batches_outside_of_callbacks_are_an_error():
    heard, collectors = [], []

    def execute(bolt, batch, collector):
        collectors.append((collector, batch))

    with_bolt(execute, [1], kind=HookArrowBolt)
    (collector, batch), *_ = collectors
    for use in (lambda: collector.emit(batch), lambda: collector.fail(0)):
        with pytest.raises(Exception, match="outside of a callback") as error:
            use()
        heard.append(str(error.value))
    assert heard == [OUTSIDE] * 2


def test_a_message_for_another_stream_does_not_confuse_the_order():
    """A bolt that receives two streams of one component gets them as they were emitted."""

    def execute(bolt, tup):
        for i in range(50):
            if i % 3:
                bolt.collector.emit([i], anchors=tup)
            else:
                bolt.collector.emit([i, i], "pair", anchors=tup)
        bolt.collector.ack(tup)

    result = with_bolt(execute, [1], workers=2)
    assert [values[0] for values in result.collected("sink")] == list(range(50))


def test_messages_with_streams_of_their_own():
    result = with_bolt(lambda bolt, tup: bolt.collector.ack(tup), [Message(["a"], msg_id="m")])
    assert result.acked("source") == ["m"]
