"""The figures by task, by worker, by stage and by error that the page shows."""

import os
from collections import Counter
from dataclasses import replace

import pytest

from fulmen import Bolt, TopologyBuilder
from fulmen.engine.protocol.callbacks.processes import Process, this_process
from fulmen.engine.protocol.figures.statistics import BATCHES
from fulmen.engine.protocol.placed_topology import CurrentTopology
from fulmen.engine.totals.counted import StageSeconds
from fulmen.metrics.as_json import errors as errors_as_json
from fulmen.metrics.as_json import recent_tasks
from fulmen.metrics.as_json import topology as as_json
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import CollectBolt, ListSpout, ManualClock
from support.metrics.page_data import topology_json as fake_json
from support.runs.engine_runs import make_driver
from support.runs.metered import run_metered
from support.runs.waiting import run_waiting

WORDS = ["cow"] * 60 + ["moon"] * 30 + ["sun"] * 10


@pytest.fixture(scope="module")
def totals():
    """Of a run in which most tuples have the same key."""
    builder = TopologyBuilder(name="uneven", workers=2)
    builder.set_spout("words", ListSpout(WORDS, fields=["word"]), 2)
    builder.set_bolt("count", CollectBolt, 4).fields_grouping("words", ["word"])
    driver = make_driver(builder, seconds=0.5).start()
    for _ in range(20):
        driver.step()
    driver.close()
    return driver.totals


def shown(totals, **options):
    now = Snapshot.of(totals)
    return TopologyJson(now, replace(now, **options.pop("before", {})), [], **options).json()


def batches(n):
    return Counter({("", BATCHES, ""): n})


def as_it_began(totals):
    """A snapshot's parts before anything was counted."""
    return {
        "tasks": totals.tasks * 0,
        "stages": {},
        "counts": Counter(),
        "moment": totals.started,
    }


def test_what_an_input_leaves_out_is_counted_there_and_what_fails_is_not():
    builder = TopologyBuilder(name="left", workers=2)
    builder.set_spout("words", ListSpout([*WORDS, "x", 1], fields=["word"], replays=False))
    some = builder.set_bolt("some", CollectBolt).shuffle_grouping("words")
    some.where("upper(word) <> 'COW'").select({"half": "unnest(string_split('a,b', ','))"})
    builder.set_bolt("all", CollectBolt).shuffle_grouping("words")
    driver = make_driver(builder, seconds=0.5).start()
    for _ in range(20):
        driver.step()
    driver.close()
    found = {one["name"]: one for one in shown(driver.totals)["components"]}
    assert found["some"]["left_out"] == found["some"]["inputs"][0]["left_out"] == 60
    assert found["some"]["executed"] == 2 * 41
    assert found["all"]["left_out"] == 0
    assert found["all"]["executed"] == 102


def test_tasks_add_up_to_their_component(totals):
    for name in ("words", "count", "__acker"):
        tasks = shown(totals, tasks_of=name)["tasks"]
        component = totals.component(name)
        assert [t["task"] for t in tasks] == list(totals.placed.plan.tasks(name))
        assert sum(t["executed"] for t in tasks) == component["executed"]
        assert sum(t["emitted"] for t in tasks) == component["emitted"]
        assert sum(t["share"] for t in tasks) == pytest.approx(1, abs=0.001)


def test_the_task_of_a_frequent_key_has_the_largest_share(totals):
    json = shown(totals, tasks_of="count")
    share = {t["task"]: t["share"] for t in json["tasks"]}
    executed = {t["task"]: t["executed"] for t in json["tasks"]}
    busiest = max(share, key=share.get)
    assert executed[busiest] >= 60
    assert share[busiest] == executed[busiest] / len(WORDS)
    (component,) = (c for c in json["components"] if c["name"] == "count")
    assert component["busiest_task"] == {"task": busiest, "share": share[busiest]}


def test_rates_of_tasks_are_of_the_last_seconds(totals):
    early = as_it_began(totals)
    json = shown(totals, tasks_of="count", before=early)
    seconds = Snapshot.of(totals).uptime
    for task in json["tasks"]:
        assert task["executed_per_second"] == pytest.approx(task["executed"] / seconds, abs=0.01)
        assert 0 <= task["busy"] <= 1
    assert {t["executed_per_second"] for t in shown(totals, tasks_of="count")["tasks"]} == {0.0}


def test_tasks_of_another_plan_are_not_compared(totals):
    for before in (totals.tasks + 1, totals.tasks[:2]):
        json = shown(totals, tasks_of="count", before={"tasks": before, "moment": totals.started})
        assert all(t["executed_per_second"] >= 0 for t in json["tasks"])
        assert sum(t["executed_per_second"] for t in json["tasks"]) > 0


def test_tasks_are_listed_of_one_component_only(totals):
    assert shown(totals)["tasks"] == shown(totals, tasks_of="no such one")["tasks"] == []


def test_of_many_tasks_the_busiest_are_listed(totals, monkeypatch):
    everything = shown(totals, tasks_of="count")["tasks"]
    monkeypatch.setattr(recent_tasks, "TASKS_SHOWN", 2)
    listed = shown(totals, tasks_of="count")["tasks"]
    most = sorted(everything, key=lambda t: -t["executed"])[:2]
    assert listed == sorted(most, key=lambda t: t["task"])


def test_a_worker_says_where_it_is(totals):
    for worker in shown(totals)["workers"]:
        assert worker["pid"] == os.getpid()
        assert worker["host"] == this_process(0).host
        assert worker["pod"] is worker["slot"] is None
        assert worker["memory_bytes"] > 10_000_000
        assert worker["executor_count"] == len(worker["executors"])


def test_a_pod_has_slots(totals):
    now = Snapshot.of(totals)
    spec = now.placed.topology.spec.model_copy(update={"slots": 2})
    topology = now.placed.topology.model_copy(update={"spec": spec})
    pods = {w: Process(w, 7, "pod-1", "pod-1", 0) for w in (0, 1)}
    now = replace(
        now, current=CurrentTopology(replace(now.placed, topology=topology)), processes=pods
    )
    workers = TopologyJson(now, now, []).json()["workers"]
    assert [(w["pod"], w["slot"]) for w in workers] == [("pod-1", 0), ("pod-1", 1)]
    assert [w["memory_bytes"] for w in workers] == [None, None]


def test_the_process_of_a_pod_knows_its_name(monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    process = this_process(3)
    assert process.worker == 3
    assert process.pod == process.host != ""


def test_of_many_workers_those_that_matter_are_listed(totals, monkeypatch):
    monkeypatch.setattr(as_json, "WORKERS_SHOWN", 1)
    monkeypatch.setattr(as_json, "EXECUTORS_SHOWN", 1)
    now = replace(Snapshot.of(totals), workers={0: 0.2, 1: 0.9})
    json = TopologyJson(now, now, []).json()
    assert json["worker_counts"] == {"wanted": 2, "present": 2}
    assert [w["worker"] for w in json["workers"]] == [1]
    assert json["workers"][0]["executor_count"] > len(json["workers"][0]["executors"]) == 1
    now = replace(now, current=CurrentTopology(replace(now.placed, workers=(1,))))
    json = TopologyJson(now, now, []).json()
    assert json["worker_counts"] == {"wanted": 2, "present": 1}
    assert [(w["worker"], w["present"]) for w in json["workers"]] == [(0, False)]


def test_of_many_ackers_some_are_listed(totals, monkeypatch):
    monkeypatch.setattr(as_json, "ACKERS_SHOWN", 1)
    assert len(shown(totals)["ackers"]) == 1


def test_a_stage_takes_as_long_as_its_slowest_worker(totals):
    now = replace(Snapshot.of(totals), counts=batches(14), stages={0: StageSeconds(9.0, 12.0, 24)})
    before = replace(now, counts=batches(10), stages={0: StageSeconds(5.0, 6.0, 16)})
    first, *others = TopologyJson(now, before, []).json()["batches"]["stages"]
    assert (first["stage"], first["ms"], first["worker_ms"]) == (0, 1000.0, 750.0)
    assert first["components"] == list(now.placed.plan.stages[0])
    assert all(stage["ms"] == 0 and stage["worker_ms"] is None for stage in others)
    same = TopologyJson(now, now, []).json()["batches"]["stages"]
    assert {stage["ms"] for stage in same} == {None}


def test_stages_are_timed_in_each_batch(totals):
    stages = Snapshot.of(totals).stages
    assert stages.keys() >= {0}
    for stage in stages.values():
        assert 0 < stage.slowest <= stage.workers
        assert stage.runs >= 1
        assert stage.cpu > 0


def test_the_same_error_is_listed_once_with_its_count():
    totals = run_metered(["raise this", "raise this", "raise that"], max_replays=1).totals
    errors = {e["message"]: e for e in shown(totals)["errors"]}
    assert set(errors) >= {"execute: ValueError: raise this", "execute: ValueError: raise that"}
    this = errors["execute: ValueError: raise this"]
    assert this["count"] > errors["execute: ValueError: raise that"]["count"] >= 1
    assert this["first"] <= this["time"]
    assert this["traceback"].startswith("Traceback (most recent call last):")
    assert this["traceback"].rstrip().endswith("ValueError: raise this")


def test_of_a_long_traceback_the_end_is_told(monkeypatch):
    monkeypatch.setattr(errors_as_json, "_TRACEBACK_CHARACTERS", 10)
    totals = run_metered(["raise this"], max_replays=1).totals
    (error,) = shown(totals)["errors"]
    assert error["traceback"] == "…aise this\n"


def shape(json):
    """Its fields, and those of what is in it."""
    if isinstance(json, dict):
        return {key: shape(value) for key, value in json.items()}
    if isinstance(json, list):
        return [shape(json[-1])] if json else []
    return None


def test_what_tests_of_the_page_show_is_what_a_driver_says():
    totals = run_metered(["a b", "raise this"] * 3, max_replays=1).totals
    real, fake = shown(totals, tasks_of="split"), fake_json(5, tasks_of="part-1")
    for json in (real, fake):
        json["batches"]["permits"] = json["history"] = json["waits"] = None
        for component in json["components"]:
            component["metrics"] = component["time"] = None
    assert shape(fake) == shape(real)


def test_what_tests_of_the_page_show_of_waiting_is_what_a_driver_says():
    real, fake = shown(run_waiting().totals), fake_json(5)
    assert shape(fake["waits"]) == shape(real["waits"])
    spouts = [json["components"][0]["lag"] for json in (real, fake)]
    assert shape(spouts[0]) == shape(spouts[1])
    times = [json["components"][1]["time"] for json in (real, fake)]
    assert shape({**times[0], "late": None}) == shape({**times[1], "late": None, "due": None})
    assert times[0] == {
        "watermark": 18.0,
        "behind_seconds": 1_700_000_000.5 - 18,
        "held_by": {
            "component": "behind",
            "part": "task 0",
            "newest": 19.0,
            "silent_seconds": 0.2,
        },
        "timers": 0,
        "due": None,
        "late": {},
        "why": None,
        "is_stuck": False,
    }
    kinds = [
        {type(value) for component in json["components"] for value in component["metrics"].values()}
        for json in (real, fake)
    ]
    assert kinds == [{int, dict}, {int, float, dict}]


class Later(Bolt):
    """Fails a tuple when the next one comes, in another batch."""

    def prepare(self, conf, context, collector):
        self.collector, self.kept = collector, None

    def execute(self, tup):
        if self.kept is not None:
            self.collector.fail(self.kept)
        self.kept = tup


def test_a_tuple_that_fails_later_counts_for_its_task():
    builder = TopologyBuilder(name="later", workers=1, max_spout_pending=1)
    builder.set_spout("numbers", ListSpout(range(5)), 2)
    builder.set_bolt("later", Later).global_grouping("numbers")
    driver = make_driver(builder).start()
    for _ in range(6):
        driver.step()
    driver.close()
    (task,) = shown(driver.totals, tasks_of="later")["tasks"]
    assert task["failed"] == driver.totals.component("later")["failed"] > 0


def test_stages_and_processes_of_an_earlier_plan_are_forgotten():
    builder = TopologyBuilder(name="replanned", workers=2)
    builder.set_spout("numbers", ListSpout(range(40)), 2)
    builder.set_bolt("later", Later).shuffle_grouping("numbers")
    driver = make_driver(builder).start()
    for _ in range(3):
        driver.step()
    assert len(driver.totals.stages) == len(driver.plan.stages) > 1
    driver.planner.replan([0])
    driver.step()
    driver.close()
    assert driver.totals.stages.keys() == set(range(len(driver.plan.stages)))
    assert all(stage.runs <= 2 for stage in driver.totals.stages.values())


def test_times_of_stages_are_not_compared_with_those_of_an_earlier_plan(totals):
    placed = CurrentTopology(replace(totals.placed, run="earlier"))
    before = {"current": placed, "counts": Counter(), "stages": {0: StageSeconds(1e6, 1e6, 1)}}
    for stage in shown(totals, before=before)["batches"]["stages"]:
        assert stage["ms"] >= 0


class Refusing(Bolt):
    """Fails all that it gets, for the same reason."""

    def execute(self, tup):
        raise ValueError("no")


def test_a_snapshot_stays_as_it_is_while_the_driver_goes_on():
    builder = TopologyBuilder(name="refused", workers=2, max_spout_pending=1)
    builder.set_spout("numbers", ListSpout(range(50)))
    builder.set_bolt("refuses", Refusing()).shuffle_grouping("numbers")
    driver = make_driver(builder, clock=ManualClock()).start()
    for _ in range(4):
        driver.step()
    first, second = Snapshot.of(driver.totals), Snapshot.of(driver.totals)
    told = TopologyJson(first, first, []).json()
    driver.planner.replan([0])
    for _ in range(4):
        driver.step()
    driver.close()
    assert told["errors"]
    assert TopologyJson(second, second, []).json() == told != shown(driver.totals)
