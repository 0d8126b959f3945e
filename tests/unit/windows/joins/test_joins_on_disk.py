"""Joins on disk give what those in memory give: over restarts, crashes, other numbers of tasks."""

import functools
import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.engine.state.committed_state import read_state
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows import IntervalJoin, LookupJoin, TemporalJoin, WindowJoin
from support.runs.engine_runs import new_store

START = datetime(2026, 1, 1, tzinfo=UTC)
SIDES = {
    "key": ["k"],
    "left": {"from": "a", "fields": {"k": "k", "n": "n"}},
    "right": {"from": "b", "fields": {"m": "n"}},
}
JOINS = {
    "lookup": (LookupJoin, {"type": "left"}),
    "lookup-where": (LookupJoin, {"type": "anti", "where": "m > n"}),
    "lookup-held": (LookupJoin, {"type": "left", "waitFor": "2026-01-01T00:05:00Z"}),
    "temporal": (TemporalJoin, {"type": "left"}),
    "temporal-forgotten": (TemporalJoin, {"type": "left", "forgetAfter": "3m"}),
    "temporal-where": (TemporalJoin, {"type": "semi", "where": "m > n"}),
}
TUMBLING = {"window": {"type": "tumbling", "size": "20s"}}
SLIDING = {"window": {"type": "sliding", "size": "40s", "every": "20s"}}
NEAR = {"lower": "-5s", "upper": "10s"}
TIMED = {"k": "k", "n": "n", "t": "at"}
TWO_STREAMS = {
    "window": (WindowJoin, {**TUMBLING, "type": "full"}),
    "window-where": (WindowJoin, {**SLIDING, "type": "semi", "where": "m > n"}),
    "window-late": (WindowJoin, {**SLIDING, "type": "left", "allowedLateness": "15s"}),
    "sessions": (WindowJoin, {"window": {"type": "session", "gap": "4s"}, "type": "full"}),
    "interval": (IntervalJoin, {**NEAR, "type": "full"}),
    "interval-where": (IntervalJoin, {**NEAR, "type": "semi", "where": "m > n"}),
    "interval-late": (IntervalJoin, {**NEAR, "type": "anti", "allowedLateness": "15s"}),
    "interval-until": (
        IntervalJoin,
        {
            **NEAR,
            "type": "left",
            "left": {**SIDES["left"], "fields": TIMED},
            "until": "t + INTERVAL (n % 12) SECOND",
        },
    ),
}
"""Joins of two streams with times, each of which ends windows of the other."""
LAG = timedelta(seconds=20)
MEMORY, DISK = ["memory"] * 4, ["disk"] * 4


def joining(name, rows, backend, tasks):
    cls, config = {**JOINS, **TWO_STREAMS}[name]
    lag = "5m" if name in JOINS else f"{LAG.seconds}s"
    builder = TopologyBuilder("joins", max_spout_pending=30)
    for side in "ab":
        source = builder.set_spout(side, ListSpout(rows[side], fields=["k", "n", "at"]))
        source.set_event_time("at", lag=lag)
    bolt = builder.set_bolt("join", cls, tasks).set_config({**SIDES, **config})
    bolt.set_keyed_state(backend)
    for side in "ab":
        bolt.fields_grouping(side, ["k"])
    builder.set_bolt("all", CollectBolt).global_grouping("join")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


def some_rows(seed, count=60):
    """For each run, the rows of both sides up to it: one side at a time, so that it is exact."""
    rng = random.Random(seed)
    rows = {"a": [], "b": []}
    for i, side in enumerate("baba"):
        more = [
            one_row(rng, timedelta(seconds=100 * (i // 2) + n - rng.randrange(60)))
            for n in range(count)
        ]
        rows = {**rows, side: rows[side] + more}
        yield rows


def rows_in_time(seed, count=25):
    """For each run, the rows of both sides up to it: none is late."""
    rng = random.Random(seed)
    rows = {"a": [], "b": []}
    for i in range(4):
        for side in "ab":
            rows[side] += [
                one_row(rng, timedelta(seconds=count * i + n) - rng.random() * LAG)
                for n in range(count)
            ]
        yield rows


def one_row(rng, after):
    key = rng.choice([None, float("nan"), *(f"k{n}" for n in range(8))])
    return [key, rng.randrange(99), START + after]


def joined(name, seed, backends, numbers=(2, 2, 2, 2), crash=None):
    store, calls = new_store(), itertools.count()

    def fault(*_):
        if next(calls) == crash:
            raise Crash

    for i, rows in enumerate((some_rows if name in JOINS else rows_in_time)(seed)):
        topology = joining(name, rows, backends[i], numbers[i])
        result = run(topology, checkpoint=store, fault=fault, end_of_input=i == len(backends) - 1)
    if name in TWO_STREAMS:
        assert not any(read_state(store, "join").tasks.values()), "all windows have ended"
    return sorted(map(repr, result.collected("all")))


@functools.cache
def joined_in_memory(name, seed):
    return joined(name, seed, MEMORY)


@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize("name", [*JOINS, *TWO_STREAMS])
def test_what_is_joined_is_what_is_joined_in_memory(name):
    expected = joined_in_memory(name, 1)
    assert len(expected) > 20
    assert joined(name, 1, DISK) == expected


@settings(max_examples=3, deadline=None)
@given(
    st.sampled_from([*JOINS, *TWO_STREAMS]),
    st.integers(0, 99),
    st.integers(0, 60),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.lists(st.sampled_from(["disk", "memory"]), min_size=4, max_size=4),
)
@example("lookup-held", 2, 25, [2, 4, 1, 3], DISK)
@example("temporal", 3, 25, [2, 4, 1, 3], DISK)
@example("window", 1, 25, [2, 4, 1, 3], ["memory", "disk", "memory", "disk"])
@example("window-late", 1, 31, [1, 3, 2, 4], DISK)
@example("interval", 1, 25, [2, 4, 1, 3], ["memory", "disk", "memory", "disk"])
def test_results_are_the_same_on_disk_whatever_crashes_or_is_rescaled(
    name, seed, crash, numbers, backends
):
    assert joined(name, seed, backends, numbers, crash) == joined_in_memory(name, seed)


@pytest.mark.parametrize("backend", ["memory", "disk"])
def test_rows_that_came_before_forget_after_was_set_are_forgotten_too(backend):
    rows = {"a": [], "b": [[f"k{n}", n, START + timedelta(seconds=n)] for n in range(30)]}
    store = new_store()
    run(joining("temporal", rows, backend, 1), checkpoint=store, end_of_input=False)
    assert any(key[0] == "versions" for key in read_state(store, "join").tasks[0])
    later = [["k0", 1, START + timedelta(hours=1)]]
    rows = {side: rows[side] + later for side in "ab"}
    run(joining("temporal-forgotten", rows, backend, 1), checkpoint=store)
    assert not any(key[0] == "versions" for key in read_state(store, "join").tasks[0])
