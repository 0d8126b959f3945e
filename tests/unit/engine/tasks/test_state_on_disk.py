"""Bolts whose state is on disk do what they do in memory, and say what goes wrong with the disk."""

import pickle
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from fulmen import BasicBolt, TopologyBuilder, own_files
from fulmen.engine.driver.driver import Stop
from fulmen.engine.keyed.stores import local_store
from fulmen.engine.keyed.stores.local_store import LocalStore
from fulmen.engine.protocol.figures.statistics import STATE_KEYS
from fulmen.kube import contract
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import ABORT, EOF, PAUSE, CollectBolt, ListSpout, run
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from fulmen.windows import Aggregate, Deduplicate, WindowedBolt
from support.metrics.scrapes import Scrape
from support.runs.engine_runs import make_driver, new_store
from support.stores.small_disks import fill, small_disk

ROWS = [[f"k{i % 7}", i * 1000, i] for i in range(60)]
ITEMS = [*ROWS[:9], ABORT, *ROWS[9:20], PAUSE, *ROWS[20:33], EOF, *ROWS[33:40], ABORT, *ROWS[40:]]
TIME = {"time": "at", "unit": "ms"}
COUNTED = {"key": ["key"], "aggregates": {"n": "count"}}


class Totals(BasicBolt):
    """Keeps lists, forgets some keys, and goes through all of them."""

    outputs = ("key", "total", "keys")
    state_ttl = "1h"

    def execute(self, tup, collector):
        key, _, n = tup.values
        if n % 11 == 10:
            self.state.pop(key, None)
        else:
            self.state[key] = [*self.state.get(key, ()), n]
        total = sum(sum(numbers) for _, numbers in self.state.items())
        collector.emit([key, total, len(self.state)])


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(own_files.STATE_FOLDER, str(tmp_path))


def builder_of(cls, config, backend, items=ITEMS):
    builder = TopologyBuilder(name="kept")
    source = builder.set_spout("source", ListSpout(items, fields=["key", "at", "n"]))
    source.set_event_time("at", lag="2s", unit="ms")
    bolt = builder.set_bolt("keeps", cls, 2).set_config(config)
    bolt.fields_grouping("source", ["key"]).set_keyed_state(backend)
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("keeps")
    return builder


BOLTS = [
    pytest.param(Totals, {}, id="authors-own"),
    pytest.param(
        Deduplicate,
        {"id": ["key"], "horizon": "10s", "fields": ["key", "n"], **TIME},
        id="deduplicate",
    ),
    pytest.param(
        Aggregate, {**COUNTED, "window": {"type": "count", "size": 4}}, id="counted-windows"
    ),
    pytest.param(
        Aggregate, {**COUNTED, "window": {"type": "session", "gap": "6s"}, **TIME}, id="sessions"
    ),
    pytest.param(
        Aggregate,
        {**COUNTED, "window": {"type": "sliding", "size": "6s", "every": "2s"}, **TIME},
        id="sliding",
    ),
]


@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize(("cls", "config"), BOLTS)
def test_the_results_are_those_of_memory_whatever_dies_and_wherever_it_was_before(cls, config):
    def lived(*backends):
        first, second = (builder_of(cls, config, backend) for backend in backends)
        result = run(second, checkpoint=run(first, end_of_input=False))
        return sorted(map(tuple, result.collected("sink"))), result.state("keeps")

    in_memory = lived("memory", "memory")
    assert in_memory[0]
    for backends in (("disk", "disk"), ("memory", "disk"), ("disk", "memory")):
        assert lived(*backends) == in_memory


class Counts(BasicBolt):
    """Keeps a number for each key."""

    def execute(self, tup, collector):
        self.state[tup["key"]] = self.state.get(tup["key"], 0) + 1


@pytest.mark.parametrize("backends", [["disk"] * 3, ["memory", "disk", "memory"]])
def test_keys_move_to_other_tasks(backends):
    items = [[f"k{i % 50}", i, i] for i in range(200)]
    result = None
    for tasks, backend in zip((2, 3, 2), backends, strict=True):
        builder = TopologyBuilder(name="moves")
        builder.set_spout("source", ListSpout([*items, EOF] * 3, fields=["key", "at", "n"]))
        bolt = builder.set_bolt("keeps", Counts, tasks).set_keyed_state(backend)
        bolt.fields_grouping("source", ["key"])
        result = run(builder, checkpoint=result)
    assert result.state("keeps") == {f"k{i}": 12 for i in range(50)}


def test_what_a_chunk_asks_for_is_read_at_once(monkeypatch):
    keys, asked, get_one = [[f"k{i}"] for i in range(50)], [], LocalStore.get_one

    def counted(before=None):
        builder = TopologyBuilder(name="counted")
        builder.set_spout("source", ListSpout([*keys, EOF, *keys, *keys, EOF], fields=["key"]))
        bolt = builder.set_bolt("keeps", Counts).set_keyed_state("disk")
        bolt.fields_grouping("source", ["key"])
        return run(builder, checkpoint=before)

    before = counted()

    def get(store, key):
        asked.append(key)
        return get_one(store, key)

    monkeypatch.setattr(LocalStore, "get_one", get)
    assert counted(before).state("keeps") == {key: 3 for [key] in keys}
    assert not [key for key in asked if key.startswith(b"sk")]


def test_a_full_disk_is_an_outage_and_no_result_is_wrong(monkeypatch):
    asked = []

    def usage(folder):
        asked.append(folder)
        free = 0 if len(asked) in (2, 3, 4) else 1 << 40
        return type("Usage", (), {"free": free})

    monkeypatch.setattr(local_store.shutil, "disk_usage", usage)
    result = run(builder_of(Totals, {}, "disk"))
    assert result.state("keeps") == run(builder_of(Totals, {}, "memory")).state("keeps")
    told = {error.message for error in result.errors}
    assert any("no space left: 0 MB are free, and 128 MB have to be" in one for one in told)
    assert {error.service for error in result.errors} >= {told_service(asked[1])}


class KeepsPages(BasicBolt):
    """Keeps more for each key than what is left of the last block of a file."""

    outputs = ("key", "n")

    def execute(self, tup, collector):
        key, _, n = tup.values
        self.state[key] = [*self.state.get(key, ("x" * 10_000,)), n]
        collector.emit([key, n])


def test_a_disk_that_is_really_full_and_then_is_not_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(local_store, "FREE_BYTES", 0)
    with small_disk(tmp_path / "disk") as disk:
        monkeypatch.setenv(own_files.STATE_FOLDER, str(disk))
        filled, batches = [], count()

        def fault(stage, partition, moment):
            if moment != "before" or stage:
                return
            batch = next(batches)
            if batch == 2:
                filled.append(fill(disk))
            elif batch == 6:
                filled[0].unlink()

        result = run(builder_of(KeepsPages, {}, "disk"), fault=fault)
    expected = run(builder_of(KeepsPages, {}, "memory"))
    assert result.state("keeps") == expected.state("keeps")
    assert sorted(result.collected("sink")) == sorted(expected.collected("sink"))
    assert any("No space left on device" in error.message for error in result.errors)


def told_service(folder):
    return f"the disk for state at {Path(folder).parent}"


class Longest(WindowedBolt):
    """Knows the tuples of the last five."""

    outputs = ("longest",)

    def __init__(self):
        self.with_window(5)

    def execute(self, window):
        self.collector.emit([max(tup["n"] for tup in window.get())])


def test_what_goes_through_all_of_its_state_is_refused():
    builder = builder_of(Longest, {}, "disk")
    [problem] = [
        one for one in check(to_document(builder.build())).problems if "disk" in one.message
    ]
    assert problem.path == "spec.bolts[0].keyedState"
    assert problem.message == (
        "bolt 'keeps': its state can't be on disk: without `key`, a window is of all tuples of its"
        " task, which would be read anew in each batch. Give it a `key`, or have an Aggregate keep"
        " numbers instead of tuples"
    )
    assert problem.cure == "Write keyedState: {backend: memory} for it."


def test_the_pods_volume_is_where_workers_look():
    assert own_files.STATE_FOLDER == contract.STATE_FOLDER_ENV


class Fills(BasicBolt):
    """Keeps something large for each key, and lets go of all at the number 0."""

    outputs = ("nothing",)

    def execute(self, tup, collector):
        key, _, n = tup.values
        if n == 0:
            self.state.clear()
        else:
            self.state[key] = [n] * 30_000


@pytest.mark.parametrize("backend", ["memory", "disk"])
def test_figures_say_how_large_the_state_is(backend):
    def sizes(driver, component):
        scrape = Scrape.of(driver.totals)
        names = ("state_keys", "state_bytes")
        told = tuple(scrape.value(f"fulmen_{name}", component=component) for name in names)
        json = TopologyJson(now := Snapshot.of(driver.totals), now, []).json()
        (shown,) = (one for one in json["components"] if one["name"] == component)
        assert told == tuple(shown[name] for name in names)
        return told

    store, kept = new_store(), [["a", 0, 1], ["b", 0, 2], ["c", 0, 3]]
    with closing(make_driver(builder_of(Fills, {}, backend, kept), store=store).start()) as driver:
        driver.run(Stop(when_drained=True))
        number, size = sizes(driver, "keeps")
        wanted = 3 * len(pickle.dumps([1] * 30_000))
        assert number == 3
        assert wanted < size < wanted + 1000
        assert sizes(driver, "sink") == (0, 0)
        (sink,) = driver.placed.plan.tasks("sink")
        assert (STATE_KEYS, sink) not in driver.totals.levels
    all_gone = [*kept, ["a", 0, 0], ["b", 0, 0], ["c", 0, 0]]
    again = make_driver(builder_of(Fills, {}, backend, all_gone), store=store)
    with closing(again.start()) as driver:
        driver.run(Stop(when_drained=True))
        number, size = sizes(driver, "keeps")
        assert number == 0
        assert size < 1000
