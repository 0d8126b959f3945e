"""What a bolt may emit, what comes of it, and what it is told if it may not."""

import threading
from types import MappingProxyType

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import PAUSE, CollectBolt, ListSpout, run
from support.parts.hooks import (
    HookBasicBolt,
    HookBolt,
    HookSpout,
    Topology,
    hooks,
    messages,
    with_bolt,
)
from support.runs.bolt_runs import OUTSIDE, WHO, fail_always, keep_two


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


def test_a_value_without_a_hash_does_not_fail_a_tuple_that_was_told_its_tasks():
    def execute(bolt, tup):
        value = Unhashable() if tup["x"] == "c" else tup["x"]
        bolt.collector.emit([value], anchors=tup, need_task_ids=tup["x"] in ("a", "d"))
        bolt.collector.ack(tup)

    topology = Topology(HookBolt, ["a", "b", "c", "d", "e"])
    topology.builder._bolts.pop("sink")
    topology.builder.set_bolt("sink", CollectBolt, 2).fields_grouping("bolt", ["x"])
    result = topology.run(functions={"execute": execute})
    [message] = messages(result)
    assert "Unhashable" in message
    assert result.acked("source") == [0, 1, 3, 4]
    assert [msg_id for msg_id, _ in result.failed("source")] == [2]
    assert sorted(x for [x] in result.collected("sink")) == ["a", "b", "d", "e"]


def test_with_on_error_crash_a_wrong_emit_stops_the_topology():
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


@pytest.mark.parametrize(
    ("emit", "text"),
    [
        (lambda c, tup: c.emit(tup, ["b"]), f"{WHO}: ['b'] is given as the stream, the second"),
        (lambda c, tup: c.emit(["b"], tup), f"{WHO}: Tuple("),
        (lambda c, tup: c.emit(["b"], 7), f"{WHO}: 7 is given as the stream, the second argument"),
        (lambda c, tup: c.emit(["b"], 7, need_task_ids=True), f"{WHO}: 7 is given as the stream"),
        (
            lambda c, tup: c.emit_direct(["b"], 7, "to-task"),
            f"{WHO}: emit_direct(['b'], 7): the values must be a list or a tuple. It is"
            " emit_direct(task, values, stream)",
        ),
    ],
)
def test_arguments_in_the_order_of_storm_are_explained(emit, text):
    def execute(bolt, tup):
        emit(bolt.collector, tup)

    result = with_bolt(execute, ["a"])
    [message] = messages(result)
    assert message.removeprefix("execute: ").startswith(text)
    assert "emit_direct" in text or "msg_id=..., and anchors as anchors=..." in message
    assert [msg_id for msg_id, _ in result.failed("source")] == [0]


def test_a_spouts_message_id_in_the_place_of_the_stream_is_explained():
    def next_tuple(spout):
        if not spout.__dict__.setdefault("emitted", []):
            spout.emitted.append(1)
            spout.collector.emit(["a"], 1)

    result = Topology(spout=(HookSpout, {"next_tuple": next_tuple})).run(
        functions={"execute": lambda bolt, tup: None}, batches=3
    )
    assert "1 is given as the stream" in messages(result)[0]


class Reusing(BasicBolt):
    """Emits a list of its own again and again, and changes it after each emit."""

    outputs = MappingProxyType({"default": ["a", "b"], "other": ["a", "b"], "one": ["a"]})
    transient = ("row",)

    def prepare(self, conf, context):
        self.row = []

    def execute(self, tup, collector):
        for text in "xy":
            for stream in self.outputs:
                self.row[:] = [tup[0] + text] * (1 if stream == "one" else 2)
                collector.emit(self.row, stream)
        self.row[0] = "changed"


@pytest.mark.parametrize("stream", Reusing.outputs)
def test_a_list_that_is_changed_after_its_emit_is_sent_as_it_was(stream):
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(["1", "2"]))
    builder.set_bolt("bolt", Reusing).shuffle_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("bolt", stream)
    result = run(builder)
    assert [row[0] for row in result.collected("sink")] == ["1x", "1y", "2x", "2y"]


def test_what_a_bolt_does_to_values_it_received_does_not_reach_others():
    def execute(bolt, tup):
        bolt.collector.emit([tup["x"], "right"], "pair", anchors=tup)
        bolt.collector.ack(tup)

    def change(bolt, tup, collector):
        tup.values[1] = "wrong"

    topology = Topology(HookBolt, ["a"])
    for name in ("first", "second"):
        topology.builder.set_bolt(name, HookBasicBolt).set_config(
            hooks(execute=change)
        ).shuffle_grouping("bolt", "pair")
    topology.builder.set_bolt("last", CollectBolt).all_grouping("bolt", "pair")
    result = topology.run(functions={"execute": execute}, emits=True)
    assert result.collected("last") == [["a", "right"]]
    assert result.emitted("bolt", "pair") == [["a", "right"]]
