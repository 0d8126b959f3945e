"""What a spout may do, what it is told, and how much it may emit."""

import time

import numpy as np
import pyarrow as pa
import pytest

from fulmen import BasicBolt, FailedException, ManyBolt, TopologyBuilder
from fulmen.engine.emitting.collectors.spout_emits import MOST_AT_ONCE, emit_bytes
from fulmen.testing import PAUSE, CollectBolt, ListSpout, Message, run
from support.parts.hooks import (
    BatchedSpout,
    HookArrowSpout,
    HookBasicBolt,
    HookSpout,
    StormSpout,
    hooks,
    messages,
)
from support.parts.sink_parts import MEMORY, MemorySink
from support.runs.engine_runs import make_driver, new_store
from support.runs.spout_runs import WHO, emitting, recording, topology, with_spout

# ---- the order of calls ---------------------------------------------------------------------


def test_the_life_of_a_spout():
    calls = []
    names = ("open", "activate", "ack", "fail", "deactivate", "close")
    with_spout(next_tuple=emitting("a"), **recording(calls, *names))
    assert calls == [("open",), ("activate",), ("ack", 1), ("deactivate",), ("close",)]


def test_a_spout_that_is_back_is_activated_before_it_is_told_anything():
    calls = []
    functions = recording(calls, "open", "activate", "ack")
    builder = topology(conf=hooks(next_tuple=emitting("a"), **functions))
    store = new_store()
    for _ in range(2):
        calls.clear()
        driver = make_driver(builder, store=store).start()
        driver.step()
        driver.close()
    assert calls == [("open",), ("activate",), ("ack", 1)]


def test_how_trees_ended_is_told_before_the_next_tuple_is_asked_for():
    calls = []

    def next_tuple(spout):
        calls.append(("next_tuple",))
        emitting("a")(spout)
        return False

    with_spout(next_tuple=next_tuple, options={"batches": 2}, **recording(calls, "ack"))
    assert calls == [("next_tuple",)] * 2 + [("ack", 1), ("next_tuple",)]


@pytest.mark.parametrize(
    ("kind", "call"), [(HookSpout, ("fail", 1, "no")), (StormSpout, ("fail", 1))]
)
def test_fail_gets_the_reason_if_it_takes_one(kind, call):
    calls = []

    def refuse(bolt, tup, collector):
        raise FailedException("no")

    functions = {"next_tuple": emitting("a"), **recording(calls, "fail")}
    builder = topology(kind, bolt=HookBasicBolt, conf=hooks(**functions))
    builder._bolts["sink"]["config"] = hooks(execute=refuse)
    run(builder)
    assert calls == [call]


def test_an_inactive_topology_asks_for_nothing():
    calls = []
    spec = {"state": "Inactive"}
    names = ("activate", "deactivate", "next_tuple")
    result = with_spout(spec=spec, options={"batches": 3}, **recording(calls, *names))
    assert calls == []
    assert result.report["components"]["source"]["emitted"] == 0


def test_a_spout_that_emits_when_it_hears_of_an_ack():
    def ack(spout, msg_id):
        if msg_id < 3:
            spout.collector.emit([f"after {msg_id}"], msg_id=msg_id + 1)

    result = with_spout(next_tuple=emitting("first"), ack=ack)
    assert result.collected("sink") == [["first"], ["after 1"], ["after 2"]]
    assert result.trees["acked"] == 3


# ---- message ids ----------------------------------------------------------------------------


@pytest.mark.parametrize("msg_id", [("a", 1), "text", 0, False, 2**70, frozenset({1})])
def test_any_message_id_comes_back(msg_id):
    calls = []

    def next_tuple(spout):
        if not hasattr(spout, "done"):
            spout.done = True
            spout.collector.emit(["a"], msg_id=msg_id)

    with_spout(next_tuple=next_tuple, **recording(calls, "ack"))
    assert calls == [("ack", msg_id)]
    assert type(calls[0][1]) is type(msg_id)


def test_without_a_message_id_nothing_is_tracked():
    calls = []
    result = with_spout(
        next_tuple=emitting("a", "b", msg_ids=False), **recording(calls, "ack", "fail")
    )
    assert calls == []
    assert result.collected("sink") == [["a"], ["b"]]
    assert result.trees["acked"] == 0


def test_tracked_and_untracked_tuples_in_one_batch():
    items = [Message([i], tracked=i % 2 == 0) for i in range(10)]
    result = run(topology(ListSpout(items), ackers=2, workers=2))
    assert result.acked("source") == [0, 2, 4, 6, 8]
    assert sorted(result.collected("sink")) == [[i] for i in range(10)]


def test_nobody_receives_it_acked_all_the_same():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1, 2]))
    assert run(builder).acked("source") == [0, 1]


def test_without_ackers_emit_acks():
    calls = []

    def next_tuple(spout):
        before = spout.__dict__.get("at", 0)
        emitting("a", "b")(spout)
        if spout.at != before:
            calls.append(("emitted", spout.at))

    result = with_spout(next_tuple=next_tuple, spec={"ackers": 0}, **recording(calls, "ack"))
    assert calls == [("ack", 1), ("emitted", 1), ("ack", 2), ("emitted", 2)]
    assert result.trees == dict.fromkeys(result.trees, 0)


@pytest.mark.parametrize("ackers", [0, 1])
def test_a_spout_with_ack_batch_hears_of_many_acks_in_one_call(ackers):
    calls = []
    functions = recording(calls, "ack", "ack_batch")
    with_spout(BatchedSpout, next_tuple=emitting("a", "b"), spec={"ackers": ackers}, **functions)
    together = [("ack_batch", [1, 2])] if ackers else [("ack_batch", [1]), ("ack_batch", [2])]
    assert calls == together


def test_without_ackers_nothing_fails():
    calls = []
    functions = {"next_tuple": emitting("a"), **recording(calls, "ack", "fail")}
    builder = topology(bolt=HookBasicBolt, conf=hooks(**functions), ackers=0)
    builder._bolts["sink"]["config"] = hooks(execute=lambda *args: 1 / 0)
    result = run(builder)
    assert calls == [("ack", 1)]
    assert result.report["components"]["sink"]["failed"] == 1


# ---- how many -------------------------------------------------------------------------------


@pytest.mark.parametrize("ackers", [1, 2])
def test_max_spout_pending_limits_what_is_on_its_way(ackers):
    most = []

    def next_tuple(spout):
        if spout.sent < 50:
            spout.sent += 1
            spout.on_their_way += 1
            most.append(spout.on_their_way)
            spout.collector.emit([spout.sent], msg_id=spout.sent)

    def begin(spout):
        spout.sent = spout.on_their_way = 0

    def ack(spout, msg_id):
        spout.on_their_way -= 1

    spec = {"max_spout_pending": 7, "ackers": ackers, "workers": 2}
    result = with_spout(next_tuple=next_tuple, open=begin, ack=ack, spec=spec)
    assert max(most) == 7
    assert result.trees["acked"] == 50


def test_a_next_tuple_that_emits_several_may_go_beyond():
    def next_tuple(spout):
        for i in range(5):
            spout.collector.emit([i], msg_id=i)

    options = {"batches": 1}
    result = with_spout(next_tuple=next_tuple, spec={"max_spout_pending": 7}, options=options)
    assert result.report["components"]["source"]["emitted"] == 10


def test_what_is_not_tracked_is_not_limited():
    def next_tuple(spout):
        spout.collector.emit(["x"])

    options = {"batches": 1}
    result = with_spout(next_tuple=next_tuple, spec={"max_spout_pending": 7}, options=options)
    assert result.report["components"]["source"]["emitted"] > 7


def test_a_batch_ends_where_nothing_is_emitted():
    result = run(topology(ListSpout(["a", "b", PAUSE, "c"])), batches=1)
    assert result.collected("sink") == [["a"], ["b"]]


# ---- spouts of record batches ---------------------------------------------------------------


def batches(*sizes, msg_ids=list):
    def next_tuple(spout):
        spout.__dict__.setdefault("at", 0)
        spout.__dict__.setdefault("sent", 0)
        if spout.at < len(sizes):
            ids = range(spout.sent, spout.sent + sizes[spout.at])
            spout.sent += sizes[spout.at]
            spout.at += 1
            batch = pa.record_batch({"x": [f"v{i}" for i in ids]})
            spout.collector.emit(batch, msg_ids=msg_ids(ids) if msg_ids else None)

    return next_tuple


@pytest.mark.parametrize("msg_ids", [list, range, np.array, pa.array, None])
@pytest.mark.parametrize("ackers", [0, 1, 2])
def test_a_batch_of_rows_with_message_ids(msg_ids, ackers):
    ids = (lambda r: r) if msg_ids is range else msg_ids and (lambda r: msg_ids(list(r)))
    calls = []
    result = with_spout(
        HookArrowSpout,
        next_tuple=batches(3, 2, msg_ids=ids),
        spec={"ackers": ackers, "workers": 2},
        **recording(calls, "ack_batch", "fail"),
    )
    assert result.collected("sink") == [(f"v{i}",) for i in range(5)]
    heard = [i for _, some in calls for i in some]
    assert sorted(heard) == (list(range(5)) if msg_ids else [])
    assert all(type(i) is int for i in heard)


@pytest.mark.parametrize("ackers", [0, 1])
def test_rows_without_a_message_id_are_never_told_of(ackers):
    calls = []
    with_spout(
        HookArrowSpout,
        next_tuple=batches(3, msg_ids=lambda ids: [None, *list(ids)[1:]]),
        spec={"ackers": ackers},
        **recording(calls, "ack_batch"),
    )
    assert sorted(i for _, some in calls for i in some) == [1, 2]


def test_a_batch_is_not_cut_at_the_permit():
    options = {"batches": 1}
    result = with_spout(HookArrowSpout, next_tuple=batches(5000, 5000), options=options)
    assert result.report["components"]["source"]["emitted"] == 5000


def test_rows_of_a_batch_that_no_task_can_be_chosen_for():
    column = pa.array([{"a": 1}, {"a": 2}])  # a fields grouping has no hash for structs

    def next_tuple(spout):
        if not hasattr(spout, "done"):
            spout.done = True
            spout.collector.emit(pa.record_batch({"x": column}), msg_ids=[1, 2])

    calls = []
    builder = TopologyBuilder(message_timeout_seconds=3)
    spout = builder.set_spout("source", HookArrowSpout)
    spout.set_config(hooks(next_tuple=next_tuple, **recording(calls, "fail")))
    builder.set_bolt("sink", CollectBolt, 2).fields_grouping("source", ["x"])
    run(builder)
    assert [c[:2] for c in calls] == [("fail", 1), ("fail", 2)]


@pytest.mark.parametrize(
    ("emit", "text"),
    [
        (
            lambda c: c.emit(pa.record_batch({"x": [1, 2]}), msg_ids=[1]),
            f"{WHO}: 1 message ids for 2 rows",
        ),
        (
            lambda c: c.emit(pa.record_batch({"y": [1]})),
            f"{WHO}: a batch with the columns ['y'] on stream 'default', which has the fields"
            " ['x']",
        ),
        (
            lambda c: c.emit(pa.record_batch({"x": [1]}), "__dead_letters"),
            f"{WHO}: emit on stream '__dead_letters', but the component declares"
            " ['default', 'pair', 'to-task']",
        ),
    ],
)
def test_wrong_batches(emit, text):
    def next_tuple(spout):
        if not hasattr(spout, "done"):
            spout.done = True
            emit(spout.collector)

    result = with_spout(HookArrowSpout, next_tuple=next_tuple)
    assert messages(result) == [f"next_tuple: {text}"]


def test_columns_may_come_in_any_order_and_streams_keep_theirs():
    def next_tuple(spout):
        spout.__dict__.setdefault("at", 0)
        if spout.at < 3:
            n = spout.at = spout.at + 1
            spout.collector.emit(pa.record_batch({"b": [n], "a": ["a"]}), "pair", msg_ids=[n])
            spout.collector.emit(pa.record_batch({"x": [n]}), msg_ids=[10 + n])

    builder = TopologyBuilder(workers=2)
    builder.set_spout("source", HookArrowSpout).set_config(hooks(next_tuple=next_tuple))
    sink = builder.set_bolt("sink", CollectBolt)
    sink.global_grouping("source").global_grouping("source", "pair")
    result = run(builder)
    assert result.collected("sink") == [("a", 1), (1,), ("a", 2), (2,), ("a", 3), (3,)]
    assert result.trees["acked"] == 6


class Lists(ManyBolt):
    """Notes the lists that it receives."""

    outputs = ("stream", "rows")

    def execute_many(self, tuples, collector):
        collector.emit_many([[tuples.stream, [*tuples]]], parents=[0])


class ListsInAnyOrder(Lists):
    streams_in_any_order = True


@pytest.mark.parametrize(
    ("kind", "lists"),
    [
        (Lists, [["default", [[1]]], ["pair", [[1, 1]]], ["default", [[2]]], ["pair", [[2, 2]]]]),
        (ListsInAnyOrder, [["default", [[1], [2]]], ["pair", [[1, 1], [2, 2]]]]),
    ],
)
def test_streams_that_take_turns_are_cut_into_lists_only_where_their_order_counts(kind, lists):
    def next_tuple(spout):
        spout.__dict__.setdefault("at", 0)
        if spout.at < 2:
            n = spout.at = spout.at + 1
            spout.collector.emit([n], msg_id=n)
            spout.collector.emit([n, n], "pair", msg_id=10 + n)

    builder = TopologyBuilder()
    builder.set_spout("source", HookSpout).set_config(hooks(next_tuple=next_tuple))
    bolt = builder.set_bolt("lists", kind)
    bolt.global_grouping("source").global_grouping("source", "pair")
    builder.set_bolt("sink", CollectBolt).global_grouping("lists")
    result = run(builder)
    assert [*map(list, result.collected("sink"))] == lists
    assert result.trees["acked"] == 4


def test_a_spout_has_its_time_however_long_it_takes_to_tell_it_of_trees(monkeypatch):
    """As where `ack` is slow, or other programs have the processor meanwhile."""
    late = 0

    def ack(spout, msg_id):
        nonlocal late
        late += 60

    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + late)
    spout = hooks(next_tuple=emitting(*"abcdefghij"), ack=ack)
    driver = make_driver(topology(conf=spout)).start()
    emitted = []
    for _ in range(3):
        driver.coordinator.size.permit = 3
        driver.coordinator.size.emit_seconds = 30
        driver.step()
        emitted.append(driver.totals.report()["components"]["source"]["emitted"])
    driver.close()
    assert emitted == [3, 6, 9]


class Nothing(BasicBolt):
    def execute(self, tup, collector):
        pass


@pytest.mark.parametrize(
    ("kind", "bolt", "workers"),
    [
        ("rows", MemorySink, 1),
        ("arrow", MemorySink, 1),
        ("rows", Nothing, 1),
        ("rows", Nothing, 6),
    ],
)
def test_a_batch_has_only_so_many_bytes_in_it_however_much_it_may_emit(kind, bolt, workers):
    """And at least one tuple. What a sink keeps until the end counts more than what is done."""
    size = 3 << 20

    values = [[bytes(size)]] * 4
    batch = pa.record_batch([pa.array([v[0] for v in values])], names=["x"])

    def next_tuple(spout):
        if kind == "arrow":
            spout.collector.emit(batch)
        else:
            for value in values:
                spout.collector.emit(value)

    spout = HookArrowSpout if kind == "arrow" else HookSpout
    builder = TopologyBuilder(workers=workers)
    builder.set_spout("source", spout).set_config(hooks(next_tuple=next_tuple))
    builder.set_bolt("end", bolt, workers).shuffle_grouping("source")
    MEMORY.rows.clear()
    driver = make_driver(builder).start()
    driver.coordinator.size.permit = 10_000
    driver.coordinator.size.emit_seconds = 600
    driver.step()
    emitted = driver.totals.report()["components"]["source"]["emitted"]
    driver.close()
    MEMORY.rows.clear()
    most = MOST_AT_ONCE if bolt is Nothing and workers == 1 else emit_bytes(driver.placed)
    assert most <= emitted * size < most + 4 * size
