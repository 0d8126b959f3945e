"""Many tuples by one call: the same as one by one, and no more than there is room for."""

import pytest

from fulmen import ManyBolt, TopologyBuilder
from fulmen.engine.tasks.spouts import spout_task
from fulmen.testing import CollectBolt, run
from support.parts.hooks import HookSpout, hooks, messages
from support.runs.spout_runs import WHO, recording, with_spout


class TwoStreams(HookSpout):
    @classmethod
    def declare_output_fields(cls, declarer):
        declarer.declare(["x"])
        declarer.declare_stream("others", ["x"])


class ThreeStreams(TwoStreams):
    @classmethod
    def declare_output_fields(cls, declarer):
        super().declare_output_fields(declarer)
        declarer.declare_stream("aside", ["x"])


class Lengths(ManyBolt):
    """How many tuples come at once."""

    outputs = ("length",)

    def execute_many(self, tuples, collector):
        collector.emit_many([[len(tuples)]], parents=[0])


def once(emit):
    """next_tuple of a spout that emits in its first call."""

    def next_tuple(spout):
        if not hasattr(spout, "done"):
            spout.done = True
            emit(spout.collector)

    return next_tuple


ROWS = {
    "lists": [["a"], ["b"], ["c"]],
    "tuples": [("a",), ("b",), ("c",)],
    "both": [["a"], ("b",), ["c"]],
}


@pytest.mark.parametrize("ackers", [0, 1, 2])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_each_row_is_a_tuple_with_its_message_id(rows, ackers):
    calls = []
    result = with_spout(
        next_tuple=once(lambda collector: collector.emit_many(rows, msg_ids=[1, None, (2, 3)])),
        spec={"ackers": ackers},
        **recording(calls, "ack", "fail"),
    )
    assert result.collected("sink") == rows
    assert sorted(calls, key=str) == [("ack", (2, 3)), ("ack", 1)]


def test_without_message_ids_no_row_is_tracked():
    calls = []
    result = with_spout(
        next_tuple=once(lambda collector: collector.emit_many([["a"], ["b"]])),
        **recording(calls, "ack", "fail"),
    )
    assert result.collected("sink") == [["a"], ["b"]]
    assert result.trees["acked"] == 0
    assert calls == []


def test_rows_and_message_ids_may_be_generators():
    calls = []
    rows, msg_ids = ([text] for text in "abc"), (number for number in range(3))
    result = with_spout(
        next_tuple=once(lambda collector: collector.emit_many(rows, msg_ids=msg_ids)),
        **recording(calls, "ack"),
    )
    assert result.collected("sink") == [["a"], ["b"], ["c"]]
    assert sorted(calls) == [("ack", 0), ("ack", 1), ("ack", 2)]


@pytest.mark.parametrize("msg_ids", [None, (7, 8, 9), iter([7, 8, 9])])
def test_rows_before_one_that_a_generator_raises_at_are_sent(msg_ids):
    def rows():
        yield ["a"]
        yield ["b"]
        raise ValueError("line 3")

    emit = once(lambda collector: collector.emit_many(rows(), msg_ids=msg_ids))
    result = with_spout(next_tuple=emit)
    assert result.collected("sink") == [["a"], ["b"]]
    assert result.trees["acked"] == (0 if msg_ids is None else 2)
    assert messages(result) == ["next_tuple: ValueError: line 3"]


def test_no_row_is_nothing_emitted():
    result = with_spout(next_tuple=once(lambda collector: collector.emit_many([], msg_ids=[])))
    assert result.report["components"]["source"]["emitted"] == 0


def test_rows_before_and_behind_single_emits_keep_their_order():
    def emit(collector):
        collector.emit(["a"], msg_id=1)
        collector.emit_many([["b"], ["c"]], msg_ids=[2, 3])
        collector.emit(["d"], msg_id=4)

    assert with_spout(next_tuple=once(emit)).collected("sink") == [["a"], ["b"], ["c"], ["d"]]


@pytest.mark.parametrize(
    ("rows", "msg_ids", "error"),
    [
        ([["a"], ["b", "c"]], [1, 2], "emit of ['b', 'c'] on stream 'default'"),
        ([["a"], ["b"]], [1, []], "emit with the message id [], which is not hashable"),
        ([["a"], "b"], [1, 2], "emit('b'): the values must be a list or a tuple"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_and_the_rows_before_it_are_sent(rows, msg_ids, error):
    emit = once(lambda collector: collector.emit_many(rows, msg_ids=msg_ids))
    result = with_spout(next_tuple=emit)
    assert result.collected("sink") == [["a"]]
    assert error in messages(result)[0]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"msg_ids": [1]}, f"{WHO}: emit_many of 2 rows with 1 message ids"),
        ({"stream": "others"}, "emit on stream 'others', but the component declares ['default'"),
        ({"stream": [1]}, "[1] is given as the stream"),
    ],
)
def test_what_is_wrong_with_the_call_is_said_and_nothing_is_sent(arguments, error):
    emit = once(lambda collector: collector.emit_many([["a"], ["b"]], **arguments))
    result = with_spout(next_tuple=emit)
    assert result.collected("sink") == []
    assert error in messages(result)[0]


def test_a_spout_that_minds_its_room_keeps_to_max_spout_pending():
    rooms = []

    def next_tuple(spout):
        rooms.append(spout.collector.room)
        ids = list(range(rooms[-1]))
        spout.collector.emit_many([[i] for i in ids], msg_ids=ids)
        assert spout.collector.room == 0

    result = with_spout(
        next_tuple=next_tuple, spec={"max_spout_pending": 7}, options={"batches": 1}
    )
    assert result.report["components"]["source"]["emitted"] == sum(rooms) == 7
    assert max(rooms) > 1


def test_a_spout_that_was_fast_has_room_from_the_start_of_the_next_batch(monkeypatch):
    monkeypatch.setattr(spout_task, "_CHECK_SECONDS", 1e9)  # whatever else the machine does
    rooms = []

    def next_tuple(spout):
        rooms.append(room := spout.collector.room)
        spout.collector.emit_many([[0]] * room, msg_ids=[0] * room)

    with_spout(next_tuple=next_tuple, spec={"max_spout_pending": 7}, options={"batches": 2})
    assert rooms == [1, 2, 4, 7]


def test_lists_and_single_emits_on_several_streams_come_in_their_order():
    def emit(collector):
        for first in range(0, 200, 100):
            ids = range(first, first + 40)
            collector.emit_many([[i] for i in ids], msg_ids=ids)
            collector.emit_many([(first + 40,), [first + 41]], "others")
            collector.emit([first + 42], msg_id=first + 42)
            collector.emit([first + 43], "others", msg_id="last")

    calls = []
    functions = {"next_tuple": once(emit), **recording(calls, "ack")}
    builder = TopologyBuilder()
    builder.set_spout("source", TwoStreams).set_config(hooks(**functions))
    sink = builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    sink.shuffle_grouping("source", "others")
    result = run(builder)
    numbers = [*range(44), *range(100, 144)]
    assert result.collected("sink") == [(i,) if i % 100 == 40 else [i] for i in numbers]
    tracked = [i for i in numbers if i % 100 not in (40, 41, 43)]
    assert [msg_id for _, msg_id in calls if msg_id != "last"] == tracked
    assert calls.count(("ack", "last")) == 2


def test_a_stream_whose_order_among_others_counts_for_nobody_comes_at_once():
    def emit(collector):
        for first in range(0, 60, 20):
            collector.emit_many([[first], [first + 1]], msg_ids=[first, first + 1])
            collector.emit_many([["a"], ["b"]], "aside", msg_ids=[first + 2, first + 3])
            collector.emit([first + 4], "others", msg_id=first + 4)
            collector.emit(["c"], "aside", msg_id=first + 5)
        runs.extend(run.routes.stream for run in collector.runs)

    calls, runs = [], []
    builder = TopologyBuilder()
    functions = {"next_tuple": once(emit), **recording(calls, "ack")}
    builder.set_spout("source", ThreeStreams).set_config(hooks(**functions))
    sink = builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    sink.shuffle_grouping("source", "others")
    builder.set_bolt("lengths", Lengths).shuffle_grouping("source", "aside")
    builder.set_bolt("found", CollectBolt).shuffle_grouping("lengths")
    result = run(builder)
    in_order = [[first + i] for first in (0, 20, 40) for i in (0, 1, 4)]
    assert result.collected("sink") == in_order
    assert result.collected("found") == [[9]]
    assert (runs.count("aside"), runs.count("default"), runs.count("others")) == (1, 3, 3)
    assert sorted(msg_id for _, msg_id in calls) == [f + i for f in (0, 20, 40) for i in range(6)]


def test_what_was_emitted_on_all_streams_is_counted():
    counts = []

    def emit(collector):
        collector.emit_many([[0]] * 2)
        for stream, n in (("others", 3), ("aside", 4), ("default", 5), ("aside", 6)):
            collector.emit_many([[0]] * n, stream)
        counts.append(collector.emitted())

    builder = TopologyBuilder()
    builder.set_spout("source", ThreeStreams).set_config(hooks(next_tuple=once(emit)))
    sink = builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    sink.shuffle_grouping("source", "others")
    run(builder)
    assert counts == [20]
