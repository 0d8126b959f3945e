"""Aggregates of rows that may be taken back are those of the rows that are left."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from math import inf, isfinite, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.errors import FulmenError, TopologyFailed, ValidationFailed
from fulmen.testing import PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import Aggregate, Deduplicate, RunningAggregate
from fulmen.windows.functions.retractable import retractable
from fulmen.windows.functions.wanted import wanted
from support.windows.aggregates import EXAMPLES, EXTRAS
from support.windows.sql_events import by_sql

TEXTS = ["count", "count(x)", "sum(x)", "mean(x)", "min(x)", "max(x)", "distinct(x)", "set(x)"]
TEXTS += ["top(x, 2)", "top(x, 2, ties)", "quantile(x, 0.5)"]
NUMBERS = st.sampled_from([None, 1, 2, 10**20, 0.1, 0.2, 1e300, -1e300, 5e-324, nan, inf, -inf])
DECIMALS = st.sampled_from([None, 1, Decimal("0.10"), Decimal(3), Decimal("-7e30"), Decimal("NaN")])


def retractable_one(text, is_timed=False):
    [(_, (one, *_))] = retractable([(text, wanted(text, {}))], is_timed)
    return one


def expected(text, left):
    plain = wanted(text, {}).aggregation
    numbers = [x for x in left if x is not None]
    is_exact = any(isinstance(x, float) for x in numbers) and all(map(isfinite, numbers))
    if text in ("sum(x)", "mean(x)") and is_exact:  # floats are added up without a rest
        total = sum(map(Fraction, numbers))
        return float(total / len(numbers) if text == "mean(x)" else total)
    kept = plain.init()
    for value in left:
        if text == "count" or value is not None:
            kept = plain.add(kept, value, 0)
    return plain.result(kept)


@settings(max_examples=8 * EXAMPLES)
@given(st.sampled_from(TEXTS), st.one_of(st.lists(NUMBERS), st.lists(DECIMALS)), st.data())
def test_a_result_is_that_of_the_values_that_are_left(text, values, data):
    """Also if parts are added up apart, and then merged; and of none, nothing is left."""
    is_back = [data.draw(st.booleans()) for _ in values]
    back = [value for value, gone in zip(values, is_back, strict=True) if gone]
    left = [value for value, gone in zip(values, is_back, strict=True) if not gone]
    changes = data.draw(st.permutations([(x, False) for x in values] + [(x, True) for x in back]))
    one = retractable_one(text)

    def added(kept, some):
        for value, mark in some:
            if value is not None or text == "count":
                kept = one.add(kept, (value, mark), 0)
        return kept

    half = len(changes) // 2
    kept = one.absorb(added(one.init(), changes[:half]), added(one.init(), changes[half:]))
    found, wished = one.result(kept), expected(text, left)
    if text == "set(x)":
        found, wished = sorted(map(str, found)), sorted({*map(str, wished)})
    if text == "distinct(x)":  # here NaN is NaN
        wished = len({str(x) if x != x else x for x in left if x is not None})
    assert str(found) == str(wished) or found == wished
    assert added(kept, [(x, True) for x in left]) == one.init()


@pytest.mark.parametrize("text", ["sum(x)", "mean(x)"])
def test_what_is_taken_back_leaves_no_rest_of_floats(text):
    one = retractable_one(text)
    kept = one.init()
    for value, mark in [(0.1, False), (1e300, False), (0.2, False), (1e300, True), (0.1, True)]:
        kept = one.add(kept, (value, mark), 0)
    assert one.result(kept) == 0.2


def test_the_least_of_values_of_several_types_is_one_of_them():
    one = retractable_one("min(x)")
    kept = one.init()
    for value in ("b", 2, "a"):
        kept = one.add(kept, (value, False), 0)
    assert one.result(kept) == 2
    assert one.result(one.add(kept, (2, True), 0)) == "a"


@pytest.mark.parametrize(("text", "found"), [("min(x)", 7), ("distinct(x)", 1)])
def test_a_value_that_is_taken_back_before_it_comes_is_not_there_meanwhile(text, found):
    one = retractable_one(text)
    assert one.result(one.add(one.add(one.init(), (5, True), 0), (7, False), 0)) == found


TIMED = ["max_by(x, y)", "min_by(x, y)", "max_by(x, y, 2)", "min_by(x, y, 2, ties)"]
TIMED += ["first(x)", "last(x)", "list(x)"]
VALUES = st.sampled_from([None, 1, 2, "a", nan])
ODD = [1, 2, 2.5, nan, Decimal("NaN")]
TIMED_ROWS = st.lists(
    st.tuples(st.sampled_from([None, 1, "a", nan]), st.sampled_from(ODD)), max_size=8
)


def value_of(text, row):
    return row if "_by" in text else row[0]


def of_rows(text, rows):
    """The result of rows with their times, of which none is taken back."""
    one = wanted(text, {}).aggregation
    kept = one.init()
    for row, time in rows:
        if (value := value_of(text, row)) is not None:
            kept = one.add(kept, value, time)
    return one.result(kept)


@settings(max_examples=8 * EXAMPLES)
@given(st.sampled_from(TIMED), TIMED_ROWS, st.data())
def test_in_a_window_what_is_taken_back_has_the_time_of_its_row(text, rows, data):
    """It may come before it, and parts may be added up apart."""
    timed = [*zip(rows, data.draw(st.permutations(range(len(rows)))), strict=True)]
    back = [row for row in timed if data.draw(st.booleans())]
    changes = data.draw(st.permutations([(x, False) for x in timed] + [(x, True) for x in back]))
    one = retractable_one(text, is_timed=True)

    def added(some):
        kept = one.init()
        for (row, time), mark in some:
            if (value := value_of(text, row)) is not None:
                kept = one.add(kept, (value, mark), time)
        return kept

    half = len(changes) // 2
    kept = one.merge(added(changes[:half]), added(changes[half:]))
    left = [row for row in timed if row not in back]
    assert str(one.result(kept)) == str(of_rows(text, left))
    assert one.merge(kept, added([(row, True) for row in left])) == one.init()


@settings(max_examples=8 * EXAMPLES)
@given(st.sampled_from(TIMED), TIMED_ROWS, st.data())
def test_without_times_the_newest_of_equal_rows_is_taken_back(text, rows, data):
    one = retractable_one(text)
    kept, left = one.init(), []
    rows = [*rows, *rows[:3]]
    for time, row in enumerate(rows):
        mark = bool(left) and data.draw(st.booleans())
        row = data.draw(st.sampled_from([row for row, _ in left])) if mark else row
        if (value := value_of(text, row)) is not None:
            kept = one.add(kept, (value, mark), time)
        if mark:
            equal = [
                i for i, (old, _) in enumerate(left) if value_of(text, old) is value_of(text, row)
            ]
            equal = equal or [i for i, (old, _) in enumerate(left) if str(old) == str(row)]
            del left[equal[-1]]
        else:
            left.append((row, time))
    assert str(one.result(kept)) == str(of_rows(text, left))


@pytest.mark.parametrize("cls", [Aggregate, RunningAggregate])
def test_the_newest_row_of_those_that_are_left(cls):
    """With a filter and a second field as well; what can't be counted fails alone."""
    items = [("a", 1, 10, False), ("a", 7, 20, False), ("a", 3, 30, False)]
    items += [("a", [4], 40, False), ("a", 3, 30, True)]
    aggregates = {"newest": "last(n)", "at": "max_by(at, n) filter (where at < 20)"}
    more = {"window": {"type": "global"}} if cls is Aggregate else {}
    result = run(topology(cls, items, {"aggregates": aggregates, **more}))
    assert result.collected("sink")[-1][-2:] == [7, 10]
    assert ["its field 'n': [4] is not hashable" in why for _, why in result.failed("source")] == [
        True
    ]


# ---- in topologies

FIELDS = ["who", "n", "at", "is_retraction"]
AGGREGATES = {
    "rows": "count",
    "total": "sum(n)",
    "least": "min(n)",
    "kinds": "distinct(n)",
    "big": "count filter (where n > 2)",
}
SQL = """SELECT who, START count(*), sum(n)::BIGINT, min(n), count(DISTINCT n),
count(*) FILTER (n > 2) FROM rows GROUP BY ALL"""
ROW = st.tuples(
    st.sampled_from(["a", "b", None]), st.none() | st.integers(-3, 5), st.integers(0, 30)
)


def topology(cls, items, config, tasks=2):
    builder = TopologyBuilder()
    spout = builder.set_spout("source", ListSpout(items, fields=FIELDS, replays=False))
    spout.set_event_time("at", unit="ms", lag="100ms")
    bolt = builder.set_bolt("totals", cls, tasks).fields_grouping("source", ["who"])
    bolt.set_config({"key": ["who"], "aggregates": AGGREGATES, **config})
    builder.set_bolt("sink", CollectBolt).global_grouping("totals")
    return builder


def drawn_changes(data):
    """Items, in any order, and the rows that are left."""
    rows = data.draw(st.lists(ROW, max_size=10))
    back = [row for row in rows if data.draw(st.booleans())]
    changes = data.draw(st.permutations([(*x, False) for x in rows] + [(*x, True) for x in back]))
    items = [item for x in changes for item in (x, *data.draw(st.sampled_from(EXTRAS)))]
    return items, [*(Counter(rows) - Counter(back)).elements()]


def added_up(rows, mark=-1):
    found = Counter()
    for row in rows:
        found[tuple(row[:mark])] += -1 if row[mark] else 1
    return Counter({row: count for row, count in found.items() if count})


def by_duckdb(left, start=""):
    rows = by_sql(SQL.replace("START", start), rows=("who TEXT, n BIGINT, t BIGINT", left))
    return Counter(map(tuple, rows))


@settings(max_examples=2 * EXAMPLES)
@given(st.data())
def test_totals_add_up_to_what_sql_says_of_the_rows_that_are_left(data):
    items, left = drawn_changes(data)
    result = run(topology(RunningAggregate, items, {"retract": True}), workers=2)
    assert result.errors == []
    assert added_up(result.collected("sink")) == by_duckdb(left)
    assert len(result.state("totals")) == len({who for who, *_ in left})


@settings(max_examples=2 * EXAMPLES)
@given(st.data(), st.sampled_from([None, "1s"]))
def test_windows_are_what_sql_says_of_the_rows_that_are_left(data, early):
    items, left = drawn_changes(data)
    config = {"window": {"type": "tumbling", "size": "10ms"}}
    if early:
        config |= {"emitEvery": early, "retract": True}
    result = run(topology(Aggregate, items, config), workers=2, batch_seconds=0.4)
    assert result.errors == []
    rows = [
        [who, int(start.timestamp() * 1000) // 10, *of[: len(AGGREGATES)], bool(early) and of[-1]]
        for who, start, _, *of in result.collected("sink")
    ]
    there = Counter({row: n for row, n in added_up(rows).items() if row[2]})  # others are empty
    assert there == by_duckdb(left, "t // 10,")


def test_totals_of_totals_follow_each_change():
    """How many have which count: a key that has one row more is in another group."""
    builder = TopologyBuilder()
    items = [(who, 1, 0, False) for who in "aabbbc"] + [("b", 1, 0, True), ("c", 1, 0, True)]
    spaced = [one for item in items for one in (item, PAUSE)]
    builder.set_spout("source", ListSpout(spaced, fields=FIELDS))
    totals = builder.set_bolt("totals", RunningAggregate).fields_grouping("source", ["who"])
    totals.set_config({"key": ["who"], "aggregates": {"n": "count"}, "retract": True})
    of_totals = builder.set_bolt("of-totals", RunningAggregate).fields_grouping("totals", ["n"])
    of_totals.set_config({"key": ["n"], "aggregates": {"keys": "count"}, "retract": True})
    builder.set_bolt("sink", CollectBolt).global_grouping("of-totals")
    result = run(builder)
    assert added_up(result.collected("sink")) == {(2, 2): 1}
    assert len(result.state("of-totals")) == 1


def test_a_row_fails_that_does_not_say_whether_it_takes_back():
    items = [("a", 1, 0, False), ("a", 2, 0, None), ("a", 4, 0, "no")]
    for cls, more in ((RunningAggregate, {}), (Aggregate, {"window": {"type": "global"}})):
        result = run(topology(cls, items, {"aggregates": {"total": "sum(n)"}, **more}))
        assert [row[-1] for row in result.collected("sink")] == [1]
        reasons = sorted(reason for _, reason in result.failed("source"))
        assert ["must be true, if it takes back" in reason for reason in reasons] == [True] * 2


@pytest.mark.parametrize(
    ("cls", "config", "said"),
    [
        (
            RunningAggregate,
            {"aggregates": {"kinds": "distinct(n, approximate)"}},
            "aggregates.kinds: rows of stream 'default' of 'source' may be taken back, by"
            " 'is_retraction', but not from 'distinct(n, approximate)'. There are: count, sum,",
        ),
        (Aggregate, {"window": {"type": "count", "size": 5}}, "taken for new ones here"),
        (
            Aggregate,
            {"window": {"type": "global"}, "partial": True, "aggregates": {"n": "count"}},
            "partial: true is not for rows that may be taken back",
        ),
        (Deduplicate, {"id": ["who"], "horizon": "1s", "fields": ["who"]}, "for new ones here"),
    ],
)
def test_what_can_not_be_taken_back_is_told_before_anything_runs(cls, config, said):
    builder = topology(cls, [], config)
    if cls is Deduplicate:
        builder = topology(RunningAggregate, [], {"aggregates": {"n": "count"}})
        builder.set_bolt("once", cls).fields_grouping("source", ["who"]).set_config(config)
    with pytest.raises(ValidationFailed) as wrong:
        run(builder)
    assert said in str(wrong.value)


def test_inputs_that_may_be_taken_back_and_others_are_told_apart():
    builder = topology(RunningAggregate, [], {"aggregates": {"n": "count"}})
    builder.set_spout("others", ListSpout([], fields=["who"]))
    both = builder.set_bolt("both", RunningAggregate).fields_grouping("source", ["who"])
    both.fields_grouping("others", ["who"]).set_config(
        {"key": ["who"], "aggregates": {"n": "count"}}
    )
    with pytest.raises(ValidationFailed) as wrong:
        run(builder)
    assert "and stream 'default' of 'others' has not: add it there by select" in str(wrong.value)


@pytest.mark.parametrize("change", [{"aggregates": {"n": "count"}}, {"key": ["who", "n"]}])
def test_totals_of_something_else_are_refused(change):
    before = run(topology(RunningAggregate, [("a", 1, 0, False)], {}))
    with pytest.raises((FulmenError, TopologyFailed), match="has totals that were kept with"):
        run(topology(RunningAggregate, [("a", 1, 0, False)], change), checkpoint=before)
