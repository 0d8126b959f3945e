"""Interval joins whose left rows say themselves until when they may be matched."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.errors import FulmenError, TopologyFailed, ValidationFailed
from fulmen.testing import PAUSE, run
from fulmen.windows import IntervalJoin
from support.windows.aggregates import EXAMPLES, EXTRAS, within
from support.windows.joins import INTERVAL, LEFT, topology
from support.windows.sql_events import by_sql

TIMED = {**LEFT, "fields": {"k": "who", "a": "n", "t": "at"}}
UNTIL = "case when a % 3 > 0 then t + a % 9 - 3 end"
CONFIG = {**INTERVAL, "left": TIMED, "until": UNTIL}
SQL = """
SELECT a.who, a.n, a.t, b.n FROM a KIND JOIN b ON a.who = b.who
AND b.t >= a.t - 5 AND b.t <= least(a.t + 10, CASE WHEN a.n % 3 > 0 THEN a.t + a.n % 9 - 3 END)"""
EVENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", None]), st.integers(0, 30)),
    max_size=20,
)


@settings(max_examples=2 * EXAMPLES)
@given(EVENTS, st.sampled_from(["inner", "left", "full"]), st.booleans(), st.data())
def test_rows_are_those_of_sql(events, kind, is_near, extra):
    """In any order within the lag, with crashes, in batches of any size, on several workers."""
    if is_near:  # then much ends before the last event has come
        events = within(8, events, extra.draw)
    items, tables = [], {side: ("who TEXT, n BIGINT, t BIGINT", []) for side in "ab"}
    for number, (side, who, at) in enumerate(events):
        items += [(side, who, number, at), *extra.draw(st.sampled_from(EXTRAS))]
        tables[side][1].append((who, number, at))
    lag = "8ms" if is_near else "100ms"
    result = run(topology(IntervalJoin, items, {**CONFIG, "type": kind}, lag=lag), workers=2)
    assert result.errors == []
    assert result.state("join") == {}
    found = [tuple(row[:4]) for row in result.collected("sink")]
    wanted = by_sql(SQL.replace("KIND", kind), **tables)
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_a_row_is_forgotten_and_emitted_alone_when_it_says():
    config = {**CONFIG, "upper": "7d", "until": "t + 5000", "type": "left"}
    items = [("a", "x", 1, 0), PAUSE, ("b", "x", 2, 7_000), ("b", "z", 3, 9_000), PAUSE, PAUSE]
    result = run(topology(IntervalJoin, items, config), end_of_input=False)
    assert [row[:4] for row in result.collected("sink")] == [["x", 1, 0, None]]
    kept = [row for key, rows in result.state("join").items() if key[1] == 0 for row in rows]
    assert kept == []


def test_a_row_that_does_not_say_a_time_fails_alone():
    """And is neither late nor emitted without a match."""
    config = {**CONFIG, "until": "t + 6 // a", "type": "left"}
    items = [("a", "x", 0, 5), ("a", "x", 2, 5), ("b", "x", 6, 5)]
    result = run(topology(IntervalJoin, [*items, PAUSE], config, max_replays=0))
    assert [row[:4] for row in result.collected("sink")] == [["x", 2, 5, 6]]
    [(_, reason)] = result.failed("source")
    assert "until 't + 6 // a': division by zero" in reason


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("expirse", "until 'expirse': there is no field 'expirse'"),
        ("b", "until 'b': there is no field 'b'"),
        ("a > 2", "must be a timestamp"),
    ],
)
def test_a_wrong_end_is_told_before_anything_runs(until, said):
    with pytest.raises(ValidationFailed) as wrong:
        run(topology(IntervalJoin, [], {**CONFIG, "until": until}))
    assert said in str(wrong.value)


def test_another_end_is_refused_while_rows_are_kept():
    before = run(topology(IntervalJoin, [("a", "x", 3, 0)], CONFIG), end_of_input=False)
    with pytest.raises((FulmenError, TopologyFailed), match="has rows that were kept with"):
        run(topology(IntervalJoin, [("a", "x", 1, 0)], INTERVAL), checkpoint=before)
