"""Fixed windows on disk give what those in memory give: over restarts, crashes, other numbers."""

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.engine.state.committed_state import read_state
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows.aggregate.bolt import Aggregate
from fulmen.windows.aggregate.kinds.disk_windows import DiskWindows
from support.runs.engine_runs import new_store

START = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = ["key", "more", "n", "at"]
AGGREGATES = {"n": "count()", "total": "sum(n)", "all": "distinct(n)", "last": "last(n)"}
TUMBLING = {"type": "tumbling", "size": "1m"}
SLIDING = {"type": "sliding", "size": "1m", "every": "20s"}
CONFIGS = [
    pytest.param({"window": TUMBLING, "aggregates": {"n": "count()"}}, id="counts"),
    pytest.param({"window": TUMBLING, "aggregates": {"total": "sum(n)"}}, id="sums"),
    pytest.param({"window": SLIDING, "aggregates": AGGREGATES}, id="sliding"),
    pytest.param({"window": TUMBLING, "aggregates": AGGREGATES, "key": ["key", "more"]}, id="two"),
    pytest.param(
        {"window": SLIDING, "aggregates": AGGREGATES, "allowedLateness": "40s", "retract": True},
        id="retract",
    ),
    pytest.param(
        {
            "window": TUMBLING,
            "aggregates": AGGREGATES,
            "allowedLateness": "1m",
            "emit": "final",
        },
        id="final",
    ),
]


def rows_of(seed, count=400):
    """Rows of which some are late, and some too late."""
    rng = random.Random(seed)
    return [
        [
            f"k{rng.randrange(9)}",
            rng.randrange(2),
            rng.randrange(50),
            START + timedelta(seconds=i - rng.choice([0, 0, 0, 5, 30, 90])),
        ]
        for i in range(count)
    ]


def made(config, rows, backend, tasks=2):
    builder = TopologyBuilder("windows", max_spout_pending=40)
    source = builder.set_spout("source", ListSpout(rows, fields=FIELDS))
    source.set_event_time("at", lag="10s")
    bolt = builder.set_bolt("bolt", Aggregate, tasks)
    bolt.fields_grouping("source", config.get("key", ["key"])).set_keyed_state(backend)
    bolt.set_config({"key": ["key"], **config})
    all_of_it = builder.set_bolt("all", CollectBolt).global_grouping("bolt")
    all_of_it.global_grouping("bolt", "late")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


def collected(config, rows, backends, numbers=(2, 2, 2, 2), crash=None):
    """All results, with as many restarts as backends."""
    store, calls = new_store(), itertools.count()

    def fault(*_):
        if next(calls) == crash:
            raise Crash

    for i, (backend, tasks) in enumerate(zip(backends, numbers, strict=True), 1):
        some = rows[: len(rows) * i // len(backends)]
        is_last = i == len(backends)
        topology = made(config, some, backend, tasks)
        result = run(topology, checkpoint=store, end_of_input=is_last, fault=fault)
    assert not any(read_state(store, "bolt").tasks.values())  # all windows have ended
    return sorted(map(repr, result.collected("all")))


MEMORY, DISK = ["memory"] * 4, ["disk"] * 4


@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize("config", CONFIGS)
def test_results_are_those_of_windows_in_memory(config):
    rows = rows_of(1)
    expected = collected(config, rows, MEMORY)
    assert len(expected) > 50
    assert collected(config, rows, DISK) == expected


def test_the_backend_may_change_while_windows_are_open():
    config = CONFIGS[2].values[0]
    rows = rows_of(2)
    expected = collected(config, rows, MEMORY)
    assert collected(config, rows, ["memory", "disk", "memory", "disk"]) == expected


NUMBERS = st.lists(st.integers(1, 4), min_size=4, max_size=4)


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(CONFIGS), st.integers(0, 60), NUMBERS)
@example(3, CONFIGS[2], 30, [2, 5, 1, 3])
@example(4, CONFIGS[4], 12, [1, 4, 2, 2])
@example(5, CONFIGS[5], 50, [3, 1, 2, 4])
def test_results_are_the_same_on_disk_whatever_crashes_or_is_rescaled(seed, config, crash, numbers):
    [config] = config.values
    rows = rows_of(seed, 200)
    expected = collected(config, rows, MEMORY)
    assert collected(config, rows, DISK, numbers, crash) == expected


def test_only_what_a_batch_asks_for_is_in_memory(monkeypatch):
    most, end_batch = [], DiskWindows.end_batch

    def counted(windows):
        most.append(sum(map(len, windows._open.values())))
        end_batch(windows)
        assert not windows._open
        assert not windows._changed

    monkeypatch.setattr(DiskWindows, "end_batch", counted)
    day = {"window": {"type": "tumbling", "size": "1d"}, "aggregates": {"n": "sum(n)"}}
    rows = [[f"k{i}", 0, 1, START + timedelta(seconds=i)] for i in range(2000)]
    assert len(collected(day, rows, DISK)) == 2000
    assert 0 < max(most) < 1000


def test_a_late_row_of_a_key_that_is_there_goes_through_no_window(monkeypatch):
    through, of_span = [], DiskWindows._of_span

    def counted(windows, span, **how):
        through.append(span[0])
        return of_span(windows, span, **how)

    monkeypatch.setattr(DiskWindows, "_of_span", counted)
    late = {"window": TUMBLING, "aggregates": {"n": "count()"}, "allowedLateness": "1d"}
    seconds = [0, 600, *[1] * 120, 1000]
    rows = [["k", 0, 1, START + timedelta(seconds=at)] for at in seconds]
    assert sum("late" in row for row in collected(late, rows, ["disk"], [2])) > 20
    first = min(through)
    assert through.count(first) == 2  # at its end, and when nothing can come any more


def test_windows_with_other_aggregates_are_refused():
    store = new_store()
    day = {"window": {"type": "tumbling", "size": "1d"}}
    before = made({**day, "aggregates": {"n": "count()"}}, rows_of(1), "disk")
    run(before, checkpoint=store, end_of_input=False)
    with pytest.raises(TopologyFailed, match="the checkpoint has open windows"):
        run(made({**day, "aggregates": AGGREGATES}, rows_of(1), "disk"), checkpoint=store)
