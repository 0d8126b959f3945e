"""What becomes of messages that fail: replays, dead letters, mistakes, poison."""

import re

import pyarrow as pa
import pytest

from fulmen import FailedException, TopologyBuilder
from fulmen.engine.driver.edits.letters import replay_letters
from fulmen.engine.state.letters.dead_letters import contents
from fulmen.engine.state.letters.kept_letters import read_letters
from fulmen.errors import TopologyFailed
from fulmen.testing import PAUSE, CollectBolt, ListSpout, Message, run
from fulmen.testing.components import Killed
from support.parts.hooks import HookArrowSpout, HookBasicBolt, HookSpout, Refuses, hooks, messages
from support.runs.engine_runs import A_PERSON
from support.runs.spout_runs import WHO, emitting, recording, topology, with_spout

# ---- replays and dead letters ---------------------------------------------------------------


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


# ---- mistakes -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["open", "activate", "ack", "deactivate", "is_exhausted"])
def test_an_exception_stops_the_topology(what):
    def broken(spout, *args):
        raise ValueError("no")

    with pytest.raises(TopologyFailed) as failure:
        with_spout(**{"next_tuple": emitting("a"), what: broken})
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


def test_with_on_error_crash_a_failing_spout_stops_the_topology():
    with pytest.raises(TopologyFailed) as failure:
        with_spout(next_tuple=flaky, spec={"on_error": "crash"})
    assert failure.value.reason == f"{WHO}: next_tuple: ValueError: no"


OUTSIDE = (
    f"{WHO}: open: {WHO}: emit, ack or fail outside of a callback. Use the collector only inside"
    " of next_tuple, ack, fail, activate, deactivate, execute or drain, and on the thread that"
    " calls them"
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


# ---- a poison tuple -------------------------------------------------------------------------


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
    [message] = messages(result)
    assert re.fullmatch(
        r"dropped a tuple: its batch failed with it alone, twice \(in execute of bolt 'bolt', task"
        r" \d\), and succeeded without it: \['poison'\]",
        message,
    )
    assert len(result.collected("sink")) == 600
    assert 5 < len(result.notes) < 25


@pytest.mark.parametrize("tracked", [True, False])
def test_a_tuple_that_is_dropped_is_kept_in_the_checkpoint_and_sent_to_the_dead_letters(tracked):
    builder = TopologyBuilder(message_timeout_seconds=3)
    items = {"next_tuple": emitting("a", "poison", "b", msg_ids=tracked)}
    builder.set_spout("source", HookSpout).set_config(hooks(**items))
    bolt = builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=kill))
    bolt.shuffle_grouping("source")
    letters = builder.set_bolt("letters", CollectBolt)
    letters.shuffle_grouping("source", "__dead_letters")
    result = run(builder)
    assert result.trees["dropped"] == 1
    msg_id = 2 if tracked else None
    cause = "in execute of bolt 'bolt', task 2"
    letter = ["default", ["poison"], msg_id, 1, f"crashed worker: {cause}"]
    assert list(map(list, result.collected("letters"))) == [letter]
    [kept] = read_letters(result.checkpoint).letters
    letter = kept.letter
    assert (kept.component, kept.task, letter.stream) == ("source", 0, "default")
    assert (letter.shown, letter.msg_id) == (["poison"], msg_id)
    assert (letter.kind, letter.reason) == ("kills workers", f"crashed worker: {cause}")
    assert contents(letter.data) == (["poison"], msg_id)
    assert letter.at > 0


def test_a_tuple_that_kills_and_is_replayed_ends_as_a_dead_letter():
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


class KillsWhereItIsPickled:
    def __reduce__(self):
        raise Killed("at the end of each batch")


def test_workers_that_always_die_stop_the_topology():
    def execute(bolt, tup, collector):
        if tup.is_tick():
            bolt.state["x"] = KillsWhereItIsPickled()

    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1, 2, 3], fields=["x"]))
    bolt = builder.set_bolt("bolt", HookBasicBolt).set_config(hooks(execute=execute))
    bolt.shuffle_grouping("source").set_tick_seconds(0.01)
    with pytest.raises(TopologyFailed, match="at last without any tuple of a spout in it"):
        run(builder)


@pytest.mark.parametrize(
    ("kind", "emit"),
    [
        (HookSpout, lambda collector: collector.emit(["a"], msg_id=[1])),
        (
            HookArrowSpout,
            lambda collector: collector.emit(pa.record_batch({"x": ["a"]}), msg_ids=[[1]]),
        ),
        (
            HookArrowSpout,
            lambda collector: collector.emit(
                pa.record_batch({"x": ["a"]}), msg_ids=pa.array([[1]])
            ),
        ),
    ],
)
@pytest.mark.parametrize("ackers", [0, 1])
def test_a_message_id_that_is_not_hashable_is_refused_when_it_is_emitted(kind, emit, ackers):
    def next_tuple(spout):
        if not hasattr(spout, "done"):
            spout.done = True
            emit(spout.collector)

    result = with_spout(kind, next_tuple=next_tuple, spec={"ackers": ackers})
    [message] = messages(result)
    assert message.endswith(
        ": emit with the message id [1], which is not hashable. Use text, a number, or a tuple of "
        "them"
    )
    assert result.collected("sink") == []


def test_a_dead_letter_that_still_kills_workers_is_found_and_is_one_again():
    items = [*range(30), "poison"]
    spec = {"fails": {"replays": False}, "max_replays": 3}
    first = run(poisoned(items, **spec))
    [kept] = read_letters(first.checkpoint).letters
    replay_letters(first.checkpoint, [str(kept.id)], A_PERSON)
    second = run(poisoned([*items, *range(100, 400)], **spec), checkpoint=first.checkpoint)
    assert sorted(second.acked("source")) == [i for i in range(331) if i != 30]
    assert second.trees["dropped"] == 1
    [again] = read_letters(first.checkpoint).letters
    assert (again.id, again.letter.replays, again.letter.state) == (kept.id, 0, "kept")
    assert again.letter.reason.startswith("crashed worker: in execute of bolt 'bolt', task")
