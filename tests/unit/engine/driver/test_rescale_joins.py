"""Rows that wait in joins, and windows of tuples, move with their keys, as if they had not."""

from datetime import UTC, datetime, timedelta

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import read_newest
from fulmen.errors import CheckpointMismatch
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows import (
    IntervalJoin,
    LookupJoin,
    RegularJoin,
    TableJoin,
    TemporalJoin,
    WindowedBolt,
    WindowJoin,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
LEFT, RIGHT = ["key", "more", "n", "at"], ["key", "more", "m", "at"]
SIDES = {
    "left": {"from": "a", "fields": ["key", "more", "n"]},
    "right": {"from": "b", "fields": ["m"]},
}
JOINS = {
    "fixed windows": (WindowJoin, {"window": {"type": "tumbling", "size": "20s"}, "type": "full"}),
    "windows that take what is late": (
        WindowJoin,
        {
            "window": {"type": "sliding", "size": "20s", "every": "10s"},
            "allowedLateness": "15s",
            "type": "left",
        },
    ),
    "sessions": (WindowJoin, {"window": {"type": "session", "gap": "3s"}, "type": "full"}),
    "intervals": (IntervalJoin, {"lower": "-8s", "upper": "8s", "type": "full"}),
    "intervals that take what is late": (
        IntervalJoin,
        {"lower": "-8s", "upper": "2s", "type": "left", "allowedLateness": "9s"},
    ),
    "versions": (TemporalJoin, {"type": "left", "allowedLateness": "5s"}),
    "changes": (RegularJoin, {"type": "full"}),
    "a table": (TableJoin, {"type": "full"}),
    "a lookup that waits": (LookupJoin, {"type": "left", "waitFor": "2026-01-01T00:01:30Z"}),
}


def joining(name, rows, key, grouped_by, tasks):
    cls, config = JOINS[name]
    builder = TopologyBuilder()
    for side, fields in (("a", LEFT), ("b", RIGHT)):
        spout = builder.set_spout(side, ListSpout(rows[side], fields=fields))
        if cls is not TableJoin:
            spout.set_event_time("at", lag="5s")
    bolt = builder.set_bolt("join", cls, tasks)
    for side in "ab":
        bolt.fields_grouping(side, grouped_by)
    bolt.set_config({"key": key, **SIDES, **config})
    builder.set_bolt("all", CollectBolt).global_grouping("join")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


def some_rows(number):
    """Rows of both sides, some of them late by a few seconds."""
    keys = [
        [f"k{i % 5}", i % 3, i, START + timedelta(seconds=i - i % 4 * 3)] for i in range(number)
    ]
    return {"a": keys, "b": [[k, more, -n, at] for k, more, n, at in keys if n % 7 != 3]}


def joined(name, key, grouped_by, tasks, rows):
    """What is emitted, if the number of tasks is another one for each part of the rows."""
    result, total = None, len(rows["a"])
    for i, number in enumerate(tasks, 1):
        there = {side: some[: total * i // len(tasks)] for side, some in rows.items()}
        topology = joining(name, there, key, grouped_by, number)
        result = run(topology, checkpoint=result, end_of_input=i == len(tasks))
        assert result.errors == []
    return sorted(map(repr, result.collected("all")))


CASES = [
    *(pytest.param(name, ["key", "more"], ["more", "key"], id=name) for name in JOINS),
    pytest.param("fixed windows", ["key"], ["key"], id="one field"),
    pytest.param("intervals", ["key", "more"], ["more"], id="grouped by a part of the key"),
]


@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize(("name", "key", "grouped_by"), CASES)
def test_pairs_are_as_if_the_number_had_never_changed(name, key, grouped_by):
    rows = some_rows(120)
    steady = joined(name, key, grouped_by, [2, 2, 2], rows)
    assert len(steady) > 100
    assert joined(name, key, grouped_by, [2, 5, 3], rows) == steady


class Sums(WindowedBolt):
    """Tells what is in each window of a key."""

    outputs = ("key", "sum")

    def prepare(self, conf, context, collector):
        self.collector = collector

    transient = ("collector",)

    def execute(self, window):
        self.collector.emit([window.key, [tup["n"] for tup in window.tuples]])


def windowed(config, rows, tasks, *, is_global=False):
    builder = TopologyBuilder()
    builder.set_spout("a", ListSpout(rows["a"], fields=LEFT)).set_event_time("at", lag="5s")
    bolt = builder.set_bolt("windows", Sums, tasks).set_config(config)
    if is_global:
        bolt.global_grouping("a")
    else:
        bolt.fields_grouping("a", ["more", "key"])
    builder.set_bolt("all", CollectBolt).global_grouping("windows")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(
            {"window": {"length": "20s", "slide": "10s"}, "timestampField": "at"}, id="time"
        ),
        pytest.param({"window": {"length": 5, "slide": 2}}, id="count"),
    ],
)
def test_windows_of_tuples_are_as_if_the_number_had_never_changed(config):
    def emitted(tasks):
        result, rows = None, some_rows(120)
        for i, number in enumerate(tasks, 1):
            there = {"a": rows["a"][: 120 * i // len(tasks)]}
            topology = windowed({"key": ["key", "more"], **config}, there, number)
            result = run(topology, checkpoint=result, end_of_input=i == len(tasks))
        return sorted(map(repr, result.collected("all")))

    steady = emitted([2, 2, 2])
    assert len(steady) > 50
    assert emitted([2, 5, 3]) == steady


def test_windows_of_all_tuples_go_on_in_the_first_task():
    rows, config = some_rows(40), {"window": {"length": 7, "slide": 3}}

    def emitted(numbers):
        result = None
        for number, end in zip(numbers, (20, 40), strict=True):
            topology = windowed(config, {"a": rows["a"][:end]}, number, is_global=True)
            result = run(topology, checkpoint=result)
        return result.collected("all")

    assert len(emitted([1, 1])) > 8
    assert emitted([1, 3]) == emitted([3, 2]) == emitted([1, 1])


def test_windows_of_all_tuples_of_a_task_stay_with_it():
    rows, config = some_rows(20), {"window": {"length": 5, "slide": 2}}
    result = run(windowed(config, rows, 2), end_of_input=False)
    before = read_newest(result.checkpoint).tasks
    with pytest.raises(CheckpointMismatch, match="2 tasks: a window without `key` is of all"):
        run(windowed(config, rows, 3), checkpoint=result)
    assert read_newest(result.checkpoint).tasks == before
