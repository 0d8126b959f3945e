"""A WindowedBolt on disk gives what one in memory gives: over restarts, crashes, other numbers."""

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows import WindowedBolt
from support.runs.engine_runs import new_store

START = datetime(2026, 1, 1, tzinfo=UTC)
CONFIGS = {
    "sliding": {"window": {"length": "40s", "slide": "20s"}, "timestampField": "at", "lag": "9s"},
    "last-by-time": {"window": {"length": 3, "slide": "20s"}, "timestampField": "at", "lag": "2m"},
    "counted": {"window": {"length": 4, "slide": 3}},
}
MEMORY, DISK = ["memory"] * 3, ["disk"] * 3


class Windows(WindowedBolt):
    """Emits what is in its windows, and notes how many keys it has at hand."""

    outputs = ("key", "all", "new", "expired", "end")
    transient = ("collector",)
    most = 0

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        lists = ([tup["n"] for tup in some] for some in (window.tuples, window.new, window.expired))
        self.collector.emit([list(window.key), *lists, window.end])
        Windows.most = max(Windows.most, len(self._windows._queues))


def windowed(name, rows, backend, tasks):
    builder = TopologyBuilder("windowed", max_spout_pending=25)
    source = builder.set_spout("source", ListSpout(rows, fields=["key", "n", "at"]))
    source.set_event_time("at", lag="5s")
    bolt = builder.set_bolt("bolt", Windows, tasks).set_keyed_state(backend)
    bolt.fields_grouping("source", ["key"]).set_config({"key": ["key"], **CONFIGS[name]})
    builder.set_bolt("all", CollectBolt).global_grouping("bolt")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


def collected(name, seed, backends, numbers=(2, 2, 2), crash=None, keys=7):
    rng, store, calls = random.Random(seed), new_store(), itertools.count()
    rows = [
        [f"k{rng.randrange(keys)}", n, START + timedelta(seconds=n - rng.choice([0, 0, 4, 60]))]
        for n in range(200)
    ]

    def fault(*_):
        if next(calls) == crash:
            raise Crash

    for i, (backend, tasks) in enumerate(zip(backends, numbers, strict=True), 1):
        topology = windowed(name, rows[: len(rows) * i // 3], backend, tasks)
        result = run(topology, checkpoint=store, end_of_input=i == 3, fault=fault)
    return sorted(result.collected("all"))


@pytest.mark.parametrize("name", CONFIGS)
def test_windows_are_those_in_memory(name):
    expected = collected(name, 1, MEMORY)
    assert len(expected) > 20
    assert collected(name, 1, DISK) == expected


@settings(max_examples=3, deadline=None)
@given(
    st.sampled_from([*CONFIGS]),
    st.integers(0, 99),
    st.integers(0, 40),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.lists(st.sampled_from(["disk", "memory"]), min_size=3, max_size=3),
)
@example("sliding", 2, 20, [2, 4, 1], DISK)
def test_results_are_the_same_on_disk_whatever_crashes_or_is_rescaled(
    name, seed, crash, numbers, backends
):
    assert collected(name, seed, backends, numbers, crash) == collected(name, seed, MEMORY)


def test_only_keys_of_a_batch_are_at_hand():
    Windows.most = 0
    assert collected("counted", 3, DISK, numbers=(1, 1, 1), keys=40)
    assert 0 < Windows.most <= 25
