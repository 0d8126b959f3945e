"""Windows and joins behind windows: the time of a result is the last millisecond of its window."""

import pyarrow as pa
import pytest

from fulmen import TopologyBuilder
from fulmen.api.times.event_time import TimeReader
from fulmen.errors import ValidationFailed
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows import Aggregate, WindowJoin
from fulmen.windows.columns import times_in
from fulmen.windows.inputs import LastMoments
from support.windows.aggregates import plain

MINUTE = 60_000
TIMES = [MINUTE * at for at in (0, 1, 3, 4, 5, 9)]


def behind(time, cls=Aggregate, users=("a",), **more):
    """Windows of ten minutes, or a join in these, behind windows of five minutes."""
    b = TopologyBuilder()
    events = [[user, at] for at in TIMES for user in users]
    b.set_spout("clicks", ListSpout(events, fields=["user", "at"])).set_event_time("at", unit="ms")
    counts = {"key": ["user"], "aggregates": {"n": "count"}}
    window = {"type": "tumbling", "size": "5m"}
    five = b.set_bolt("five", Aggregate).set_config({**counts, "window": window})
    five.fields_grouping("clicks", ["user"])
    window = {"type": "tumbling", "size": "10m"}
    ten = b.set_bolt("ten", cls)
    if cls is WindowJoin:
        sides = {"left": {"from": "five", "time": time, "fields": ["n"]}}
        sides["right"] = {"from": "clicks", "fields": ["at"]}
        ten.set_config({"key": ["user"], "window": window, **sides, **more})
        ten.fields_grouping("clicks", ["user"])
    else:
        sums = {"key": ["user"], "aggregates": {"n": "sum(n)"}}
        ten.set_config({**sums, "time": time, "window": window, **more})
    ten.fields_grouping("five", ["user"])
    b.set_bolt("seen", CollectBolt).global_grouping("ten")
    b.set_bolt("late", CollectBolt).global_grouping("ten", "late")
    result = run(b)
    assert (result.errors, result.collected("late")) == ([], [])
    return sorted(tuple(map(plain, row)) for row in result.collected("seen"))


@pytest.mark.parametrize("partial", [True, False])
def test_a_window_is_in_the_one_that_it_is_a_part_of(partial):
    users = ("a", "b")
    assert behind("window_last", users=users, partial=partial) == [
        (user, 0, 10 * MINUTE, 6) for user in users
    ]
    assert behind("window_end", users=users, partial=partial) == [
        row
        for user in users
        for row in ((user, 0, 10 * MINUTE, 4), (user, 10 * MINUTE, 20 * MINUTE, 2))
    ]


def test_what_is_counted_in_the_batch_that_ends_its_window_is_emitted():
    assert behind("window_last", aggregates={"n": "count"}) == [("a", 0, 10 * MINUTE, 2)]


def test_a_join_has_it_with_what_else_is_of_that_time():
    rows = behind("window_last", WindowJoin)
    assert {row[2:] for row in rows} == {(0, 10 * MINUTE)}
    assert len(rows) == 2 * len(TIMES)


def test_it_needs_an_input_that_has_windows():
    b = TopologyBuilder()
    b.set_spout("clicks", ListSpout([["a", 1]], fields=["user", "at"]))
    ten = b.set_bolt("ten", Aggregate).fields_grouping("clicks", ["user"])
    window = {"type": "tumbling", "size": "10m"}
    ten.set_config(
        {"key": ["user"], "time": "window_last", "window": window, "aggregates": {"n": "count"}}
    )
    with pytest.raises(ValidationFailed, match="time: its input has no field 'window_end'"):
        run(b)


def test_whole_columns_are_read_as_single_values_are():
    reader = LastMoments(TimeReader("ms"))
    times, usable = times_in(pa.array([5000, None, 0]), reader)
    assert (times[usable].tolist(), usable.tolist()) == ([4999, -1], [True, False, True])
    assert reader.read(5000) == 4999
