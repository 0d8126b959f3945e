"""Values that don't fit into one Arrow column: only their rows fail, and which is told."""

import pyarrow as pa
import pytest

from fulmen.engine.tuples.mixed_columns import fitting
from fulmen.errors import TopologyFailed
from support.parts.hooks import HookArrowBolt, messages, with_bolt

ONE_TYPE = ". A batch that an ArrowBolt receives has one type for each column"


class Unfriendly:
    def __repr__(self):
        raise ValueError("no")


@pytest.mark.parametrize(
    ("values", "wrong", "left"),
    [
        ([1, 2, "x", 4], [2], [1, 2, 4]),
        (["a", 1, "b", 2, "c"], [1, 3], ["a", "b", "c"]),
        ([1.5, 2, "x", None], [2], [1.5, 2.0, None]),
        ([1, 2**70, 3], [1], [1, 3]),
        ([[1], ["a"], [2]], [1], [[1], [2]]),
        ([Unfriendly(), 1], [0], [1]),
        ([Unfriendly(), Unfriendly()], [0, 1], []),
        ([1, 10**5000], [1], [1]),
        ([True, 5, 6], [0], [5, 6]),
    ],
)
def test_rows_of_the_type_of_most_are_left(values, wrong, left):
    found, batch = fitting(["x", "y"], [values, [*range(len(values))]])

    assert sorted(found) == wrong
    assert all(f"field 'x' of row {row} is " in text for row, text in found.items())
    assert batch["x"].to_pylist() == left
    assert batch["y"].to_pylist() == [i for i in range(len(values)) if i not in wrong]


def test_several_columns_may_have_wrong_rows():
    found, batch = fitting(["x", "y"], [[1, 2, "a"], ["b", 3.5, "c"]])

    assert found == {
        1: "field 'y' of row 1 is 3.5 (float), but that of the other rows is string" + ONE_TYPE,
        2: "field 'x' of row 2 is 'a' (str), but that of the other rows is int64" + ONE_TYPE,
    }
    assert batch.to_pylist() == [{"x": 1, "y": "b"}]


def squares(bolt, batch, collector):
    numbers = batch["x"].to_pylist()
    if 3 in numbers:
        collector.fail(numbers.index(3), "three")
    collector.emit(pa.record_batch({"x": [x * x for x in numbers]}))


def test_only_the_rows_fail_that_do_not_fit():
    result = with_bolt(squares, [1, "a", 2, 3, "b", 4], kind=HookArrowBolt)

    text = "bolt 'bolt': execute: field 'x' of row {} is {!r} (str), but that of the other rows is"
    assert sorted(result.failed("source")) == [
        (1, f"{text.format(1, 'a')} int64{ONE_TYPE}"),
        (3, "three"),
        (4, f"{text.format(4, 'b')} int64{ONE_TYPE}"),
    ]
    assert sorted(result.acked("source")) == [0, 2, 5]
    assert [x for (x,) in result.collected("sink")] == [1, 4, 9, 16]
    assert len(messages(result)) == 2


def test_what_is_emitted_is_anchored_to_the_rows_that_were_received():
    def execute(bolt, batch, collector):
        collector.emit(batch, rows=range(batch.num_rows))
        raise ValueError(f"{batch.num_rows} rows")

    result = with_bolt(execute, ["a", 1, 2], kind=HookArrowBolt)

    reasons = dict(result.failed("source"))
    assert reasons.keys() == {0, 1, 2}
    assert reasons[1] == reasons[2] == "bolt 'bolt': execute: ValueError: 2 rows"
    assert "field 'x' of row 0 is 'a'" in reasons[0]


def test_with_on_error_crash_rows_that_do_not_fit_stop_the_topology():
    with pytest.raises(TopologyFailed, match="field 'x' of row 1 is 'a'"):
        with_bolt(squares, [1, "a", 2], kind=HookArrowBolt, on_error="crash")
