"""What a spout may do, what it is told, and what comes of it."""

import numpy as np
import pyarrow as pa
import pytest

from fulmen import FailedException, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import PAUSE, CollectBolt, ListSpout, Message, run
from fulmen.testing.components import Killed
from support.hooks import HookArrowSpout, HookBasicBolt, HookSpout, Refuses, StormSpout, hooks

WHO = "spout 'source', task 3"


def messages(result):
    return [error.message for error in result.errors]


def topology(kind=HookSpout, *, bolt=CollectBolt, conf=None, **spec):
    """A spout, and a sink for its stream."""
    spec.setdefault("message_timeout_seconds", 3)
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", kind).set_config(conf or {})
    builder.set_bolt("sink", bolt).shuffle_grouping("source")
    return builder


def with_spout(kind=HookSpout, options=None, spec=None, **functions):
    return run(topology(kind, conf=hooks(**functions), **(spec or {})), **(options or {}))


def emitting(*values, msg_ids=True):
    """next_tuple of a spout that emits these, one in each call."""

    def next_tuple(spout):
        spout.__dict__.setdefault("at", 0)
        if spout.at < len(values):
            spout.at += 1
            spout.collector.emit([values[spout.at - 1]], msg_id=spout.at if msg_ids else None)

    return next_tuple


# ---- the order of calls ----------------------------------------------------------------------


def recording(calls, *names):
    return {name: lambda spout, *args, n=name: calls.append((n, *args)) for name in names}


def test_the_life_of_a_spout():
    calls = []
    names = ("open", "activate", "ack", "fail", "deactivate", "close")
    with_spout(next_tuple=emitting("a"), **recording(calls, *names))
    assert calls == [("open",), ("activate",), ("ack", 1), ("deactivate",), ("close",)]


def test_how_trees_ended_is_told_before_the_next_tuple_is_asked_for():
    calls = []

    def next_tuple(spout):
        calls.append(("next_tuple",))
        emitting("a")(spout)

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


# ---- message ids -----------------------------------------------------------------------------


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


def test_without_ackers_nothing_fails():
    calls = []
    functions = {"next_tuple": emitting("a"), **recording(calls, "ack", "fail")}
    builder = topology(bolt=HookBasicBolt, conf=hooks(**functions), ackers=0)
    builder._bolts["sink"]["config"] = hooks(execute=lambda *args: 1 / 0)
    result = run(builder)
    assert calls == [("ack", 1)]
    assert result.report["components"]["sink"]["failed"] == 1


# ---- how many --------------------------------------------------------------------------------


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


# ---- replays and dead letters ----------------------------------------------------------------


def refusing(items, refuse, *, subscribed=True, spout=None, **spec):
    builder = TopologyBuilder(message_timeout_seconds=3, **spec)
    builder.set_spout("source", spout or ListSpout(items))
    bolt = builder.set_bolt("refuses", Refuses).shuffle_grouping("source")
    bolt.set_config({"refuse": refuse})
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("refuses")
    if subscribed:
        letters = builder.set_bolt("letters", CollectBolt)
        letters.shuffle_grouping("source", "__dead_letters")
    return builder


def test_what_fails_is_emitted_again():
    result = run(refusing(["a", "b", "c"], {"b": 2}))
    assert result.acked("source") == [0, 2, 1]
    assert (
        result.failed("source")
        == [
            (1, "bolt 'refuses': execute: ValueError: refused"),
        ]
        * 2
    )
    assert result.trees["replayed"] == 2
    assert [x for [x] in result.collected("sink")] == ["a", "c", "b"]


@pytest.mark.parametrize("ackers", [1, 3])
def test_a_message_that_fails_again_and_again_becomes_a_dead_letter(ackers):
    result = run(refusing(["a", "b"], {"b": 99}, max_replays=3, ackers=ackers, workers=2))
    reason = "bolt 'refuses': execute: ValueError: refused"
    assert result.collected("letters") == [["default", ["b"], 1, 3, reason]]
    assert result.failed("source") == [(1, reason)] * 3
    assert sorted(result.acked("source")) == [0, 1]
    assert (result.trees["dead_lettered"], result.trees["replayed"]) == (1, 2)


def test_without_a_subscriber_a_dead_letter_is_acked():
    result = run(refusing(["a", "b"], {"b": 99}, max_replays=1, subscribed=False))
    assert result.acked("source") == [0, 1]
    assert result.trees["dead_lettered"] == 1


def test_a_message_that_was_acked_begins_anew():
    items = [Message(["x"], msg_id="m"), PAUSE, PAUSE, PAUSE, PAUSE, Message(["x"], msg_id="m")]
    result = run(refusing(items, {"x": 2}, max_replays=3))
    assert result.trees["dead_lettered"] == 0
    assert result.acked("source") == ["m", "m"]


def test_failures_are_remembered_over_a_restart():
    builder = refusing(["a"], {"a": 99}, max_replays=4)
    result = run(builder, batches=3)
    assert 0 < len(result.failed("source")) < 4
    result = run(builder, checkpoint=result.checkpoint)
    assert len(result.failed("source")) == 4
    assert result.trees["dead_lettered"] == 1


def test_dead_letters_of_a_spout_of_batches():
    def next_tuple(spout):
        todo = spout.__dict__.setdefault("todo", [1, 2, 3])
        if todo:
            batch = pa.record_batch({"value": [f"v{i}" for i in todo]})
            spout.collector.emit(batch, msg_ids=todo)
            spout.todo = []

    def fail(spout, msg_id, reason):
        spout.todo = [*spout.todo, msg_id]

    calls = []
    functions = {"next_tuple": next_tuple, "fail": fail, **recording(calls, "ack_batch")}
    builder = refusing([], {"v2": 99}, max_replays=2, spout=ArrowValues)
    builder._spouts["source"]["config"] = hooks(**functions)
    result = run(builder)
    ((stream, values, msg_id, failures, _),) = result.collected("letters")
    assert (stream, values, msg_id, failures) == ("default", ["v2"], 2, 2)
    assert calls == [("ack_batch", [1, 3]), ("ack_batch", [2])]
    assert result.trees["replayed"] == 1


class ArrowValues(HookArrowSpout):
    outputs = ("value",)


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["open", "activate", "ack", "deactivate", "is_exhausted"])
def test_an_exception_stops_the_topology(what):
    def broken(spout, *args):
        raise ValueError("no")

    with pytest.raises(TopologyFailed) as failure:
        with_spout(**{"next_tuple": emitting("a"), what: broken})
    what = {"deactivate": "activate"}.get(what, what)
    assert failure.value.reason == f"{WHO}: {what}: ValueError: no"
    assert 'raise ValueError("no")' in failure.value.traceback


def test_an_exception_in_fail_stops_the_topology():
    def broken(spout, *args):
        raise ValueError("no")

    functions = {"next_tuple": emitting("a"), "fail": broken}
    builder = topology(bolt=HookBasicBolt, conf=hooks(**functions))
    builder._bolts["sink"]["config"] = hooks(execute=lambda *args: 1 / 0)
    with pytest.raises(TopologyFailed) as failure:
        run(builder)
    assert failure.value.reason == f"{WHO}: fail: ValueError: no"


def flaky(spout):
    spout.__dict__.setdefault("calls", 0)
    spout.calls += 1
    if spout.calls == 2:
        raise ValueError("no")
    if spout.calls < 5:
        spout.collector.emit([spout.calls], msg_id=spout.calls)


def test_an_exception_in_next_tuple_is_reported_and_ends_the_turn():
    result = with_spout(next_tuple=flaky)
    assert messages(result) == ["next_tuple: ValueError: no"]
    assert result.collected("sink") == [[1], [3], [4]]
    result = with_spout(next_tuple=flaky, options={"batches": 1})
    assert result.collected("sink") == [[1]]


def test_with_on_error_crash_it_stops_the_topology():
    with pytest.raises(TopologyFailed) as failure:
        with_spout(next_tuple=flaky, spec={"on_error": "crash"})
    assert failure.value.reason == f"{WHO}: next_tuple: ValueError: no"


OUTSIDE = (
    f"{WHO}: open: {WHO}: emit, ack or fail outside of a callback. Use the collector only inside"
    " of next_tuple, ack, fail, activate, deactivate or execute, and on the thread that calls them"
)


@pytest.mark.parametrize("kind", [HookSpout, HookArrowSpout])
def test_emitting_in_open_stops_the_topology(kind):
    values = ["a"] if kind is HookSpout else pa.record_batch({"x": ["a"]})
    with pytest.raises(TopologyFailed) as failure:
        with_spout(kind, open=lambda spout: spout.collector.emit(values))
    assert failure.value.reason == OUTSIDE


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("msg_id", [None, "m"])
def test_a_str_of_the_right_length_is_an_error(ordered, msg_id):
    def next_tuple(spout):
        spout.__dict__.setdefault("at", 0)
        spout.at += 1
        if spout.at < 4:
            spout.collector.emit(["abc"[spout.at - 1]] if spout.at != 2 else "b", msg_id=msg_id)

    calls = []
    functions = {"next_tuple": next_tuple, **recording(calls, "ack", "fail")}
    builder = topology(conf=hooks(**functions))
    if ordered:
        builder._bolts["sink"]["inputs"].append(
            {"from": "source", "stream": "pair", "grouping": {"type": "shuffle"}}
        )
    result = run(builder)
    assert result.collected("sink") == [["a"], ["c"]]
    (message,) = messages(result)
    text = f"{WHO}: emit('b'): the values must be a list or a tuple, such as ['b']"
    assert message == f"emit: {text}"
    assert sorted(calls) == ([("ack", "m")] * 2 + [("fail", "m", text)]) * bool(msg_id)


def test_a_message_id_that_can_not_be_pickled_stops_the_topology():
    def next_tuple(spout):
        spout.collector.emit(["a"], msg_id=lambda: None)

    with pytest.raises(TopologyFailed, match="pickling its message ids: "):
        with_spout(next_tuple=next_tuple, spec={"workers": 2})


class Odd:
    """Has no stable hash."""


def test_emits_that_no_task_can_be_chosen_for_fail():
    values = [Odd() if i % 100 == 7 else i for i in range(1000)]

    def next_tuple(spout):
        spout.__dict__.setdefault("at", 0)
        if spout.at < len(values):
            spout.collector.emit([values[spout.at]], msg_id=spout.at)
            spout.at += 1

    calls = []
    builder = TopologyBuilder(message_timeout_seconds=3)
    spout = builder.set_spout("source", HookSpout)
    spout.set_config(hooks(next_tuple=next_tuple, **recording(calls, "ack", "fail")))
    builder.set_bolt("sink", CollectBolt, 2).fields_grouping("source", ["x"])
    result = run(builder)
    assert sorted(x for [x] in result.collected("sink")) == [i for i in range(1000) if i % 100 != 7]
    assert sorted(c[1] for c in calls if c[0] == "ack") == [i for i in range(1000) if i % 100 != 7]
    assert sorted(c[1] for c in calls if c[0] == "fail") == [i for i in range(1000) if i % 100 == 7]
    assert "Odd" in messages(result)[0]


# ---- spouts of record batches ----------------------------------------------------------------


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


# ---- a poison tuple --------------------------------------------------------------------------


def kill(bolt, tup, collector):
    if tup["x"] == "poison":
        raise Killed


def poisoned(items, *, fails=None, workers=1, **spec):
    builder = TopologyBuilder(message_timeout_seconds=3, workers=workers, **spec)
    builder.set_spout("source", ListSpout(items, fields=["x"], **(fails or {})), 2)
    bolt = builder.set_bolt("bolt", HookBasicBolt, 2).set_config(hooks(execute=kill))
    bolt.shuffle_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    return builder


@pytest.mark.parametrize("workers", [1, 2])
def test_a_tuple_that_kills_its_worker_is_found_and_failed(workers):
    items = [*range(300), "poison", *range(300, 600)]
    result = run(poisoned(items, fails={"replays": False}, workers=workers))
    assert result.failed("source") == [(300, "crashed worker")]
    assert sorted(result.acked("source")) == [i for i in range(601) if i != 300]
    assert messages(result) == [
        "dropped a tuple that crashed its worker or never ended: ['poison']"
    ]
    assert len(result.collected("sink")) == 600
    assert 5 < len(result.notes) < 25


def test_replayed_it_ends_as_a_dead_letter():
    result = run(poisoned([1, "poison", 2], max_replays=2))
    assert result.failed("source") == [(1, "crashed worker")] * 2
    assert sorted(result.acked("source")) == [0, 1, 2]


def test_a_spout_that_emits_it_again_in_fail_does_not_stop_the_topology():
    def next_tuple(spout):
        if spout.at < 60:
            spout.at += 1
            spout.collector.emit(["poison" if spout.at == 20 else spout.at], msg_id=spout.at)

    def begin(spout):
        spout.at = 0
        spout.fails = 0

    def fail(spout, msg_id, reason):
        spout.fails += 1
        if spout.fails < 3:
            spout.collector.emit(["poison"], msg_id=msg_id)

    calls = []

    def ack(spout, msg_id):
        calls.append(msg_id)

    builder = TopologyBuilder(message_timeout_seconds=3)
    functions = {"open": begin, "next_tuple": next_tuple, "fail": fail, "ack": ack}
    builder.set_spout("source", HookSpout).set_config(hooks(**functions))
    bolt = builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=kill))
    bolt.shuffle_grouping("source")
    result = run(builder)
    assert set(calls) == set(range(1, 61)) - {20}
    assert result.fields("source")["fails"] == 3
    assert result.trees["failed"] == 3


def test_many_failed_messages_with_one_poisonous_among_them():
    """All are emitted again in `fail`: the others must get through."""

    def next_tuple(spout):
        if not spout.sent:
            spout.sent = True
            for i in range(40):
                spout.collector.emit([f"first {i}"], msg_id=i)

    def begin(spout):
        spout.sent = False
        spout.fails = 0

    def fail(spout, msg_id, reason):
        spout.fails += msg_id == 17
        if spout.fails < 3 or msg_id != 17:
            spout.collector.emit(["poison" if msg_id == 17 else f"again {msg_id}"], msg_id=msg_id)

    def execute(bolt, tup, collector):
        kill(bolt, tup, collector)
        if tup["x"].startswith("first"):
            raise FailedException("once")

    acked = []
    builder = TopologyBuilder(message_timeout_seconds=3)
    functions = {"open": begin, "next_tuple": next_tuple, "fail": fail}
    functions["ack"] = lambda spout, msg_id: acked.append(msg_id)
    builder.set_spout("source", HookSpout).set_config(hooks(**functions))
    bolt = builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=execute))
    bolt.shuffle_grouping("source")
    result = run(builder)
    assert set(acked) == set(range(40)) - {17}
    assert result.trees["acked"] == 39


def test_workers_that_always_die_stop_the_topology():
    def execute(bolt, tup, collector):
        if tup.is_tick():
            raise Killed("at each tick")

    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1, 2, 3], fields=["x"]))
    bolt = builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=execute))
    bolt.shuffle_grouping("source").set_tick_seconds(0.01)
    with pytest.raises(TopologyFailed, match="at last without any tuple of a spout in it"):
        run(builder)
