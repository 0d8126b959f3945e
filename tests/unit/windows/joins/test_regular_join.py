"""Joins of changes: what they emit adds up to what SQL says of the rows that are left."""

from collections import Counter
from math import nan

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, TopologyBuilder
from fulmen.errors import FulmenError, TopologyFailed, ValidationFailed
from fulmen.testing import PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import IntervalJoin, RegularJoin
from support.windows.aggregates import EXAMPLES, EXTRAS
from support.windows.sql_events import by_sql

FIELDS = ["who", "n", "at", "is_retraction"]
LEFT = {"from": "split", "stream": "orders", "fields": {"k": "who", "a": "n"}}
RIGHT = {"from": "split", "stream": "payments", "fields": {"b": "n"}}
CONFIG = {"left": LEFT, "right": RIGHT, "key": ["who"]}
SQL = {
    "inner": "SELECT a.who, a.n, b.n FROM a JOIN b ON PAIR",
    "left": "SELECT a.who, a.n, b.n FROM a LEFT JOIN b ON PAIR",
    "right": "SELECT a.who, a.n, b.n FROM a RIGHT JOIN b ON PAIR",
    "full": "SELECT a.who, a.n, b.n FROM a FULL JOIN b ON PAIR",
    "semi": "SELECT a.who, a.n FROM a WHERE EXISTS (FROM b WHERE PAIR)",
    "anti": "SELECT a.who, a.n FROM a WHERE NOT EXISTS (FROM b WHERE PAIR)",
}
TABLE = "who TEXT, n BIGINT, t BIGINT"


class Split(BasicBolt):
    """One source, so that the order of both sides is known."""

    outputs = {"orders": FIELDS, "payments": FIELDS}  # noqa: RUF012

    def execute(self, tup, collector):
        side, *values = tup.values
        collector.emit(values, {"a": "orders", "b": "payments"}[side])


def topology(items, config, *, lag="0", tasks=2, backend="memory"):
    builder = TopologyBuilder()
    source = ListSpout(items, fields=["side", *FIELDS], replays=False)
    spout = builder.set_spout("source", source)
    spout.set_event_time("at", unit="ms", lag=lag)
    builder.set_bolt("split", Split).global_grouping("source")
    join = builder.set_bolt("join", RegularJoin, tasks).set_config({**CONFIG, **config})
    join.set_keyed_state(backend)
    for side in ("orders", "payments"):
        join.fields_grouping("split", ["who"], side)
    builder.set_bolt("sink", CollectBolt).global_grouping("join")
    builder.set_bolt("late", CollectBolt).global_grouping("join", "late")
    return builder


def added_up(rows):
    """How many times each row is there."""
    found = Counter()
    for *row, is_retraction in rows:
        found[tuple(row)] += -1 if is_retraction else 1
    return +found, -found


def left_of(changes):
    """The rows of both tables that are left."""
    found = {"a": Counter(), "b": Counter()}
    for side, *row, is_retraction in changes:
        found[side][tuple(row)] += -1 if is_retraction else 1
    return {side: (TABLE, [*rows.elements()]) for side, rows in found.items()}


ROW = st.tuples(
    st.sampled_from("ab"), st.sampled_from(["x", "x", "y", None]), st.integers(0, 2),
    st.sampled_from([0, 0, 9]),
)  # fmt: skip


@st.composite
def changes(draw):
    """Rows of both tables, some of which are taken back, before or after they came."""
    rows = draw(st.lists(ROW, max_size=12))
    back = [row for row in rows if draw(st.booleans())]
    both = [(*row, False) for row in rows] + [(*row, True) for row in back]
    return draw(st.permutations(both))


@settings(max_examples=2 * EXAMPLES)
@given(
    changes(), st.sampled_from([*SQL]), st.sampled_from([None, "a >= b"]),
    st.sampled_from([None, "5ms"]), st.sampled_from(["memory", "disk"]), st.data(),
)  # fmt: skip
def test_changes_add_up_to_what_sql_says_in_any_order(of, kind, where, near, backend, extra):
    """With crashes, in batches of any size, on several workers."""
    items = [item for one in of for item in (one, *extra.draw(st.sampled_from(EXTRAS)))]
    config = {"type": kind, "where": where}
    if near:
        config |= {"forgetAfter": near, "left": {**LEFT, "time": "at"}, "unit": "ms"}
        config |= {"right": {**RIGHT, "time": "at"}}
    result = run(topology(items, config, lag="100ms", backend=backend), workers=2)
    assert result.errors == []
    pair = (
        "a.who = b.who" + " AND a.n >= b.n" * bool(where) + " AND abs(a.t - b.t) <= 5" * bool(near)
    )
    wanted = by_sql(SQL[kind].replace("PAIR", pair), **left_of(of))
    assert added_up(result.collected("sink")) == (Counter(map(tuple, wanted)), Counter())
    assert result.collected("late") == []
    if near:
        assert result.state("join") == {}, "when event time has ended, nothing is kept"
    event(f"{min(len(wanted), 3)} rows, some were taken back: {any(one[-1] for one in of)}")


def changed(*items, **config):
    """What each item makes the join emit, in a batch of its own; a minus is what is taken back."""
    spaced = [one for side, n, mark in items for one in ((side, "x", n, 0, mark == "-"), PAUSE)]
    result = run(topology(spaced, config, tasks=1))
    assert result.errors == []
    signs = {True: "-", False: "+"}
    return [f"{signs[row[-1]]} {row[1]} {row[2]}" for row in result.collected("sink")]


def test_a_row_without_a_match_is_taken_back_before_it_has_one_and_comes_again():
    items = [("a", 1, "+"), ("b", 7, "+"), ("b", 8, "+"), ("b", 7, "-"), ("b", 8, "-")]
    assert changed(*items, type="left") == [
        "+ 1 None", "- 1 None", "+ 1 7", "+ 1 8", "- 1 7", "- 1 8", "+ 1 None",
    ]  # fmt: skip


def test_a_row_that_is_there_twice_has_each_pair_twice():
    items = [("a", 1, "+"), ("a", 1, "+"), ("b", 7, "+"), ("a", 1, "-")]
    assert changed(*items) == ["+ 1 7", "+ 1 7", "- 1 7"]


def test_what_is_taken_back_is_emitted_as_it_came():
    """Whoever compares texts, or a sink whose key is a text, finds it again."""
    assert changed(("a", 1, "+"), ("b", 7, "+"), ("a", 1.0, "-")) == ["+ 1 7", "- 1 7"]


def test_a_row_that_is_taken_back_before_it_comes_is_as_if_it_had_never_been():
    """It may have come by another way. Nothing is left of it in the state."""
    items = [("b", "x", 7, 0, True), PAUSE, ("b", "x", 7, 0, False), PAUSE, ("a", "x", 1, 0, False)]
    result = run(topology(items, {"type": "full"}))
    assert added_up(result.collected("sink")) == ({("x", 1, None): 1}, {})
    assert result.metrics["join"]["unknown_retractions"] == 1
    assert [(*place[:2], kept[0]) for place, kept in result.state("join").items()] == [
        (0, ("x",), 1)
    ]


def test_what_is_late_is_on_a_stream_of_its_own_with_whether_it_takes_back():
    config = {"forgetAfter": "5s", "unit": "ms", "type": "full"}
    config |= {"left": {**LEFT, "time": "at"}, "right": {**RIGHT, "time": "at"}}
    items = [("a", "x", 1, 0, False), PAUSE, ("b", "x", 2, 11_000, False), PAUSE, PAUSE]
    items += [("a", "x", 1, 5_999, True), ("a", "x", 3, 6_000, False), ("b", "x", 4, 0, False)]
    builder = topology(items, config, tasks=1)
    sink = builder.set_bolt("as-rows", CollectBolt).global_grouping("join", "late_left")
    sink.global_grouping("join", "late_right")
    result = run(builder, end_of_input=False)
    assert [(side, of["n"]) for side, of, _ in result.collected("late")] == [
        ("left", 1), ("right", 4),
    ]  # fmt: skip
    assert result.collected("as-rows") == [["x", 1, None, True], [None, None, 4, False]]
    assert added_up(result.collected("sink")) == ({("x", 1, None): 1, ("x", 3, 2): 1}, {})
    assert result.metrics["join"]["late"] == 2
    assert len(result.state("join")) == 2, "the first row is forgotten"


def test_what_is_taken_back_in_time_takes_back_pairs_with_rows_that_are_late_by_now():
    """A row is kept for twice as long as it may come late."""
    config = {"forgetAfter": "5s", "unit": "ms", "type": "left"}
    config |= {"left": {**LEFT, "time": "at"}, "right": {**RIGHT, "time": "at"}}
    items = [("a", "x", 1, 0, False), ("b", "x", 2, 5_000, False), PAUSE]
    items += [("a", "y", 3, 9_900, False), PAUSE, PAUSE, ("b", "x", 2, 5_000, True)]
    result = run(topology(items, config))
    assert added_up(result.collected("sink")) == ({("x", 1, None): 1, ("y", 3, None): 1}, {})


ODD = [[1, {"b": nan}], [1, {"b": nan}], 1, True, 1.0, nan, nan, {"z": 1, "a": 2}, {"a": 2, "z": 1}]


def test_rows_of_any_json_are_found_again():
    items = [("a", "x", value, 0, i % 2 == 1) for i, value in enumerate(ODD[:2] + ODD[5:])]
    assert run(topology(items, {"type": "left"})).state("join") == {}
    items = [("a", "x", value, 0, False) for value in ODD[2:5]]
    assert [one[0] for one in run(topology(items, {"type": "left"})).state("join").values()] == [3]


@pytest.mark.parametrize(
    ("value", "mark", "said"),
    [
        ({1, 2}, False, "a row has {1, 2}, which is not hashable: it could not be taken back"),
        (1, None, "'is_retraction' is None, but must be true, if it takes back an earlier row"),
        (1, "-D", "'is_retraction' is '-D', but must be true"),
    ],
)
def test_a_row_that_can_not_be_counted_fails_alone(value, mark, said):
    items = [("a", "x", 1, 0, False), ("a", "x", value, 0, mark), ("b", "x", 2, 0, False)]
    result = run(topology(items, {}))
    [(_, reason)] = result.failed("source")
    assert said in reason
    assert result.collected("sink") == [["x", 1, 2, False]]


def test_a_pair_that_its_condition_can_not_judge_is_none_and_is_told():
    items = [("a", "x", 1, 0, False), PAUSE, ("b", "x", 0, 0, False), ("b", "x", 1, 0, False)]
    result = run(topology(items, {"where": "a // b = 1", "type": "left"}, tasks=1))
    assert added_up(result.collected("sink")) == ({("x", 1, 1): 1}, {})
    assert result.metrics["join"]["undecided"] == 1
    assert ["zero" in str(error) for error in result.errors] == [True]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"left": {**LEFT, "time": "at"}}, "left.time is for forgetAfter alone"),
        (
            {"right": {**RIGHT, "fields": {"b": "n", "back": "is_retraction"}}},
            "right.fields: 'is_retraction' says whether a row takes back another one",
        ),
        ({"forgetAfter": "5ms"}, "left.time is missing: name the field with the event time"),
    ],
)
def test_mistakes_are_told_before_anything_runs(config, said):
    with pytest.raises(ValidationFailed) as wrong:
        run(topology([], config))
    assert said in str(wrong.value)


class ForAnHour(RegularJoin):
    state_ttl = "1h"


def test_rows_are_not_forgotten_by_the_clock():
    builder = topology([], {})
    join = builder.set_bolt("forgetful", ForAnHour).set_config(CONFIG)
    for side in ("orders", "payments"):
        join.fields_grouping("split", ["who"], side)
    with pytest.raises(ValidationFailed, match="state_ttl: what a row was joined with must be"):
        run(builder)


def test_other_joins_do_not_take_what_takes_back_for_new_rows():
    builder = topology([], {})
    sides = {"left": {**LEFT, "time": "at"}, "right": {**RIGHT, "time": "at"}}
    join = builder.set_bolt("interval", IntervalJoin)
    join.set_config({**CONFIG, **sides, "unit": "ms", "upper": "1s"})
    for side in ("orders", "payments"):
        join.fields_grouping("split", ["who"], side)
    with pytest.raises(ValidationFailed) as wrong:
        run(builder)
    assert "stream 'orders' of 'split' has the field 'is_retraction'" in str(wrong.value)


@pytest.mark.parametrize(
    "change",
    [{"type": "left"}, {"where": "a > b"}, {"left": {**LEFT, "fields": {"k": "n", "a": "who"}}}],
)
def test_a_change_is_refused_that_rows_which_are_kept_do_not_allow(change):
    before = run(topology([("a", "x", 1, 0, False)], {}))
    with pytest.raises((FulmenError, TopologyFailed), match="has rows that were kept with"):
        run(topology([("a", "x", 1, 0, False)], {**CONFIG, **change}), checkpoint=before)
