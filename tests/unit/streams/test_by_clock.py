"""Streams that are joined and grouped by when their rows come."""

from fulmen import Stream
from fulmen.streams import Streams, tumbling
from fulmen.testing import CollectBolt, Later, ListSpout, ManualClock
from support.windows.by_clock import START

ROWS = Stream(("user", "n"), types={"user": "string", "n": "int64"})


def sources():
    pipeline = Streams("clocks")
    names = "rows", "others"
    return pipeline, [pipeline.source(n, ListSpout((), streams={"default": ROWS})) for n in names]


def found(rows):
    return sorted(tuple(row.values()) for row in rows)


def test_streams_are_joined_by_when_their_rows_come():
    pipeline, (left, right) = sources()
    near = left.join(right, "user", within=("-5s", "5s"), by="clock", how="left")
    near.sink("near", CollectBolt)
    window = left.join(right, "user", window=tumbling("1m"), by="clock", name="of-window")
    window.select("n", "n_right").sink("together", CollectBolt)
    rows = [["a", 1], Later("30s"), ["a", 2], Later("1m"), ["a", 3]]
    others = [["a", 10]]
    outcome = pipeline.test(clock=ManualClock(start=START), rows=rows, others=others)
    assert found(outcome["near"]) == [("a", 1, 10), ("a", 2, None), ("a", 3, None)]
    assert found(outcome["together"]) == [(1, 10), (2, 10)]


def test_co_groups_by_the_clock_need_no_event_time():
    pipeline, (left, right) = sources()
    grouped = left.co_group(right, "user", window=tumbling("1m"), by="clock")
    grouped.sink("out", CollectBolt)
    rows, others = [["a", 1], Later("1m"), ["a", 2]], [["a", 3]]
    outcome = pipeline.test(clock=ManualClock(start=START), rows=rows, others=others)
    lists = [
        [[one["n"] for one in row[side]] for side in ("left", "right")] for row in outcome["out"]
    ]
    assert sorted(lists) == [[[1], [3]], [[2], []]]
