"""Joins in topologies: which rows are emitted, when, what is late, and that SQL finds the same."""

from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import FailedException, TopologyBuilder
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import IntervalJoin, LookupJoin, TableJoin, TemporalJoin, WindowJoin
from support.windows.aggregates import within
from support.windows.joins import CONFIG, INTERVAL, LEFT, RIGHT, SESSIONS, WINDOW, topology
from support.windows.sql_events import by_sql


def joined(cls, items, config, **more):
    """What is emitted, and what is late. Items are (side, who, n, at)."""
    runs = {name: more.pop(name) for name in ("workers",) if name in more}
    result = run(topology(cls, items, config, **more), **runs)
    assert result.errors == []
    late = [(side, values["n"]) for side, values, _ in result.collected("late")]
    tables = cls in (LookupJoin, TableJoin)
    left = {key for key in result.state("join") if not tables and "versions" not in key}
    assert left == set(), "when event time has ended, nothing waits any more"
    return [tuple(row[:3]) for row in result.collected("sink")], late


# ---- what each of them does

ROWS = [("a", "x", 1, 3), ("b", "x", 2, 9), ("a", "x", 3, 12), ("b", "y", 4, 5)]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("inner", [("x", 1, 2)]),
        ("left", [("x", 1, 2), ("x", 3, None)]),
        ("right", [("x", 1, 2), (None, None, 4)]),
        ("full", [("x", 1, 2), ("x", 3, None), (None, None, 4)]),
    ],
)
def test_a_window_join_emits_pairs_and_what_has_no_match(kind, found):
    rows, late = joined(WindowJoin, ROWS, {**WINDOW, "type": kind})
    assert sorted(rows, key=str) == sorted(found, key=str)
    assert late == []


def test_a_window_join_tells_its_window_and_what_is_late_for_it():
    items = [*ROWS, ("a", "x", 5, 40), PAUSE, ("b", "x", 6, 40), PAUSE, ("a", "x", 7, 3)]
    rows, late = joined(WindowJoin, items, WINDOW)
    assert sorted(rows) == [("x", 1, 2), ("x", 5, 6)]
    assert late == [("left", 7)]
    result = run(topology(WindowJoin, ROWS, WINDOW))
    [[*_, start, end]] = result.collected("sink")
    assert (start.microsecond, end.microsecond, end.tzname()) == (0, 10_000, "UTC")


def test_a_row_is_late_whose_window_has_no_edges_that_a_datetime_could_be():
    items = [("a", "x", 1, -62_135_596_800_000), PAUSE, ("a", "x", 2, 5), ("b", "x", 3, 5), PAUSE]
    window = {"type": "tumbling", "size": "7d"}
    rows, late = joined(WindowJoin, items, {**WINDOW, "window": window})
    assert (rows, late) == ([("x", 2, 3)], [("left", 1)])


@pytest.mark.parametrize(
    ("cls", "config"),
    [(WindowJoin, WINDOW), (WindowJoin, SESSIONS), (IntervalJoin, INTERVAL), (TableJoin, CONFIG)],
)
def test_a_row_is_late_whose_time_no_datetime_could_be(cls, config):
    items = [("a", "x", 5, 5), ("b", "x", 6, 5), PAUSE, ("a", "x", -(10**15), 5), PAUSE]
    rows, late = joined(cls, items, {**config, "left": {**LEFT, "time": "n"}})
    assert (rows, late) == ([("x", 5, 6)], [("left", -(10**15))])


def test_sessions_are_of_the_tuples_of_both_sides():
    """Nothing of the left side lies between 0 and 20."""
    items = [("a", "x", 1, 0), ("a", "x", 2, 20), ("b", "x", 3, 10), ("b", "x", 4, 31)]
    result = run(topology(WindowJoin, items, SESSIONS, lag="1s"))
    rows = [(*row[:3], *(at.microsecond for at in row[3:])) for row in result.collected("sink")]
    assert sorted(rows) == [("x", 1, 3, 0, 30_000), ("x", 2, 3, 0, 30_000)]


def test_sessions_that_a_tuple_makes_one_after_a_crash_are_emitted_once_and_forgotten():
    items = [("a", "x", 1, 0), PAUSE, ("b", "x", 2, 18), PAUSE, ABORT, ("a", "x", 3, 9), PAUSE]
    items += [ABORT, ("b", "y", 4, 60), PAUSE, PAUSE, ("b", "x", 5, 5), ("b", "y", 6, 61), PAUSE]
    rows, late = joined(WindowJoin, items, {**SESSIONS, "type": "left"}, lag="20ms")
    assert sorted(rows) == [("x", 1, 2), ("x", 3, 2)]
    assert late == [("right", 5)]


def test_a_session_waits_for_what_may_be_just_at_its_end():
    items = [("a", "x", 1, 0), PAUSE, ("a", "y", 2, 10), PAUSE, ("a", "y", 3, 10), PAUSE]
    assert joined(WindowJoin, [*items, ("b", "x", 4, 10)], SESSIONS) == ([("x", 1, 4)], [])
    items += [("a", "y", 5, 11), PAUSE, ("a", "y", 6, 11), PAUSE]
    rows, late = joined(WindowJoin, [*items, ("b", "x", 7, 0)], {**SESSIONS, "type": "left"})
    assert sorted(row[1] for row in rows) == [1, 2, 3, 5, 6]
    assert late == [("right", 7)]


def test_a_window_join_writes_once_what_a_batch_brings_to_a_window():
    items = [(side, f"k{n}", n, n % 20) for n in range(30) for side in "ab"]
    result = run(topology(WindowJoin, [*items, PAUSE], WINDOW, lag="1s", tasks=1), batches=1)
    assert result.report["trees"]["acked"] == len(items)
    assert len(result.state("join")) == len(["from 0 to 10", "from 10 to 20"])


@pytest.mark.parametrize(("at", "is_match"), [(94, False), (95, True), (110, True), (111, False)])
def test_an_interval_join_includes_both_bounds(at, is_match):
    items = [("a", "x", 1, 100), ("b", "x", 2, at)]
    for order in (items, items[::-1]):
        rows, _ = joined(IntervalJoin, order, {**INTERVAL, "type": "full"}, lag="50ms")
        alone = [("x", 1, None), (None, None, 2)]
        assert sorted(rows, key=str) == ([("x", 1, 2)] if is_match else alone)


def test_an_interval_join_tells_what_is_late_and_forgets_what_can_not_match():
    items = [("a", "x", 1, 10), PAUSE, ("b", "y", 2, 40), PAUSE, ("b", "y", 3, 40), PAUSE]
    items += [("b", "x", 4, 20), ("a", "y", 5, 40)]
    rows, late = joined(IntervalJoin, items, {**INTERVAL, "type": "left"})
    assert sorted(rows, key=str) == [("x", 1, None), ("y", 5, 2), ("y", 5, 3)]
    assert late == [("right", 4)]


def test_an_interval_that_is_over_when_its_row_comes():
    config = {**CONFIG, "type": "full", "lower": "-20ms", "upper": "-10ms"}
    items = [("b", "x", 1, 85), ("b", "y", 2, 85), PAUSE, ("a", "n", 3, 95), PAUSE]
    items += [("a", "x", 4, 96), ("a", "z", 5, 100)]
    rows, late = joined(IntervalJoin, items, config)
    wanted = [("x", 4, 1), ("n", 3, None), (None, None, 2), ("z", 5, None)]
    assert sorted(rows, key=str) == sorted(wanted, key=str)
    assert late == []


def test_a_temporal_join_finds_the_row_that_was_valid_at_the_time():
    items = [("b", "x", 1, 10), ("a", "x", 2, 9), ("a", "x", 3, 10), ("a", "x", 4, 25), PAUSE]
    items += [("b", "x", 5, 20), ("b", "x", 6, 25), ("a", "x", 7, 24), ("a", "y", 8, 24)]
    rows, late = joined(TemporalJoin, items, {**CONFIG, "type": "left"}, lag="30ms")
    wanted = [("x", 2, None), ("x", 3, 1), ("x", 7, 5), ("x", 4, 6), ("y", 8, None)]
    assert sorted(rows, key=str) == sorted(wanted, key=str)
    assert late == []


def test_a_late_row_of_the_table_counts_for_what_comes_after_it():
    items = [("b", "x", 1, 10), ("a", "x", 2, 30), PAUSE, ("a", "x", 3, 40), PAUSE]
    items += [("a", "y", 0, 40), PAUSE, ("b", "x", 4, 20), ("a", "x", 5, 30), PAUSE]
    items += [("a", "x", 6, 50)]
    rows, late = joined(TemporalJoin, items, CONFIG)
    assert sorted(rows) == [("x", 2, 1), ("x", 3, 4), ("x", 6, 4)]
    assert late == [("left", 5)]


def test_a_table_forgets_rows_that_nothing_can_ask_for():
    items = [("b", "x", n, n) for n in range(50)]
    items += [PAUSE, ("a", "x", 1, 60), PAUSE, ("a", "y", 2, 60)]
    result = run(topology(TemporalJoin, items, CONFIG))
    assert result.state("join") == {("versions", ("x",)): [(49, [49])]}


def test_a_table_forgets_thousands_of_rows_at_once():
    items = [("a", "x", 1, 1500), *(("b", "x", n, n) for n in range(3000))]
    result = run(topology(TemporalJoin, items, CONFIG))
    assert [tuple(row) for row in result.collected("sink")] == [("x", 1, 1500)]
    assert result.state("join") == {("versions", ("x",)): [(2999, [2999])]}


def test_a_lookup_join_finds_what_is_there_whatever_crashes():
    items = [("a", "x", 1, 5), PAUSE, ("b", "x", 2, 5), PAUSE, ("a", "x", 3, 1), ABORT, PAUSE]
    items += [("b", "x", 4, 4), PAUSE, ("a", "x", 5, 9), PAUSE, ("b", "x", 6, 6), PAUSE]
    items += [("a", "x", 7, 0)]
    config = {**CONFIG, "type": "left"}
    rows, _ = joined(LookupJoin, items, config)
    assert rows == [("x", 1, None), ("x", 3, 2), ("x", 5, 2), ("x", 7, 6)]
    untimed = {**config, "right": {**RIGHT, "time": None}, "left": {**LEFT, "time": None}}
    assert joined(LookupJoin, items, untimed)[0][2:] == [("x", 5, 4), ("x", 7, 6)]


WAITING = [("a", "x", 1, 5), PAUSE, ABORT, ("a", "x", 2, 6), PAUSE, ABORT, ("b", "x", 3, 4)]


@pytest.mark.parametrize(("cls", "config"), [(IntervalJoin, INTERVAL), (TemporalJoin, CONFIG)])
def test_rows_that_wait_are_all_there_after_a_crash(cls, config):
    rows, _ = joined(cls, WAITING, config, lag="100ms")
    assert sorted(rows) == [("x", 1, 3), ("x", 2, 3)]


@pytest.mark.parametrize(
    ("cls", "config", "entries"),
    [(IntervalJoin, {**INTERVAL, "type": "full"}, 2), (TemporalJoin, CONFIG, 2)],
)
def test_a_batch_writes_its_rows_together(cls, config, entries):
    items = [("a", "k", n, n % 20) for n in range(30)] + [("b", "k", n, n) for n in range(30)]
    result = run(topology(cls, [*items, PAUSE], config, lag="1s", tasks=1), batches=1)
    assert result.report["trees"]["acked"] >= len(items)
    assert len(result.state("join")) == entries


def test_a_row_that_had_its_match_or_was_emitted_alone_is_not_emitted_again_after_a_crash():
    items = [("a", "x", 1, 5), ("a", "z", 2, 50), PAUSE, ("b", "y", 3, 50), PAUSE]
    items += [("b", "z", 4, 55), ("b", "y", 5, 55), PAUSE, ("b", "y", 6, 60), PAUSE, ABORT, PAUSE]
    rows, late = joined(IntervalJoin, [*items, ("b", "y", 7, 60)], {**INTERVAL, "type": "left"})
    assert sorted(rows, key=str) == [("x", 1, None), ("z", 2, 4)]
    assert late == []


def test_what_is_forgotten_leaves_what_is_kept_for_longer():
    items = [("a", "x", 1, 0), ("a", "x", 2, 5_000), ("a", "z", 3, 5_000), PAUSE]
    items += [("b", "y", 4, 4_990), PAUSE, ("b", "x", 5, 5_001), ("b", "z", 6, 5_002)]
    rows, _ = joined(IntervalJoin, items, INTERVAL, tasks=1)
    assert sorted(rows) == [("x", 2, 5), ("z", 3, 6)]


def test_rows_that_are_matched_in_the_batch_that_brings_them_are_so_after_a_crash():
    many = [("a", "x" if n % 2 else "z", n, 5) for n in range(20)]
    items = [*many, ("b", "x", 20, 6), PAUSE, ABORT, ("b", "y", 21, 60)]
    rows, _ = joined(IntervalJoin, items, {**INTERVAL, "type": "left"}, tasks=1)
    wanted = [("x", n, 20) if n % 2 else ("z", n, None) for n in range(20)]
    assert sorted(rows, key=str) == sorted(wanted, key=str)


class FailsFirst(CollectBolt):
    def execute(self, tup, collector):
        self.state["calls"] = self.state.get("calls", 0) + 1
        if self.state["calls"] == 1:
            raise FailedException("not now")
        self.state[len(self.state)] = tup.values


def test_a_pair_that_fails_behind_an_interval_join_makes_no_row_come_twice():
    builder = topology(
        IntervalJoin, [("a", "x", 1, 0), PAUSE, ("b", "x", 2, 0)], INTERVAL, lag="1s"
    )
    builder.set_bolt("fails", FailsFirst).global_grouping("join")
    result = run(builder)
    assert result.state("fails") == {"calls": 2, 1: ["x", 1, 2]}
    assert result.collected("sink") == [["x", 1, 2]] * 2, "at-least-once, and no pair more"
    assert result.failed("source") == []


EDGE = [("a", "x", 1, 0), PAUSE, ("a", "y", 2, 10), PAUSE, ("a", "y", 3, 10), PAUSE]


def test_a_watermark_at_the_upper_bound_still_waits_and_one_at_the_end_of_a_window_does_not():
    rows, late = joined(IntervalJoin, [*EDGE, ("b", "x", 4, 10)], INTERVAL)
    assert (rows, late) == ([("x", 1, 4)], [])
    rows, _ = joined(IntervalJoin, [*EDGE, ("b", "x", 4, 10)], {**INTERVAL, "type": "left"})
    assert rows == [("x", 1, 4), ("y", 2, None), ("y", 3, None)]
    assert joined(WindowJoin, [*EDGE, ("b", "x", 4, 3)], WINDOW) == ([], [("right", 4)])


@pytest.mark.parametrize(
    ("cls", "more"),
    [
        (WindowJoin, WINDOW),
        (WindowJoin, SESSIONS),
        (IntervalJoin, INTERVAL),
        (TemporalJoin, CONFIG),
        (LookupJoin, CONFIG),
        (TableJoin, CONFIG),
    ],
)
@pytest.mark.parametrize("key", [None, nan], ids=repr)
def test_a_key_of_none_or_nan_equals_no_other_one(cls, more, key):
    items = [("b", key, 1, 5), PAUSE, ("a", key, 2, 5)]
    [(_, *row)] = joined(cls, items, {**more, "type": "left"})[0]
    assert row == [2, None]
    assert joined(cls, items, {**more, "type": "inner"})[0] == []


def test_the_time_is_that_of_the_source_if_none_is_named():
    builder = TopologyBuilder()
    for name, items in (("one", [("x", 1, 0)]), ("two", [("x", 2, 9), ("x", 3, 11)])):
        spout = builder.set_spout(name, ListSpout(items, fields=["who", "n", "at"]))
        spout.set_event_time("at", unit="ms")
    config = {
        "left": {"from": "one", "fields": {"a": "n"}},
        "right": {"from": "two", "fields": {"b": "n"}},
    }
    join = builder.set_bolt("join", IntervalJoin)
    join.set_config({**config, "key": ["who"], "upper": "10ms"})
    join.fields_grouping("one", ["who"]).fields_grouping("two", ["who"])
    builder.set_bolt("sink", CollectBolt).global_grouping("join")
    assert run(builder).collected("sink") == [[1, 2]]


# ---- a restart with other options

OPEN = [("a", "x", 1, 0), ("b", "x", 2, 0), ("a", "y", 3, 0), PAUSE, ("a", "x", 4, 1), PAUSE]
OTHERS = [
    (WindowJoin, WINDOW, SESSIONS, r"window tumbling \(size 10 ms, offset 0 ms\); now it is s"),
    (IntervalJoin, INTERVAL, {**INTERVAL, "upper": "20ms"}, "upper 10 ms; now it is 20 ms"),
    (IntervalJoin, INTERVAL, {**INTERVAL, "type": "left"}, "type inner; now it is left"),
    (IntervalJoin, {**INTERVAL, "type": "left"}, {**INTERVAL, "type": "full"}, "type left"),
    (TemporalJoin, CONFIG, {**CONFIG, "key": ["who", "n"]}, "left.key who; now it is who, n"),
    (LookupJoin, CONFIG, {**CONFIG, "right": {**RIGHT, "fields": ["at"]}}, "right.fields n; now"),
    (LookupJoin, CONFIG, {**CONFIG, "right": {**RIGHT, "time": None}}, "right.time at; now"),
    (LookupJoin, CONFIG, {**CONFIG, "left": {**LEFT, "fields": ["n"]}}, None),
    (TableJoin, CONFIG, {**CONFIG, "left": {**LEFT, "time": None}}, "left.time at; now it is m"),
    (IntervalJoin, {**INTERVAL, "type": "full"}, {**INTERVAL, "type": "right"}, None),
    (IntervalJoin, INTERVAL, {**INTERVAL, "lower": "-0.005s"}, None),
    (WindowJoin, WINDOW, {**WINDOW, "type": "full"}, None),
    (WindowJoin, WINDOW, {**WINDOW, "left": {**LEFT, "time": "n"}}, "left.time at; now it is n"),
    (TemporalJoin, CONFIG, {**CONFIG, "right": {**RIGHT, "time": "n"}}, "right.time at; now it i"),
    (TemporalJoin, CONFIG, {**CONFIG, "forgetAfter": "1s", "allowedLateness": "1s"}, None),
    (TableJoin, CONFIG, {**CONFIG, "type": "right"}, "type inner; now it is right"),
    (TableJoin, CONFIG, {**CONFIG, "left": {**LEFT, "id": ["n"]}}, "left.id nothing; now it is n"),
]


@pytest.mark.parametrize(("cls", "before", "after", "said"), OTHERS)
def test_a_change_is_refused_that_rows_which_are_kept_do_not_allow(cls, before, after, said):
    """Rows would never match, be emitted as if they had not, or have the wrong fields."""
    first = run(topology(cls, OPEN, before, lag="1s"), batches=2)
    second = topology(cls, OPEN, after, lag="1s")
    if said is None:
        assert run(second, checkpoint=first).errors == []
    else:
        with pytest.raises(TopologyFailed, match=f"that were kept with {said}"):
            run(second, checkpoint=first, batches=3)


def test_without_rows_any_change_is_right():
    first = run(topology(IntervalJoin, [PAUSE], INTERVAL), batches=1)
    rows = {**INTERVAL, "type": "full", "key": ["n"]}
    assert run(topology(IntervalJoin, [PAUSE], rows), checkpoint=first).errors == []


# ---- what is late

AT_20 = [
    ("a", "x", 1, 3),
    ("b", "x", 2, 4),
    ("b", "z", 3, 6),
    PAUSE,
    ("a", "w", 4, 20),
    PAUSE,
    PAUSE,
]
LATE = [*AT_20, ("a", "x", 5, 9), ("a", "z", 6, 7), PAUSE, ("b", "y", 7, 9), ("a", "y", 8, 8)]
LATE += [PAUSE, ABORT, ("a", "w", 9, 60), PAUSE, PAUSE, ("a", "x", 10, 4), PAUSE]


@pytest.mark.parametrize(
    ("cls", "config", "found"),
    [
        (WindowJoin, WINDOW, [(1, 2), (5, 2), (6, 3), (8, 7)]),
        (IntervalJoin, INTERVAL, [(1, 2), (5, 2), (6, 3), (8, 7)]),
        (TemporalJoin, CONFIG, [(1, None), (5, 2), (6, 3), (8, None)]),
    ],
)
def test_a_join_takes_what_is_late_for_as_long_as_it_allows(cls, config, found):
    """All is joined once; what has no match is emitted when none can come that is late."""
    rows, late = joined(cls, LATE, {**config, "type": "left", "allowedLateness": "15ms"})
    assert sorted((a, b) for _, a, b in rows) == sorted([*found, (4, None), (9, None)])
    assert late == [("left", 10)]
    late = {one for one in joined(cls, LATE, config)[1] if one[0] == "left"}
    assert late == {("left", n) for n in (5, 6, 8, 10)}


def test_a_late_pair_has_the_edges_of_each_of_its_windows():
    window = {"type": "sliding", "size": "10ms", "every": "5ms"}
    items = [("b", "x", 1, 7), PAUSE, ("a", "w", 2, 16), ("b", "w", 3, 16), PAUSE, PAUSE]
    config = {**CONFIG, "window": window, "allowedLateness": "1s"}
    rows = run(topology(WindowJoin, [*items, ("a", "x", 4, 8)], config)).collected("sink")
    edges = [(start.microsecond, end.microsecond) for who, *_, start, end in rows if who == "x"]
    assert sorted(edges) == [(0, 10_000), (5_000, 15_000)]


@pytest.mark.parametrize("window", [{"type": "tumbling", "size": "10ms"}, SESSIONS["window"], None])
def test_what_is_late_for_a_join_is_emitted_as_what_it_emits_for_bolts_behind_it(window):
    cls, config = (IntervalJoin, INTERVAL) if window is None else (WindowJoin, CONFIG)
    config = {**config, "window": window} if window else config
    builder = topology(cls, [*AT_20, ("a", "x", 5, 3), ("b", "y", 6, 4), PAUSE], config)
    for side in ("left", "right"):
        builder.set_bolt(side, CollectBolt).global_grouping("join", f"late_{side}")
    found = run(builder)
    rows = [[row[:3] for row in found.collected(side)] for side in ("left", "right")]
    assert rows == [[["x", 5, None]], [[None, None, 6]]]
    edges = {at.microsecond for side in ("left", "right") for at in found.collected(side)[0][3:]}
    assert edges == (
        {0, 10_000}
        if window == WINDOW["window"]
        else {3000, 4000, 13_000, 14_000}
        if window
        else set()
    )


@pytest.mark.parametrize(
    ("cls", "config"), [(WindowJoin, WINDOW), (IntervalJoin, INTERVAL), (TemporalJoin, CONFIG)]
)
def test_what_was_forgotten_stays_so_when_more_is_allowed_to_be_late(cls, config):
    """A row that comes then would be emitted without its match, which is gone."""
    items = [("b", "x", 0, 1), ("b", "x", 1, 2), ("b", "x", 2, 60), PAUSE, ("a", "w", 3, 90), PAUSE]
    first = run(topology(cls, items, {**config, "type": "left"}), batches=4)
    items += [("a", "x", 4, 1), PAUSE, ("a", "w", 5, 100), PAUSE, ("a", "x", 6, 90), PAUSE]
    second = {**config, "type": "left", "allowedLateness": "1s"}
    found = run(topology(cls, items, second), checkpoint=first)
    rows = {row[1]: row[2] for row in found.collected("sink")}
    assert set(rows) == {3, 5, 6}
    assert [values["n"] for _, values, _ in found.collected("late") if values["n"] > 3] == [4]


# ---- mistakes

MISTAKES = [
    (WindowJoin, CONFIG, ["window"]),
    (WindowJoin, {**WINDOW, "window": {"type": "session"}}, ["gap"]),
    (WindowJoin, {**WINDOW, "window": {"type": "count", "size": 9}}, ["count"]),
    (TableJoin, {**CONFIG, "type": "both"}, ["type"]),
    (WindowJoin, {**WINDOW, "type": "outer"}, ["type"]),
    (IntervalJoin, {**CONFIG, "upper": "soon"}, ["upper"]),
    (IntervalJoin, {**INTERVAL, "upper": "-6ms"}, ["lower is -5ms, but must not be above upper"]),
    (TemporalJoin, {**CONFIG, "type": "full"}, ["type"]),
    (
        TemporalJoin,
        {**CONFIG, "key": [], "left": {**LEFT, "time": None}},
        ["key is missing"],
    ),
    (
        IntervalJoin,
        {**INTERVAL, "left": {**LEFT, "time": None}, "right": {**RIGHT, "time": None}},
        ["left.time is missing: name the field", "right.time is missing", "eventTime of 'split'"],
    ),
    (LookupJoin, {**CONFIG, "right": LEFT}, ["can't be joined with itself", "called a, k"]),
    (LookupJoin, {**CONFIG, "right": {**RIGHT, "key": ["n", "at"]}}, ["keys differ in length"]),
    (
        TableJoin,
        {**CONFIG, "key": ["k", "d"], "left": {**LEFT, "key": ["who"]}, "right": RIGHT},
        ["keys differ in length: ['who'] and ['k', 'd']"],
    ),
    (
        TableJoin,
        {
            "key": ["k", "d"],
            "left": {**LEFT, "key": ["who"]},
            "right": {**RIGHT, "key": ["who"]},
        },
        ["keys differ in length: ['k', 'd'] and ['who']"],
    ),
    (
        LookupJoin,
        {
            **CONFIG,
            "left": {**LEFT, "from": "orders"},
            "right": {**RIGHT, "key": ["usr"], "time": "when", "fields": ["b"]},
        },
        [
            "left.from: it has no input of stream 'orders' of 'orders'. It has: 'orders' of",
            "right.key: its input has no field 'usr'. It has: who, n, at",
            "right.time: its input has no field 'when'",
            "right.fields: its input has no field 'b'",
            "stream 'orders' of 'split' is neither left nor right",
        ],
    ),
]


@pytest.mark.parametrize(("cls", "config", "said"), MISTAKES)
def test_mistakes_are_all_found_before_anything_runs(cls, config, said):
    with pytest.raises(ValidationFailed) as raised:
        joined(cls, ROWS, config)
    for text in said:
        assert text in str(raised.value)


@given(
    events=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9_000)), min_size=2),
    lateness=st.sampled_from(["0", "700ms"]),
)
@settings(max_examples=settings.default.max_examples // 4)
def test_rows_of_an_interval_join_are_kept_with_those_that_are_over_at_about_the_same_time(
    events, lateness
):
    """However times jump in a chunk: for as long as they can be matched, and hardly longer."""
    items = [(side, "x", n, at) for n, (side, at) in enumerate(events)]
    config = {**INTERVAL, "lower": "-1s", "upper": "5s", "allowedLateness": lateness}
    result = run(topology(IntervalJoin, [*items, PAUSE], config, lag="1h"), batches=2)
    assert result.errors == []
    over = [reach + 1 + (0 if lateness == "0" else 700) for reach in (5_000, 1_000)]
    kept = []
    for (what, side, due, _), rows in result.state("join").items():
        assert what == "rows"
        kept += [(number, side) for number, *_ in rows]
        for _, _, time, *_ in rows:
            assert time + over[side] <= due < time + over[side] + 1_000
    assert sorted(kept) == [*enumerate(sorted("ab".index(side) for side, _ in events))]


# ---- DuckDB says the same

EXTRAS = [(), (), (), (PAUSE,), (PAUSE, PAUSE), (ABORT,)]
EXAMPLES = settings.default.max_examples // 4
EDGES = st.sampled_from(range(-10, 21, 5))  # which are often on an edge of each other
TIMES = st.one_of(EDGES, EDGES, st.integers(-20, 40))
EVENTS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), TIMES), max_size=14)
KINDS = st.sampled_from(["inner", "left", "right", "full"])
IN_WINDOWS = "SELECT *, unnest(generate_series(-70, 70, 7)) s FROM"
IN_SESSIONS = """
    SELECT *, sum(begins) OVER (PARTITION BY who ORDER BY t, n) s FROM (
        SELECT *, CASE WHEN t - lag(t) OVER (PARTITION BY who ORDER BY t, n) <= 10
            THEN 0 ELSE 1 END begins
        FROM (SELECT *, 'a' side FROM a UNION ALL SELECT *, 'b' FROM b))"""
SQL = {
    "sliding": f"""
        SELECT l.who, l.n, r.n
        FROM (SELECT * FROM ({IN_WINDOWS} a) WHERE s <= t AND t < s + 21) l
        KIND JOIN (SELECT * FROM ({IN_WINDOWS} b) WHERE s <= t AND t < s + 21) r
        ON l.who = r.who AND l.s = r.s""",
    "session": f"""
        SELECT l.who, l.n, r.n FROM (SELECT * FROM ({IN_SESSIONS}) WHERE side = 'a') l
        KIND JOIN (SELECT * FROM ({IN_SESSIONS}) WHERE side = 'b') r
        ON l.who = r.who AND l.s = r.s""",
    "interval": """
        SELECT a.who, a.n, b.n FROM a KIND JOIN b
        ON a.who = b.who AND b.t BETWEEN a.t - 5 AND a.t + 10""",
    "temporal": """
        SELECT a.who, a.n, b.n FROM a ASOF KIND JOIN b ON a.who = b.who AND a.t >= b.t""",
}
SLIDING = {**CONFIG, "window": {"type": "sliding", "size": "21ms", "every": "7ms"}}
CONFIGS = {
    "sliding": (WindowJoin, SLIDING),
    "session": (WindowJoin, SESSIONS),
    "interval": (IntervalJoin, INTERVAL),
    "temporal": (TemporalJoin, CONFIG),
}


def tables_of(events):
    tables = {side: ("who TEXT, n BIGINT, t BIGINT", []) for side in "ab"}
    for number, (side, who, at) in enumerate(events):
        tables[side][1].append((who, number, at))
    return tables


@pytest.mark.parametrize("name", SQL)
@given(events=EVENTS, kind=KINDS, is_near=st.booleans(), extra=st.data())
@settings(max_examples=EXAMPLES)
def test_rows_are_those_of_sql(name, events, kind, is_near, extra):
    """In any order within the lag, with crashes, in batches of any size, on several workers.

    What is allowed to be late may be out of order as well, where its other side may.
    """
    cls, config = CONFIGS[name]
    if is_near:  # then much ends before the last event has come
        events = within(8, events, extra.draw)
    if cls is TemporalJoin:  # of equal times any row may be the last
        kind = {"right": "inner", "full": "left"}.get(kind, kind)
        events = list(dict.fromkeys(events))
    times = 1
    if name == "interval" and extra.draw(st.sampled_from([False, True, True])):
        times = 200  # several seconds, so that rows are kept in several buckets
    events = [(side, who, at * times) for side, who, at in events]
    items = []
    for number, (side, who, at) in enumerate(events):
        items += [(side, who, number, at), *extra.draw(st.sampled_from(EXTRAS))]
    lag, near = f"{100 * times}ms", f"{8 * times}ms"
    config = {**config, "type": kind}
    if times > 1:
        config |= {"lower": f"-{5 * times}ms", "upper": f"{10 * times}ms"}
    if is_near and name in ("sliding", "interval") and extra.draw(st.booleans()):
        lag, config = "0", {**config, "allowedLateness": near}
    elif is_near:
        lag = near
    rows, late = joined(cls, items, config, lag=lag, workers=2)
    sql = SQL[name].replace("a.t - 5 AND a.t + 10", f"a.t - {5 * times} AND a.t + {10 * times}")
    wanted = by_sql(sql.replace("KIND", kind), **tables_of(events))
    assert late == []
    assert sorted(rows, key=str) == sorted(wanted, key=str)


def test_a_table_join_emits_the_newest_rows_of_both_sides_when_one_has_changed():
    items = [("a", "x", 1, 5), PAUSE, ("b", "x", 2, 5), PAUSE, ABORT, ("b", "x", 3, 4), PAUSE]
    items += [("a", "x", 4, 6), PAUSE, ("b", "y", 5, 0)]
    found = [("x", 1, 2), ("x", 4, 2)]
    assert joined(TableJoin, items, CONFIG)[0] == found
    alone = [("x", 1, None), (None, None, 5)]
    assert joined(TableJoin, items, {**CONFIG, "type": "full"})[0] == [alone[0], *found, alone[1]]


def test_a_table_join_of_a_foreign_key_emits_each_of_its_rows():
    """Two auctions of a seller come before the seller, one after, and one changes."""
    auctions = {**LEFT, "fields": {"k": "who", "a": "n", "t": "at"}, "id": ["n"]}
    items = [("a", "x", 1, 5), ("a", "x", 2, 5), PAUSE, ("b", "x", 9, 5), ABORT, PAUSE]
    items += [("a", "x", 3, 6), ("a", "x", 1, 7), PAUSE, ("b", "x", 8, 9)]
    found = run(topology(TableJoin, items, {**CONFIG, "left": auctions, "type": "left"}))
    assert found.errors == []
    rows = [(row[1], row[2], row[3]) for row in found.collected("sink")]
    joined = [(1, 5, 9), (2, 5, 9), (3, 6, 9), (1, 7, 9), (1, 7, 8), (2, 5, 8), (3, 6, 8)]
    assert sorted(rows, key=str) == sorted([(1, 5, None), (2, 5, None), *joined], key=str)
    assert len(found.state("join")) == 4


@pytest.mark.parametrize("by", ["event", "clock"])
def test_a_temporal_join_forgets_keys_without_new_rows_and_counts_them(by):
    """Also those that came before it was to forget any."""
    items = [("b", "x", 1, 0), ("b", "y", 2, 0), PAUSE, ("a", "x", 3, 5), ("a", "z", 4, 5), PAUSE]
    before = run(topology(TemporalJoin, items, CONFIG), batches=3)
    items += [("b", "z", 5, 900), PAUSE, PAUSE, ("b", "z", 6, 1500), PAUSE]
    items += [("a", "x", 7, 1500), ("a", "z", 8, 1600), ("a", "w", 9, 1700), *[PAUSE] * 5]
    config = {**CONFIG, "type": "left", "forgetAfter": "1s", "forgetBy": by}
    found = run(topology(TemporalJoin, items, config), checkpoint=before, batch_seconds=0.4)
    assert found.errors == []
    rows = {row[1]: row[2] for row in found.collected("sink")}
    assert (rows[3], rows[7], rows[8]) == (1, None, 6)
    assert found.state("join") == {}
    assert found.metrics["join"]["forgotten"] == 3


class ForAnHour(TableJoin):
    state_ttl = "1h"


def test_a_table_join_may_forget_what_has_not_changed_for_long():
    result = run(topology(ForAnHour, [*ROWS, PAUSE, *ROWS], CONFIG), batch_seconds=3600)
    assert result.errors == []
    assert result.state("join") == {}


@given(events=EVENTS, kind=KINDS, extra=st.data())
@settings(max_examples=EXAMPLES)
def test_the_last_rows_of_two_tables_are_those_of_sql(events, kind, extra):
    events = list({(side, who, at): (side, who, at) for side, who, at in events})
    items = []
    for number, (side, who, at) in enumerate(events):
        items += [(side, who, number, at), *extra.draw(st.sampled_from(EXTRAS))]
    times = {"left": {**LEFT, "fields": ["who", "n", "at"]}, "type": kind}
    times["right"] = {**RIGHT, "fields": {"w": "who", "b": "n", "t": "at"}}
    result = run(topology(TableJoin, items, {**CONFIG, **times}, lag="100ms"), workers=2)
    assert result.errors == []
    last = {}
    for who, n, at, w, b, t in result.collected("sink"):
        newer = -99 if at is None else at, -99 if t is None else t, n, b
        last[who or w] = max(last.get(who or w, newer), newer, key=lambda one: one[:2])
    newest = "(SELECT who, arg_max(n, t) n FROM {} GROUP BY who)".format
    sql = (
        f"SELECT coalesce(a.who, b.who), a.n, b.n FROM {newest('a')} a"
        f" {kind} JOIN {newest('b')} b ON a.who = b.who"
    )
    wanted = by_sql(sql, **tables_of(events))
    assert sorted((who, *one[2:]) for who, one in last.items()) == sorted(wanted)
