"""Windows of many keys end in pages, which several batches bring: nothing of them is another."""

import functools
import itertools
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.state.committed_state import read_state
from fulmen.engine.tasks.parts import timers
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import CollectBolt, ListSpout, ManualClock, run
from fulmen.windows import Aggregate, WindowedBolt, WindowJoin
from support.runs.engine_runs import new_store

START = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = ["key", "n", "at"]
TUMBLING = {"window": {"type": "tumbling", "size": "1m"}}
SESSIONS = {"window": {"type": "session", "gap": "20s"}}
COUNTS = {"key": ["key"], "aggregates": {"n": "count()", "all": "distinct(n)"}}
SIDES = {
    "key": ["key"],
    "left": {"from": "a", "fields": {"key": "key", "n": "n", "at": "at"}},
    "right": {"from": "b", "fields": {"m": "n"}},
    "type": "full",
}


class Sums(WindowedBolt):
    """The numbers of each window."""

    outputs = ("key", "all", "at")
    transient = ("collector",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        self.collector.emit([window.key[0], [tup["n"] for tup in window.tuples], window.end])


class Reminders(BasicBolt):
    """Emits the numbers of a key a minute after its first one."""

    outputs = ("key", "all", "at")

    def execute(self, tup, collector):
        at = int(tup["at"].timestamp() * 1000) // 60_000 * 60_000 + 60_000
        key = tup["key"], at
        if self.context.batch.watermark is None or self.context.batch.watermark < at:
            self.state[key] = [*self.state.get(key, ()), tup["n"]]
            self.context.timers.set(key, at)

    def prepare(self, conf, context):
        self.context = context

    transient = ("context",)

    def on_timer(self, key, at, collector):
        collector.emit([key[0], self.state.pop(key), at])


BOLTS = {
    "tumbling": (Aggregate, {**COUNTS, **TUMBLING}, "window_end"),
    "late": (Aggregate, {**COUNTS, **TUMBLING, "allowedLateness": "90s"}, "window_end"),
    "sessions": (Aggregate, {**COUNTS, **SESSIONS}, "window_end"),
    "tuples": (
        Sums,
        {"key": ["key"], "window": {"length": "1m", "slide": "1m"}, "timestampField": "at"},
        "at",
    ),
    "author": (Reminders, None, "at"),
    "window-join": (WindowJoin, {**SIDES, **TUMBLING}, "window_end"),
    "join-of-sessions": (WindowJoin, {**SIDES, **SESSIONS}, "window_end"),
}


def made(name, rows, backend, tasks):
    """What one bolt emits is counted in windows by the next, for which nothing may be late."""
    cls, config, time = BOLTS[name]
    builder = TopologyBuilder("pages", max_spout_pending=60)
    sources = "ab" if cls is WindowJoin else "a"
    for side in sources:
        source = builder.set_spout(side, ListSpout(rows[side], fields=FIELDS))
        source.set_event_time("at", lag="9s")
    bolt = builder.set_bolt("bolt", cls, tasks)
    bolt.set_keyed_state(backend)
    if config is not None:
        bolt.set_config(config)
    behind = builder.set_bolt("behind", Aggregate, 2).fields_grouping("bolt", ["key"])
    window = {"type": "tumbling", "size": "2m"}
    counts = {"aggregates": {"n": "count()"}, "time": time}
    behind.set_config({"key": ["key"], "window": window, **counts})
    builder.set_bolt("results", CollectBolt).global_grouping("bolt")
    for side in sources:
        bolt.fields_grouping(side, ["key"])
    builder.set_bolt("counts", CollectBolt).global_grouping("behind")
    builder.set_bolt("late", CollectBolt).global_grouping("behind", "late")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


def rows_of(seed, count):
    rng = random.Random(seed)
    return {
        side: [
            [f"k{rng.randrange(60)}", n, START + timedelta(seconds=n - rng.random() * 9)]
            for n in range(count)
        ]
        for side in "ab"
    }


def brought(name, backends, numbers=(2, 2), *, seed=1, crash=None, page=7, stop=None):
    """All that comes of it, in two runs. The first one stops after so many batches."""
    store, calls, rows = new_store(), itertools.count(), rows_of(seed, 300)

    def fault(*_):
        if next(calls) == crash:
            raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timers, "PAGE", page)
        patch.setattr(timers, "PAGE_ON_DISK", page)
        for backend, tasks, how in zip(
            backends, numbers, ({"batches": stop}, {"end_of_input": True}), strict=True
        ):
            topology = made(name, rows, backend, tasks)
            result = run(topology, checkpoint=store, fault=fault, **how)
    assert result.errors == []
    assert result.collected("late") == []
    assert not any(read_state(store, "bolt").tasks.values()), "all windows have ended"
    return [sorted(map(repr, result.collected(name))) for name in ("results", "counts")]


@functools.cache
def at_once(name, seed=1):
    found = brought(name, ["memory"] * 2, seed=seed, page=10**6, stop=3)
    assert min(map(len, found)) > 40
    return found


@pytest.mark.parametrize("backend", ["memory", "disk"])
@pytest.mark.parametrize("name", BOLTS)
def test_windows_in_pages_are_those_that_one_batch_brings(name, backend):
    assert brought(name, [backend] * 2, stop=3) == at_once(name)


BACKENDS = st.tuples(*[st.sampled_from(["memory", "disk"])] * 2)


@settings(max_examples=2, deadline=None)
@given(
    st.sampled_from([*BOLTS]),
    BACKENDS,
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 60),
    st.integers(4, 12),
    st.integers(1, 12),
)
@example("window-join", ("memory", "memory"), (2, 3), 21, 6, 7)  # both amid a window's pages
@example("window-join", ("memory", "disk"), (2, 2), 99, 6, 3)
@example("late", ("disk", "memory"), (2, 1), 27, 8, 7)
@example("tumbling", ("disk", "disk"), (3, 3), 24, 7, 4)
def test_nothing_comes_twice_or_is_missing_where_pages_are_interrupted(
    name, backends, numbers, crash, stop, page
):
    """By a crash, and by a stop after which there are other tasks, on disk or in memory."""
    found = brought(name, backends, numbers, crash=crash, stop=stop, page=page)
    assert found == at_once(name)


class Batches(BasicBolt):
    """Says in which batch each tuple has come."""

    outputs = ("batch",)

    def prepare(self, conf, context):
        self.context = context

    transient = ("context",)

    def execute(self, tup, collector):
        collector.emit([self.context.batch.number])


CLOCK = {**COUNTS, "window": {"type": "tumbling", "size": "10m"}, "by": "clock"}


@pytest.mark.parametrize(
    ("cls", "config", "how"),
    [
        (Aggregate, {**COUNTS, **TUMBLING}, {}),
        (Aggregate, {**COUNTS, **SESSIONS}, {}),
        (Reminders, None, {}),
        (Aggregate, CLOCK, {}),
        (Aggregate, CLOCK, {"batches": 30, "batch_seconds": 120}),
    ],
    ids=["tumbling", "sessions", "author", "clock-end", "clock"],
)
def test_no_batch_brings_more_than_a_page(cls, config, how):
    """Also when the input ends, and by the clock."""
    builder = TopologyBuilder("pages")
    source = builder.set_spout("a", ListSpout(rows_of(1, 300)["a"], fields=FIELDS))
    source.set_event_time("at", lag="1h")
    bolt = builder.set_bolt("bolt", cls).fields_grouping("a", ["key"])
    if config is not None:
        bolt.set_config(config)
    builder.set_bolt("batches", Batches).shuffle_grouping("bolt")
    builder.set_bolt("found", CollectBolt).shuffle_grouping("batches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timers, "PAGE", 7)
        clock = ManualClock(start=START)
        result = run(builder, end_of_input=True, clock=clock, **how)
    per_batch = Counter(number for [number] in result.collected("found"))
    assert len(per_batch) > 5
    assert max(per_batch.values()) <= 7
