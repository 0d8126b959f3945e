"""Bolts of record batches."""

import pyarrow as pa
import pytest

from fulmen.testing import Message
from support.parts.hooks import (
    HookArrowBolt,
    HookBasicBolt,
    Topology,
    hooks,
    messages,
    with_bolt,
)
from support.runs.bolt_runs import OUTSIDE, WHO, fail_always


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
            f"{WHO}: emit of a Table, but it must be a pyarrow.RecordBatch. A table can be"
            " divided into them: table.to_batches()",
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
    result = with_bolt(lambda *args: None, ["a", object()], kind=HookArrowBolt)
    assert [msg_id for msg_id, _ in result.failed("source")] == [1]
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
