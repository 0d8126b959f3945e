"""Aggregates of all tuples so far: a row for each tuple, and DuckDB says the same."""

from typing import ClassVar

import duckdb
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.errors import ValidationFailed
from fulmen.testing import ABORT, PAUSE, BoltHarness, CollectBolt, ListSpout, run
from fulmen.windows import RunningAggregate
from fulmen.windows.functions.aggregations import Sum

EXTRAS = [(), (), (), (), (PAUSE,), (PAUSE,), (PAUSE, PAUSE), (ABORT,)]
AGGREGATES = {
    "rows": "count",
    "total": "sum(amount)",
    "most": "max(amount)",
    "kinds": "distinct(amount)",
    "big": "count filter (where amount > 2)",
    "newest": "last(amount)",
}
SQL = """
SELECT who, count(*) OVER w, sum(amount) OVER w, max(amount) OVER w,
    count(DISTINCT amount) OVER w, count(*) FILTER (amount > 2) OVER w,
    last(amount IGNORE NULLS) OVER w
FROM rows WINDOW w AS (PARTITION BY who ORDER BY place ROWS UNBOUNDED PRECEDING) ORDER BY place
"""


def topology(items, *, key=("who",), aggregates=None, tasks=2):
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(items, fields=["who", "amount"], replays=False))
    config = {"key": list(key), "aggregates": aggregates or AGGREGATES}
    bolt = builder.set_bolt("running", RunningAggregate, tasks).set_config(config)
    bolt.fields_grouping("source", list(key)) if key else bolt.global_grouping("source")
    builder.set_bolt("sink", CollectBolt).global_grouping("running")
    return builder


ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(-3, 5))


@given(st.lists(st.tuples(ROWS, st.sampled_from(EXTRAS)), max_size=20), st.integers(1, 3))
def test_each_row_has_what_sql_says_however_they_are_cut_into_batches(drawn, tasks):
    items = [item for row, extra in drawn for item in (row, *extra)]
    result = run(topology(items, tasks=tasks))
    assert result.errors == []
    rows = [row for row, _ in drawn]
    with duckdb.connect() as base:
        base.execute("CREATE TABLE rows (place BIGINT, who TEXT, amount BIGINT)")
        if rows:
            base.executemany(
                "INSERT INTO rows VALUES (?, ?, ?)", [(i, *row) for i, row in enumerate(rows)]
            )
        expected = base.execute(SQL).fetchall()
    found = [tuple(row) for row in result.collected("sink")]
    for who in ("a", "b", None):  # tasks have no common order
        assert [row for row in found if row[0] == who] == [r for r in expected if r[0] == who]
    event(f"{min(len(rows), 3)} rows, workers were lost: {ABORT in items}")


def test_without_a_key_there_is_one_row_of_aggregates():
    result = run(topology([("a", 1), ("b", 2)], key=(), aggregates={"total": "sum(amount)"}))
    assert result.collected("sink") == [[1], [3]]


def test_a_value_that_can_not_be_added_fails_its_tuple_alone():
    items = [("a", 1), ("a", "x"), ("a", 3), (float("nan"), 1), ("a", 0), ("a", 4)]
    of = {"total": "sum(amount)", "odd": "count filter (where 6 // amount = 2)"}
    result = run(topology(items, aggregates=of))
    assert result.collected("sink") == [["a", 1, 0], ["a", 4, 1], ["a", 8, 1]]
    reasons = [reason for _, reason in result.failed("source")]
    assert [said in reason for said, reason in zip(("'x'", "nan", "zero"), reasons, strict=True)]


class Odd(Sum):
    """A sum that has no result where it is even."""

    def result(self, kept):
        if kept % 2 == 0:
            raise ValueError("it is even")
        return kept


class WithOwn(RunningAggregate):
    own: ClassVar = {"odd": Odd}


def test_a_tuple_without_a_result_is_not_added():
    builder = TopologyBuilder()
    items = [("a", 1), ("a", 3), ("a", 2)]
    builder.set_spout("source", ListSpout(items, fields=["who", "amount"], replays=False))
    wanted = {"n": "count", "all": "list(amount)", "total": "odd(amount)"}
    config = {"key": ["who"], "aggregates": wanted}
    bolt = builder.set_bolt("running", WithOwn).set_config(config)
    bolt.fields_grouping("source", ["who"])
    builder.set_bolt("sink", CollectBolt).global_grouping("running")
    result = run(builder)
    assert result.collected("sink") == [["a", 1, [1], 1], ["a", 2, [1, 2], 3]]
    assert ["it is even" in reason for _, reason in result.failed("source")] == [True]


def test_what_is_emitted_does_not_change_with_later_rows():
    bolt = BoltHarness(
        RunningAggregate,
        fields=["who", "amount"],
        conf={"key": ["who"], "aggregates": {"all": "list(amount)", "kinds": "set(amount)"}},
    )
    bolt.execute(["a", 1])
    bolt.execute(["a", 2])
    assert [emitted.values for emitted in bolt.emitted] == [["a", [1], [1]], ["a", [1, 2], [1, 2]]]


@pytest.mark.parametrize(
    ("aggregates", "said"),
    [
        (
            {"n": "sum(amuont)"},
            "aggregates.n: its input has no field 'amuont'. It has: who, amount",
        ),
        ({"n": "count filter (where amuont > 1)"}, "Did you mean 'amount'?"),
        ({}, "aggregates"),
    ],
)
def test_a_field_that_is_none_is_told(aggregates, said):
    with pytest.raises(ValidationFailed, match="aggregates") as told:
        run(topology([], aggregates=aggregates or {"n": "total(amount)"}))
    assert said in str(told.value)
