"""What each aggregation makes of some values, in whatever order and in however many parts."""

import math
import pickle
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import permutations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.windows.aggregate.adding.aggregates import Aggregates
from fulmen.windows.functions.aggregations import Aggregation
from fulmen.windows.functions.sketches import Hll, Kll
from fulmen.windows.functions.wanted import BUILT_IN, wanted

VALUES = [3, 1, 2, 2]
TIMES = [10, 30, 20, 40]
RESULTS = {
    "count(x)": 4,
    "sum(x)": 8,
    "mean(x)": 2.0,
    "min(x)": 1,
    "max(x)": 3,
    "max_by(x, y)": 1,
    "min_by(x, y)": 3,
    "max_by(x, y, 2)": [1, 2],
    "min_by(x, y, 2)": [3, 2],
    "max_by(x, y, 2, ties)": [1, 2, 2],
    "first(x)": 3,
    "last(x)": 2,
    "list(x)": [3, 2, 1, 2],
    "set(x)": [1, 2, 3],
    "distinct(x)": 3,
    "distinct(x, approximate)": 3,
    "quantile(x, 0.5)": 2,
    "top(x, 2)": [[2, 2], [1, 1]],
}
EMPTY = {"count(x)": 0, "list(x)": [], "set(x)": [], "distinct(x)": 0, "top(x, 2)": []}
EMPTY["distinct(x, approximate)"] = 0
EMPTY |= {text: [] for text in ("max_by(x, y, 2)", "min_by(x, y, 2)", "max_by(x, y, 2, ties)")}


def added(aggregation, values):
    """What is kept of values; the second field, if there is one, has few different values."""
    kept = aggregation.init()
    for value, time in values:
        kept = aggregation.add(kept, (value, -value % 3) if aggregation.by else value, time)
    return kept


def test_all_that_are_built_in_are_tested():
    assert {text.partition("(")[0] for text in RESULTS} == BUILT_IN.keys()


@pytest.mark.parametrize("text", RESULTS)
def test_the_result_of_some_values_and_of_none(text):
    aggregation = wanted(text, {}).aggregation
    kept = added(aggregation, zip(VALUES, TIMES, strict=True))
    result = aggregation.result(pickle.loads(pickle.dumps(kept)))
    assert (sorted(result) if text == "set(x)" else result) == RESULTS[text]
    assert aggregation.result(aggregation.init()) == EMPTY.get(text)


EVENTS = st.lists(
    st.tuples(st.integers(-5, 5), st.integers(0, 50)), max_size=20, unique_by=lambda e: e[1]
)


@pytest.mark.parametrize("text", RESULTS)
@given(events=EVENTS, cut=st.integers(0, 20), order=st.randoms())
def test_parts_that_are_merged_are_as_the_whole(text, events, cut, order):
    aggregation = wanted(text, {}).aggregation
    whole = aggregation.result(added(aggregation, events))
    mixed = list(events)
    order.shuffle(mixed)
    one, other = added(aggregation, mixed[:cut]), added(aggregation, mixed[cut:])
    merged = aggregation.result(aggregation.merge(one, other))
    if text == "set(x)":
        whole, merged = sorted(whole), sorted(merged)
    assert merged == whole


NUMBERS = st.none() | st.integers(-2, 2).map(float) | st.just(math.nan)
ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 9), NUMBERS, st.integers(0, 50)),
    max_size=8,
    unique_by=lambda row: row[2],
)
DUCKDB = duckdb.connect()
BY_SQL = {
    "max(y)": "SELECT max(y) FROM given",
    "min(y)": "SELECT min(y) FROM given",
    "max_by(x, y)": "SELECT x FROM given WHERE y IS NOT NULL ORDER BY y DESC, t LIMIT 1",
    "min_by(x, y)": "SELECT x FROM given WHERE y IS NOT NULL ORDER BY y, t LIMIT 1",
    "max_by(x, y, 2)": "SELECT coalesce(list(x ORDER BY y DESC, t), []) FROM (FROM given WHERE"
    " y IS NOT NULL ORDER BY y DESC, t LIMIT 2)",
    "min_by(x, y, 3)": "SELECT coalesce(list(x ORDER BY y, t), []) FROM (FROM given WHERE"
    " y IS NOT NULL ORDER BY y, t LIMIT 3)",
    "max_by(x, y, 2, ties)": "SELECT coalesce(list(x ORDER BY y DESC, t), []) FROM (FROM given"
    " WHERE y IS NOT NULL QUALIFY rank() OVER (ORDER BY y DESC) <= 2)",
    "min_by(x, y, 1, ties)": "SELECT coalesce(list(x ORDER BY y, t), []) FROM (FROM given"
    " WHERE y IS NOT NULL QUALIFY rank() OVER (ORDER BY y) <= 1)",
}


@given(rows=ROWS)
def test_the_least_and_the_greatest_are_those_of_sql(rows):
    """With NaN and None, in any order."""
    columns = [*zip(*rows, strict=True)] or [[], [], []]
    types = {"x": pa.int64(), "y": pa.float64(), "t": pa.int64()}
    given = {n: pa.array(c, type) for (n, type), c in zip(types.items(), columns, strict=True)}
    with DUCKDB.cursor() as database:
        database.register("given", pa.table(given))
        by_sql = {text: database.execute(query).fetchone() for text, query in BY_SQL.items()}
    for text, row in by_sql.items():
        aggregates = Aggregates([wanted(text, {})])
        kept = aggregates.new()
        for one in rows:
            values = aggregates.values(one, aggregates.places(["x", "y", "t"]))
            aggregates.add([kept], values, one[2])
        assert repr(aggregates.results(kept)) == repr([row[0] if row else None])


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([Decimal("0.10"), Decimal("0.20")], Decimal("0.30")),
        ([Decimal(1), 2], Decimal(3)),
        ([Decimal("0.5"), 0.25], 0.75),
        ([Decimal("1E+37"), Decimal("0.01"), 1], Decimal(f"{10**37 + 1}.01")),
        ([np.int64(2**62), np.int64(2**62)], 2**63),
        ([np.float32(0.5), np.float32(2**30)], 2**30 + 0.5),
        ([np.int8(100), Decimal("0.5"), np.int8(100)], Decimal("200.5")),
    ],
)
def test_sums_of_decimals_and_of_numbers_of_numpy(values, total):
    aggregation = wanted("sum(x)", {}).aggregation
    result = added(aggregation, [(value, 0) for value in values])
    assert (result, type(result)) == (total, type(total))


@pytest.mark.parametrize("nan", [math.nan, Decimal("NaN")])
@pytest.mark.parametrize(
    ("text", "found"),
    [("min(x)", 1), ("max(x)", None), ("min_by(x, y)", 2), ("max_by(x, y)", None)],
)
def test_nan_that_can_not_be_compared_with_decimals_is_above_all_numbers(text, found, nan):
    """In any order: it must not make all tuples of its window fail that come after it."""
    aggregation = wanted(text, {}).aggregation
    for values in permutations([nan, Decimal(1), Decimal(2)]):
        kept = aggregation.init()
        for value in values:
            pair = (value, -value if value == value else value)
            kept = aggregation.add(kept, pair if aggregation.by else value, 0)
        result = aggregation.result(kept)
        assert (None if result != result else result) == found


def test_of_infinite_decimals_that_cancel_each_other_the_sum_is_nan_as_of_floats():
    aggregation = wanted("sum(x)", {}).aggregation
    result = added(aggregation, [(Decimal("Infinity"), 0), (Decimal("-Infinity"), 0)])
    assert result.is_nan()


@pytest.mark.parametrize(
    ("text", "value"), [("sum(x)", "3"), ("mean(x)", True), ("distinct(x)", [1]), ("top(x, 1)", {})]
)
def test_values_that_it_can_do_nothing_with(text, value):
    assert wanted(text, {}).aggregation.check(value)


@pytest.mark.parametrize("name", ["temperature (celsius)", "speed in km/h", "(", "a)b(c", "größe"])
def test_a_field_may_have_any_name_without_a_comma(name):
    assert wanted(f"mean({name})", {}).field == name
    assert wanted(f"quantile({name}, 0.5)", {}).field == name
    assert wanted(f"max_by({name}, b)", {})[1:3] == (name, "b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("summ(x)", "there is no aggregate 'summ', but 'sum'"),
        ("AVG(x)", "there is no aggregate 'AVG', but 'mean'"),
        ("variance(x)", "there is no aggregate 'variance'. There are: count, sum"),
        ("sum", r"'sum' must be sum\(FIELD\)"),
        ("sum(x, y)", r"'sum\(x, y\)' must be sum\(FIELD\)"),
        ("top(x)", r"must be top\(FIELD, ...\)"),
        ("top(x, many)", "'many' is no whole number from 1"),
        ("quantile(x)", r"must be quantile\(FIELD, ...\)"),
        ("quantile(x, 95)", "'95' is no number from 0 to 1"),
        ("quantile(x, 1.5)", "'1.5' is no number from 0 to 1"),
        ("max_by(x)", r"'max_by\(x\)' must be max_by\(FIELD, FIELD\)"),
        ("max_by(x, )", r"must be max_by\(FIELD, FIELD\)"),
        ("max_by(x, y, z)", "'z' is no whole number from 1"),
        ("max_by(x, y, 2, tie)", r"must be max_by\(FIELD, FIELD, ...\) or max_by\(FIELD, ties\)"),
        ("distinct(x, about)", r"must be distinct\(FIELD\)"),
        ("set(x, approximate)", r"must be set\(FIELD\)"),
        ("sum(x", "is no aggregate. Write a name and a field"),
        ("", "is no aggregate"),
    ],
)
def test_texts_that_ask_for_nothing(text, said):
    with pytest.raises(ValueError, match=said):
        wanted(text, {})


# ---- sketches

MANY = 20_000


def halves(values):
    """What is kept of values that have come in two parts, one of them from a checkpoint."""
    return values[::2], values[1::2]


def sketched(text, values):
    aggregation = wanted(text, {}).aggregation
    one, other = (added(aggregation, [(v, 0) for v in half]) for half in halves(values))
    assert len(pickle.dumps(one)) < 10_000, "however many values there were"
    return aggregation.result(aggregation.merge(pickle.loads(pickle.dumps(one)), other))


@pytest.mark.parametrize("rank", [0.05, 0.5, 0.95])
def test_a_quantile_is_within_its_error_of_the_exact_one(rank):
    values = [(n * 7919) % MANY for n in range(MANY)]  # each number once, mixed
    found = sketched(f"quantile(x, {rank})", values)
    assert abs(found / MANY - rank) < 0.03, "twice the error of 1.33 %, with 99 %"


@pytest.mark.parametrize(
    "value", [int, str, float, lambda n: Decimal(n) / 7, lambda n: (n, "x"), lambda n: n * 2**60]
)
def test_an_approximate_count_is_within_its_error_of_the_exact_one(value):
    values = [value(n % (MANY // 4)) for n in range(MANY)]
    assert abs(sketched("distinct(x, approximate)", values) / (MANY // 4) - 1) < 0.06


def test_equal_values_are_one_for_an_approximate_count():
    values = [1, 1.0, True, Decimal(1), "1", "one", None, float("inf"), float("inf")]
    assert sketched("distinct(x, approximate)", values) == 5
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    values = [0.5, Decimal("0.50"), Decimal("0.1"), Decimal("0.10"), 2**62 + 1]
    values += [Decimal(2**62 + 1), Decimal("1E+999999"), Decimal("10E+999998")]
    values += [noon, noon.astimezone(timezone(timedelta(hours=2)))]
    assert sketched("distinct(x, approximate)", values) == len(set(values)) == 5


def test_a_sketch_without_its_library_is_a_clear_mistake(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    for text in ("quantile(x, 0.5)", "distinct(x, approximate)"):
        with pytest.raises(ValueError, match=r"pip install 'CHECKOUT\[sketches\]'"):
            wanted(text, {})
    assert wanted("distinct(x)", {})


class Longest(Aggregation):
    """Of one's own."""

    def init(self):
        return ""

    def add(self, kept, value, time):
        return max(kept, value, key=len)

    def merge(self, kept, other):
        return max(kept, other, key=len)


def test_one_of_ones_own():
    found = wanted("longest(name)", {"longest": Longest})
    assert (type(found.aggregation), found.field) == (Longest, "name")
    assert added(found.aggregation, [("a", 0), ("abc", 0)]) == "abc"


def test_a_sketch_says_what_it_has_seen():
    quantiles, different = Kll(), Hll()
    for n in range(1000):
        quantiles.add(n)
        different.add(n % 10)
    assert repr(quantiles) == "<quantiles of 1,000 numbers>"
    assert repr(different) == "<about 10 different values>"


def test_a_text_with_half_a_surrogate_pair_is_a_value_of_its_own():
    made = Hll()
    for value in ("\ud800", "\ud800", "\udc00", "a", "ä"):
        made.add(value)
    assert made.estimate() == 4
