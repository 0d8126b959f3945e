"""Joins in topologies: which rows are emitted, when, what is late, and that SQL finds the same."""

from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import FailedException, TopologyBuilder
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import IntervalJoin, LookupJoin, TableJoin, TemporalJoin, WindowJoin
from support.aggregates import within
from support.joins import CONFIG, INTERVAL, LEFT, RIGHT, SESSIONS, WINDOW, topology
from support.sql_events import by_sql


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


class RowByRow(WindowJoin):
    """Keeps rows as they were kept once: two entries for each, and a timer for each key."""

    def add(self, side, key, time, row, collector):
        for span in self._live(time):
            counts = list(self.state.get((span, key), (0, 0)))
            if not any(counts):
                self._context.timers.set((span, key), span[1])
            self.state[span, key, side, counts[side]] = row
            counts[side] += 1
            self.state[span, key] = tuple(counts)
        return True


@pytest.mark.parametrize("kind", ["inner", "full"])
def test_windows_that_were_open_before_a_window_join_wrote_batches_are_joined(kind):
    before = [(side, f"k{n}", (side, n, m), n) for n in range(20) for m in (1, 2) for side in "ab"]
    before = [item for item in before if item[:2] != ("b", "k3")]
    after = [("b", "k5", "new", 5), ("b", "k30", "new", 7), ("a", "k5", "newer", 6), PAUSE]
    after += [("b", "k5", "newest", 5), ABORT, ("a", "k40", "new", 22)]
    config = {**WINDOW, "type": kind}
    items = [*before, PAUSE, *after]
    wanted, _ = joined(WindowJoin, items, config, lag="1s")
    old = run(topology(RowByRow, items, config, lag="1s"), batches=1)
    assert {len(place) for place in old.state("join")} == {2, 4}
    found = run(topology(WindowJoin, items, config, lag="1s"), checkpoint=old)
    rows = [tuple(row[:3]) for row in found.collected("sink")]
    assert sorted(rows, key=str) == sorted(wanted, key=str)
    assert not any(found.state("join"))


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
    assert result.state("join") == {(("x",), "versions"): [(49, [49])]}


def test_a_table_forgets_thousands_of_rows_at_once():
    items = [("a", "x", 1, 1500), *(("b", "x", n, n) for n in range(3000))]
    result = run(topology(TemporalJoin, items, CONFIG))
    assert [tuple(row) for row in result.collected("sink")] == [("x", 1, 1500)]
    assert result.state("join") == {(("x",), "versions"): [(2999, [2999])]}


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


class TupleByTuple(IntervalJoin):
    """Keeps rows as they were kept once: an entry and a timer for each. It joins nothing."""

    def add(self, side, key, time, row, collector):
        place = (key, side, len(self.state))
        self.state[place] = (time, row, False)
        self._context.timers.set(place, time + self._within[side][1] + 1)
        return True


class EachLeftTuple(TemporalJoin):
    """The same of a temporal join."""

    def add(self, side, key, time, row, collector):
        if side:
            return super().add(side, key, time, row, collector)
        place = (key, len(self.state))
        self.state[place] = (time, row)
        self._context.timers.set(place, time + 1)
        return True


@pytest.mark.parametrize(
    ("cls", "old", "config"),
    [
        (IntervalJoin, TupleByTuple, {**INTERVAL, "type": "full"}),
        (TemporalJoin, EachLeftTuple, {**CONFIG, "type": "left"}),
    ],
)
def test_rows_that_waited_before_joins_wrote_batches_are_joined(cls, old, config):
    before = [("a", f"k{n}", n, n) for n in range(9)] + [
        ("b", f"k{n}", n, n) for n in range(20, 25)
    ]
    after = [("b", "k5", 25, 4), ("b", "k5", 26, 40), PAUSE, ("a", "k21", 27, 30), ABORT, PAUSE]
    items = [*before, PAUSE, *after, ("a", "k0", 28, 50)]
    wanted, _ = joined(cls, items, config, lag="1s")
    begun = run(topology(old, items, config, lag="1s"), batches=1)
    found = run(topology(cls, items, config, lag="1s"), checkpoint=begun)
    rows = [tuple(row[:3]) for row in found.collected("sink")]
    assert sorted(rows, key=str) == sorted(wanted, key=str)
    assert [key for key in found.state("join") if "versions" not in key] == []


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
    """In any order within the lag, with crashes, in batches of any size, on several workers."""
    cls, config = CONFIGS[name]
    if is_near:  # then much ends before the last event has come
        events = within(8, events, extra.draw)
    if cls is TemporalJoin:  # of equal times any row may be the last
        kind = {"right": "inner", "full": "left"}.get(kind, kind)
        events = list(dict.fromkeys(events))
    items = []
    for number, (side, who, at) in enumerate(events):
        items += [(side, who, number, at), *extra.draw(st.sampled_from(EXTRAS))]
    lag = "8ms" if is_near else "100ms"
    rows, late = joined(cls, items, {**config, "type": kind}, lag=lag, workers=2)
    wanted = by_sql(SQL[name].replace("KIND", kind), **tables_of(events))
    assert late == []
    assert sorted(rows, key=str) == sorted(wanted, key=str)


def test_a_table_join_emits_the_newest_rows_of_both_sides_when_one_has_changed():
    items = [("a", "x", 1, 5), PAUSE, ("b", "x", 2, 5), PAUSE, ABORT, ("b", "x", 3, 4), PAUSE]
    items += [("a", "x", 4, 6), PAUSE, ("b", "y", 5, 0)]
    found = [("x", 1, 2), ("x", 4, 2)]
    assert joined(TableJoin, items, CONFIG)[0] == found
    alone = [("x", 1, None), (None, None, 5)]
    assert joined(TableJoin, items, {**CONFIG, "type": "full"})[0] == [alone[0], *found, alone[1]]


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
