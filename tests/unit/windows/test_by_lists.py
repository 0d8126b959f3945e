"""Rows of a chunk have the results of rows that come one by one, whatever their values are."""

from decimal import Decimal

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen.api.tuples import Held, Tuple
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.windows import Aggregate
from fulmen.windows.aggregate.adding.at_once import AT_ONCE
from fulmen.windows.functions.greatest_rows import SEVERAL
from fulmen.windows.functions.wanted import BUILT_IN
from support.windows.outcomes import outcome

FIELDS = ("user", "place", "amount", "at")
EXAMPLES = settings.default.max_examples
NAN = float("nan")
ODD = [NAN, Decimal("NaN"), Decimal("sNaN"), [1], b"a", "a", True, Decimal("0.1")]
VALUES = {
    "whole numbers": st.integers(-3, 3),
    "floats": st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 0.7, 1e16, float("inf")]),
    "numbers": st.sampled_from([0, 1, 2, 1.0, 0.1, 0.2, True, Decimal("0.1"), 2**70]),
    "texts": st.sampled_from(["a", "b", "ä", "\ud800"]),
    "some odd ones": st.one_of(*[st.integers(0, 3)] * 8, st.sampled_from(ODD)),
    "odd ones": st.sampled_from(ODD),
}
KEYS = {
    "few": st.sampled_from("ab"),
    "equal ones": st.sampled_from([1, True, 1.0, 0.0, -0.0]),
    "odd ones": st.one_of(*[st.sampled_from("ab")] * 30, st.sampled_from([None, NAN, [1]])),
}
WINDOWS = [
    {"type": "tumbling", "size": "20ms", "offset": "3ms"},
    {"type": "sliding", "size": "30ms", "every": "7ms"},
    {"type": "cumulative", "size": "30ms", "every": "6ms"},
    {"type": "session", "gap": "9ms"},
    {"type": "session", "gap": "3ms"},
    {"type": "count", "size": 3},
    {"type": "calendar", "unit": "day", "timezone": "Asia/Kolkata"},
]
AGGREGATES = ["count", "count(amount)", "sum(amount)", "mean(amount)", "min(amount)", "max(amount)"]
AGGREGATES += ["first(amount)", "last(amount)", "list(amount)", "distinct(amount)", "set(amount)"]
AGGREGATES += ["top(amount, 2)", "quantile(amount, 0.5)", "distinct(amount, approximate)"]
AGGREGATES += ["max_by(user, amount)", "min_by(place, amount)", "max_by(amount, place)"]
AGGREGATES += ["max_by(user, amount, 2)", "min_by(place, amount, 2, ties)"]
PANES = [{}, {}, {}, {"allowedLateness": "20ms"}, {"emitEvery": "1s"}]
PANES += [{"allowedLateness": "20ms", "emit": "final"}, {"emitEvery": "300ms", "retract": True}]


def test_rows_are_added_at_once_to_every_aggregation():
    kinds = set(BUILT_IN.values())
    kinds |= {*SEVERAL.values()}
    kinds |= {variant for kind in kinds for variant in kind.variants.values()}
    assert AT_ONCE.keys() == kinds


@st.composite
def lives(draw):
    """Batches of chunks of rows, each with its watermark. Some rows are late."""
    value, key = draw(st.sampled_from([*VALUES])), draw(st.sampled_from(["few"] * 5 + [*KEYS]))
    event(f"values: {value}; keys: {key}")
    beyond = [None, "no time", 253_402_300_799_999, 10**15]
    last = draw(st.sampled_from([20, 40, 70]))
    times = st.one_of(*[st.integers(0, last)] * 40, st.sampled_from(beyond))
    amounts = st.one_of(*[VALUES[value]] * 6, st.none())
    row = st.tuples(KEYS[key], VALUES[draw(st.sampled_from([*VALUES]))], amounts, times)
    watermark, found = draw(st.sampled_from([-60, 0, 10, 20, 30])), []
    for _ in range(draw(st.integers(2, 5))):
        watermark += draw(st.sampled_from([0, 0, 5, 10]))
        found.append((draw(st.lists(st.lists(row, min_size=1, max_size=9), max_size=3)), watermark))
    return found


def whole(bolt, rows):
    tup = Tuple((), Held("source", "default", FIELDS, 1), 0)
    return bolt.execute_chunk(tup, TupleRows(rows))


def one_by_one(bolt, rows):
    return None


@given(life=lives(), draw=st.data())
@settings(max_examples=EXAMPLES)
def test_windows_of_chunks_are_those_of_rows(life, draw):
    window = draw.draw(st.sampled_from(WINDOWS))
    some = draw.draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True))
    conf = {
        "time": "at",
        "unit": "ms",
        "key": draw.draw(st.sampled_from([[], ["user"], ["user"], ["user", "place"]])),
        "window": window,
        "aggregates": {f"a{i}": text for i, text in enumerate(some)},
    }
    if window["type"] != "count":
        conf |= draw.draw(st.sampled_from(PANES))
    wanted, _ = outcome(Aggregate, FIELDS, conf, life, one_by_one)
    found, taken = outcome(Aggregate, FIELDS, conf, life, whole)
    event(f"{'none' if taken == 0 else 'some'} at once")
    assert found == wanted


ROWS = [("a", "p", n * 5 % 7, n // 2) for n in range(40)]
ROWS += [("b", "p", 3, 5), ("a", "p", "wrong", 6)]


@pytest.mark.parametrize("window", WINDOWS[:4])
@pytest.mark.parametrize("text", AGGREGATES)
def test_only_rows_that_are_refused_are_left_and_results_are_those_of_rows(window, text):
    """Of equal times, too. With more rows left, results would take ten times as long."""
    conf = {"time": "at", "unit": "ms", "key": ["user"], "window": window}
    conf["aggregates"] = {"found": text}
    rows = ROWS[:-1] if text not in ("sum(amount)", "mean(amount)") else ROWS
    found, taken = outcome(Aggregate, FIELDS, conf, [([rows], 0)], whole)
    assert taken == len(ROWS) - 1
    assert found == outcome(Aggregate, FIELDS, conf, [([rows], 0)], one_by_one)[0]


def test_a_late_row_is_not_saved_by_one_that_comes_after_it_in_its_chunk():
    """It is late when it comes, though both would be in one session if they were sorted first."""
    conf = {
        "time": "at",
        "unit": "ms",
        "key": ["user"],
        "window": {"type": "session", "gap": "9ms"},
    }
    conf["aggregates"] = {"n": "count"}
    life = [([], 50), ([[("a", "p", 1, 38), ("a", "p", 1, 45), ("b", "p", 1, 60)]], 50)]
    wanted, _ = outcome(Aggregate, FIELDS, conf, life, one_by_one)
    assert outcome(Aggregate, FIELDS, conf, life, whole) == (wanted, 1)
    assert wanted[3] == {"late": 1}
