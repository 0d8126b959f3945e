"""Row numbers and columns that a bolt of batches gives, and what it may not."""

import numpy as np
import pyarrow as pa
import pytest

from fulmen import ArrowBolt, TopologyBuilder
from fulmen.testing import CollectBolt, run
from support.parts.hooks import HookArrowBolt, HookArrowSpout, hooks, messages, with_bolt
from support.runs.bolt_runs import WHO


def using(use):
    """Three rows, of which a bolt does something."""
    return with_bolt(lambda bolt, batch, c: use(c, batch), [1, 2, 3], kind=HookArrowBolt)


def no_numbers(kind):
    return (
        f"{WHO}: rows are given as {kind}, but must be the numbers of rows, from 0. For a mask,"
        " these are np.flatnonzero(mask)"
    )


def type_of(kind):
    return (
        f"{WHO}: column 'x' is of the type {kind}, of which Arrow can't choose single rows. Cast it"
        " to another one, such as string"
    )


MASK = [False, True, True]


def views(kind=None):
    return pa.record_batch({"x": pa.array(["a", "b", "c"], kind or pa.string_view())})


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda c, b: c.fail(MASK), no_numbers("bool")),
        (lambda c, b: c.fail(np.array(MASK)), no_numbers("bool")),
        (lambda c, b: c.fail(pa.array(MASK)), no_numbers("bool")),
        (lambda c, b: c.fail(pa.chunked_array([MASK[:1], MASK[1:]])), no_numbers("bool")),
        (lambda c, b: c.fail(True), no_numbers("bool")),
        (lambda c, b: c.fail(pa.scalar(True)), no_numbers("object")),
        (lambda c, b: c.fail(list(pa.array(MASK))), no_numbers("object")),
        (lambda c, b: c.fail(list(pa.array([0, None]))), no_numbers("object")),
        (lambda c, b: c.fail(np.array([0, True], object)), no_numbers("object")),
        (lambda c, b: c.fail(1.5), no_numbers("float64")),
        (lambda c, b: c.fail("12"), no_numbers("<U1")),
        (lambda c, b: c.fail(pa.array([0, None])), no_numbers("float64")),
        (lambda c, b: c.emit(b, rows=MASK), no_numbers("bool")),
        (lambda c, b: c.emit(b, rows=pa.array([0, None, 2])), no_numbers("float64")),
        (lambda c, b: c.emit(b, rows=[0, None, 2]), no_numbers("object")),
        (lambda c, b: c.emit(b, rows=np.array([0.0, 1.0, 2.5])), no_numbers("float64")),
        (lambda c, b: c.emit(b, rows=[0.0, 1.0, 2.0]), no_numbers("float64")),
        (lambda c, b: c.emit(views()), type_of("string_view")),
        (lambda c, b: c.emit(views(pa.binary_view())), type_of("binary_view")),
    ],
)
def test_what_is_no_number_of_a_row_fails_the_input_and_says_why(use, text):
    result = using(use)
    assert messages(result) == [f"execute: {text}"]
    assert result.failed("source") == [(i, f"bolt 'bolt': execute: {text}") for i in range(3)]
    assert result.collected("sink") == []


@pytest.mark.parametrize(
    "rows",
    [
        [0, 2],
        (0, 2),
        {0, 2},
        range(0, 3, 2),
        (i for i in (0, 2)),
        [np.int64(0), np.int8(2)],
        np.array([0, 2], np.uint8),
        np.flatnonzero([True, False, True]),
        pa.array([0, 2], pa.int16()),
        pa.chunked_array([[0], [2]]),
        list(pa.array([0, 2])),
        np.array([0, 2], object),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_numbers_of_rows_may_come_in_any_way(rows):
    given = list(rows)
    result = using(lambda c, b: c.fail(given if hasattr(rows, "send") else rows))
    assert [msg_id for msg_id, _ in result.failed("source")] == [0, 2]
    assert result.acked("source") == [1]
    assert messages(result) == []


@pytest.mark.parametrize("row", [1, np.int64(1), np.uint8(1), pa.scalar(1)])
def test_one_row_by_its_number(row):
    assert using(lambda c, b: c.fail(row)).acked("source") == [0, 2]


@pytest.mark.parametrize("rows", [[2, 0], range(2, -1, -2), np.array([2, 0]), pa.array([2, 0])])
def test_what_is_emitted_is_anchored_to_rows_however_they_are_given(rows):
    result = using(lambda c, b: c.emit(b.slice(0, 2), rows=rows))
    assert result.collected("sink") == [(1,), (2,)]
    assert result.acked("source") == [0, 1, 2]


@pytest.mark.parametrize("rows", [[], np.array([]), pa.array([]), pa.array([], pa.int64())])
def test_no_rows_at_all(rows):
    def use(c, batch):
        c.fail(rows)
        c.emit(batch.slice(0, 0), rows=rows)

    assert using(use).acked("source") == [0, 1, 2]


def test_views_that_are_cast_may_be_sent():
    result = using(lambda c, b: c.emit(views(pa.string())))
    assert result.collected("sink") == [("a",), ("b",), ("c",)]


# ---- dictionaries --------------------------------------------------------------------------------


class Counting(ArrowBolt):
    """Keeps the size of each batch, and how often each value came."""

    outputs = ("x",)

    def execute(self, batch, collector):
        self.state["batches"] = self.state.get("batches", 0) + 1
        for value in batch["x"].to_pylist():
            self.state[value] = self.state.get(value, 0) + 1
        collector.emit(batch)


def encoded(first):
    """100 rows with a dictionary of as many values, of which int8 counts 128."""
    column = pa.array([f"{n}" for n in range(first, first + 100)]).dictionary_encode()
    column = column.cast(pa.dictionary(pa.int8(), pa.string()))
    return pa.record_batch({"x": column})


def emit_thrice(spout):
    spout.__dict__.setdefault("at", 0)
    if spout.at < 1:
        spout.at += 1
        for n in range(3):
            ids = list(range(100 * n, 100 * n + 100))
            spout.collector.emit(encoded(50 * n), msg_ids=ids)


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_whose_dictionaries_are_too_many_for_one_are_all_processed(workers):
    builder = TopologyBuilder(workers=workers, message_timeout_seconds=3)
    builder.set_spout("source", HookArrowSpout).set_config(hooks(next_tuple=emit_thrice))
    builder.set_bolt("count", Counting).shuffle_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("count")
    result = run(builder)
    counted = result.state("count")
    assert counted.pop("batches") > 1
    assert sum(counted.values()) == result.trees["acked"] == 300
    assert len(counted) == 200
    assert len(result.collected("sink")) == 300
    assert (result.errors, result.notes) == ([], [])
