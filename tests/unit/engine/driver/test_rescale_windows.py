"""Open windows move with their keys when the number of tasks changes."""

from datetime import UTC, datetime, timedelta

import pytest

from fulmen import TopologyBuilder
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows.aggregate.bolt import Aggregate
from fulmen.windows.deduplicate import Deduplicate

START = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = ["key", "more", "at"]
ROWS = [[f"k{i % 7}", i % 3, START + timedelta(seconds=i)] for i in range(300)]
WINDOWS = [
    pytest.param({"type": "tumbling", "size": "1m"}, id="tumbling"),
    pytest.param({"type": "sliding", "size": "1m", "every": "20s"}, id="sliding"),
    pytest.param({"type": "session", "gap": "3s"}, id="session"),
    pytest.param({"type": "count", "size": 4}, id="count"),
]


def made(cls, config, key, rows, tasks):
    builder = TopologyBuilder()
    source = builder.set_spout("source", ListSpout(rows, fields=FIELDS))
    source.set_event_time("at")
    bolt = builder.set_bolt("bolt", cls, tasks).fields_grouping("source", key)
    bolt.set_config(config)
    builder.set_bolt("all", CollectBolt).global_grouping("bolt")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


def collected(cls, config, key, numbers):
    result = None
    for i, tasks in enumerate(numbers, 1):
        rows = ROWS[: len(ROWS) * i // len(numbers)]
        is_last = i == len(numbers)
        topology = made(cls, config, key, rows, tasks)
        result = run(topology, checkpoint=result, end_of_input=is_last)
    return sorted(map(repr, result.collected("all")))


@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize("key", [["key"], ["key", "more"]], ids=["one field", "two fields"])
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_are_as_if_the_number_had_never_changed(window, key):
    config = {"key": key, "window": window, "aggregates": {"n": "count()"}}
    steady = collected(Aggregate, config, key, [2, 2, 2, 2])
    assert steady
    assert collected(Aggregate, config, key, [2, 5, 1, 3]) == steady


@pytest.mark.parametrize("key", [["key"], ["key", "more"]], ids=["one field", "two fields"])
def test_duplicates_are_known_by_the_task_that_gets_them(key):
    config = {"id": key, "time": "at", "horizon": "1h", "fields": key}
    steady = collected(Deduplicate, config, key, [2, 2, 2, 2])
    assert len(steady) == (7 if len(key) == 1 else 21)
    assert collected(Deduplicate, config, key, [1, 4, 2, 3]) == steady
