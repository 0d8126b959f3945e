"""Joins with a condition beside the key, semi and anti joins: that SQL finds the same."""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import ABORT, PAUSE, run
from fulmen.windows import IntervalJoin, LookupJoin, TableJoin, TemporalJoin, WindowJoin
from support.windows.joins import CONFIG, INTERVAL, LEFT, RIGHT, SESSIONS, WINDOW, topology
from support.windows.sql_events import by_sql

KINDS = ("inner", "left", "right", "full", "semi", "anti")
WHERE = "a < b or a = 3"
ON = {
    "window": "l.who = r.who AND l.t // 10 = r.t // 10",
    "interval": "l.who = r.who AND r.t BETWEEN l.t - 5 AND l.t + 10",
}
CASES = {"window": (WindowJoin, WINDOW), "interval": (IntervalJoin, INTERVAL)}
MARKS = [(), (), (), (PAUSE,), (PAUSE,), (ABORT,)]


def found(cls, items, config, **how):
    """What is emitted, without the edges of windows; and the result."""
    lag = how.pop("lag", "0")
    result = run(topology(cls, items, config, lag=lag), **how)
    width = 2 if config["type"] in ("semi", "anti") else 3
    return sorted((tuple(row[:width]) for row in result.collected("sink")), key=str), result


def by_query(on, kind, where, events):
    condition = f"{on} AND (l.n < r.n OR l.n = 3)" if where else on
    query = {
        "semi": f"SELECT who, n FROM l WHERE EXISTS (FROM r WHERE {condition})",
        "anti": f"SELECT who, n FROM l WHERE NOT EXISTS (FROM r WHERE {condition})",
    }.get(kind, f"SELECT l.who, l.n, r.n FROM l {kind} JOIN r ON {condition}")
    tables = {
        name: ("who TEXT, n BIGINT, t BIGINT", [row[1:] for row in events if row[0] == side])
        for name, side in (("l", "a"), ("r", "b"))
    }
    return sorted(by_sql(query, **tables), key=str)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 5) | st.none(),
        st.integers(0, 60),
    ),
    max_size=14,
)


@given(
    name=st.sampled_from([*CASES]),
    kind=st.sampled_from(KINDS),
    where=st.sampled_from([None, WHERE]),
    events=EVENTS,
    data=st.data(),
)
@settings(max_examples=max(settings.default.max_examples // 2, 10))
def test_pairs_are_those_of_sql(name, kind, where, events, data):
    """In any order within the lag, in batches of any size, with workers that die."""
    event(f"{name}, {kind}, {'with' if where else 'without'} a condition")
    cls, config = CASES[name]
    config = {**config, "type": kind, **({"where": where} if where else {})}
    items = []
    for row in sorted(events, key=lambda row: row[3] + data.draw(st.integers(0, 20))):
        items += [row, *data.draw(st.sampled_from(MARKS))]
    rows, result = found(cls, items, config, lag="20ms", workers=data.draw(st.integers(1, 3)))
    assert result.errors == []
    assert result.collected("late") == []
    assert rows == by_query(ON[name], kind, where, events)


@given(events=EVENTS, data=st.data())
@settings(max_examples=max(settings.default.max_examples // 4, 5))
def test_the_bounds_of_an_interval_may_be_fields(events, data):
    """Each left row says for how long it waits."""
    left = {**LEFT, "fields": {"k": "who", "a": "n", "t": "at"}}
    right = {**RIGHT, "fields": {"b": "n", "u": "at"}}
    config = {**CONFIG, "left": left, "right": right, "upper": "5ms", "type": "anti"}
    config["where"] = "u <= t + a"
    items = []
    for row in sorted(events, key=lambda row: row[3] + data.draw(st.integers(0, 20))):
        items += [row, *data.draw(st.sampled_from(MARKS))]
    rows, _ = found(IntervalJoin, items, config, lag="20ms")
    on = "l.who = r.who AND r.t BETWEEN l.t AND l.t + l.n"
    assert rows == by_query(on, "anti", None, events)


FEW = [
    ("a", "x", 1, 3), ("b", "x", 2, 4), ("b", "x", 5, 5), ("a", "x", 4, 6), ("a", "x", 9, 7),
    PAUSE, ABORT, ("b", "y", 2, 8), ("a", "z", 3, 9), PAUSE, ("b", "x", 6, 9), ("a", "y", 2, 9),
]  # fmt: skip


@pytest.mark.parametrize("where", [None, WHERE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_each_type_of_a_join_is_that_of_sql(name, kind, where):
    cls, config = CASES[name]
    config = {**config, "type": kind, **({"where": where} if where else {})}
    rows, _ = found(cls, FEW, config, lag="20ms")
    assert rows == by_query(ON[name], kind, where, [row for row in FEW if isinstance(row, tuple)])


@pytest.mark.parametrize(
    ("kind", "rows"), [("semi", [("x", 1)]), ("anti", [("x", 7), ("y", 2)]), ("left", None)]
)
def test_sessions_tell_which_rows_have_a_match(kind, rows):
    items = [("a", "x", 1, 0), ("b", "x", 5, 9), ("a", "x", 7, 15), ("a", "y", 2, 0)]
    got, _ = found(WindowJoin, items, {**SESSIONS, "type": kind, "where": "a < b"}, lag="1s")
    assert got == (rows or [("x", 1, 5), ("x", 7, None), ("y", 2, None)])


LATE = [("a", "x", 1, 3), ("a", "x", 9, 4), PAUSE, ("a", "w", 4, 20), PAUSE, PAUSE]
LATE += [("b", "x", 5, 5), PAUSE, ("b", "x", 6, 5), PAUSE, ("a", "w", 4, 90), PAUSE, PAUSE]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("semi", [("x", 1)]),
        ("anti", [("w", 4), ("w", 4), ("x", 9)]),
        ("inner", [("x", 1, 5), ("x", 1, 6)]),
    ],
)
def test_what_is_late_and_allowed_counts_for_which_rows_have_a_match(name, kind, rows):
    cls, config = CASES[name]
    config = {**config, "type": kind, "where": "a < b", "allowedLateness": "30ms"}
    assert found(cls, LATE, config)[0] == rows


TABLE = [("b", "x", 5, 1), ("b", "y", 1, 1), PAUSE, PAUSE, ("a", "x", 3, 5), ("a", "y", 3, 5)]
TABLE += [("a", "z", 3, 5), PAUSE, ("a", None, 3, 5), PAUSE]


@pytest.mark.parametrize("cls", [LookupJoin, TemporalJoin])
@pytest.mark.parametrize(
    ("kind", "where", "rows"),
    [
        ("semi", None, ["x", "y"]),
        ("anti", None, ["z", None]),
        ("semi", "a < b", ["x"]),
        ("anti", "a < b", ["y", "z", None]),
        ("inner", "a < b", ["x"]),
        ("left", "a < b", ["x", "y", "z", None]),
    ],
)
def test_a_row_of_a_table_counts_if_the_condition_is_true(cls, kind, where, rows):
    config = {**CONFIG, "type": kind, **({"where": where} if where else {})}
    got, _ = found(cls, TABLE, config)
    assert [row[0] for row in got] == sorted(rows, key=lambda name: str((name,)))
    if kind == "left":
        assert {row[0]: row[2] for row in got} == {"x": 5, "y": None, "z": None, None: None}


def test_rows_that_are_held_are_looked_up_by_the_condition():
    items = [("a", "x", 3, 1), ("a", "y", 3, 1), PAUSE, ("b", "x", 5, 2), ("b", "y", 1, 2), PAUSE]
    items += [("b", "w", 1, 3000), PAUSE, PAUSE]
    config = {**CONFIG, "type": "semi", "where": "a < b", "waitFor": 2000}
    assert found(LookupJoin, items, config)[0] == [("x", 3)]


def test_a_pair_for_which_the_condition_has_no_value_is_none_and_that_is_told():
    items = [("a", "x", 1, 3), ("b", "x", 0, 4), ("b", "x", 1, 5)]
    config = {**INTERVAL, "type": "left", "where": "a // b > 0"}
    rows, result = found(IntervalJoin, items, config, lag="20ms")
    assert rows == [("x", 1, 1)]
    [error] = result.errors
    assert error.message.startswith("where 'a // b > 0': division by zero")
    assert error.message.endswith("Such a pair is none")


@pytest.mark.parametrize(
    ("cls", "more", "said"),
    [
        (IntervalJoin, {"where": "a < c"}, "where 'a < c': there is no field 'c' (column 5)"),
        (WindowJoin, {"where": "a <"}, "where 'a <': "),
        (TableJoin, {"where": "a < b"}, "where is not for a TableJoin"),
        (TableJoin, {"type": "semi"}, "type"),
    ],
)
def test_a_mistake_is_found_before_it_runs(cls, more, said):
    config = {IntervalJoin: INTERVAL, WindowJoin: WINDOW}.get(cls, CONFIG)
    with pytest.raises(ValidationFailed) as error:
        run(topology(cls, FEW, {**config, **more}))
    assert said in str(error.value)


def test_rows_of_which_a_match_is_noted_refuse_another_condition():
    open_rows = [("a", "x", 1, 0), ("b", "x", 2, 0), PAUSE, ("a", "y", 3, 0), PAUSE]
    before = {**INTERVAL, "type": "semi", "where": "a < b"}
    first = run(topology(IntervalJoin, open_rows, before, lag="1s"), batches=2)
    for more, said in (({"where": "a > b"}, "where a < b; now it is a > b"),):
        with pytest.raises(TopologyFailed, match=said):
            run(
                topology(IntervalJoin, open_rows, {**before, **more}, lag="1s"),
                checkpoint=first,
                batches=3,
            )
    anti = {**before, "type": "anti"}
    assert run(topology(IntervalJoin, open_rows, anti, lag="1s"), checkpoint=first).errors == []
    assert LEFT["from"] == "split"
