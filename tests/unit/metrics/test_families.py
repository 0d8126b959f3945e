"""The metrics agree with the report, with docs/metrics.md and with each other."""

import math
import socket
import sys
import threading
import time
from dataclasses import replace
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

from fulmen import TopologyBuilder
from fulmen.engine.batches.size.permits import FIRST_PERMIT
from fulmen.engine.driver.driver import Silent, Stop
from fulmen.engine.protocol.callbacks.processes import Process
from fulmen.engine.protocol.figures.statistics import PENDING_MESSAGES, PENDING_TREES
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.totals.counted import StageSeconds
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.families.topology import TopologyCollector, families
from fulmen.metrics.snapshot import Snapshot
from fulmen.streams import Streams
from fulmen.testing import CollectBolt, ListSpout, ManualClock
from support.metrics.scrapes import Scrape, check_consistent, check_documented, documented
from support.runs.engine_runs import make_driver
from support.runs.metered import WORDS, Keeper, run_metered

TEXTS = [" ".join(WORDS)] * 20 + ["fail once", "raise", "report", "lost", "kill"]


@pytest.fixture(scope="module")
def driver():
    """Of a run with trouble of every kind."""
    return run_metered(TEXTS, max_replays=2)


@pytest.fixture(scope="module")
def scrape(driver):
    return Scrape.of(driver.totals)


def test_the_documented_metrics_are_there_and_no_others(scrape):
    usual = (
        metric
        for metric in documented().values()
        if not (metric.is_transactional or metric.is_occasional)
    )
    assert scrape.names == {name for metric in usual for name in metric.samples}


def test_they_have_the_documented_types_and_labels(scrape):
    check_documented(scrape)
    assert {sample.labels["topology"] for sample in scrape.samples} == {"metered"}


def test_all_that_can_go_wrong_did(scrape):
    """Or the other tests would compare zeros."""
    for name in ("replayed", "dead_lettered", "errors", "failed_attempts", "restored_tasks"):
        assert scrape.sum(f"fulmen_{name}_total"), name
    reasons = scrape.by("reason", "fulmen_failed_total", component="texts")
    assert reasons.keys() == {"failed", "timeout", "crashed worker"}
    assert scrape.value("fulmen_checkpoint_bytes_total", part="state") > 100_000


@pytest.mark.parametrize("what", ["emitted", "transferred", "executed", "acked", "failed"])
def test_statistics_are_those_of_the_report(driver, scrape, what):
    components = driver.totals.report()["components"]
    wanted = {name: component[what] for name, component in components.items() if component[what]}
    assert scrape.by("component", f"fulmen_{what}_total") == wanted
    assert wanted


def test_trees_are_those_of_the_report(driver, scrape):
    report = driver.totals.report()
    trees = report["trees"]
    reasons = scrape.by("reason", "fulmen_failed_total", component="texts")
    assert reasons["timeout"] == trees["timed_out"]
    assert reasons["failed"] + reasons["crashed worker"] == trees["failed"]
    assert scrape.sum("fulmen_acker_trees_acked_total") == trees["acked"]
    failed = scrape.sum("fulmen_acker_trees_failed_total")
    assert failed == trees["failed"] + trees["timed_out"]
    assert scrape.sum("fulmen_acker_pending_trees") == trees["pending"] == 0
    assert scrape.sum("fulmen_replayed_total") == trees["replayed"]
    assert scrape.sum("fulmen_dead_lettered_total") == trees["dead_lettered"]
    assert scrape.value("fulmen_batches_total") == report["batches"]
    assert scrape.value("fulmen_failed_attempts_total") == report["failed_attempts"]
    assert scrape.sum("fulmen_restored_tasks_total") == report["restored_tasks"]


def test_streams_and_inputs_are_told_apart(scrape):
    def emitted(**labels):
        return scrape.value("fulmen_emitted_total", **labels)

    def executed(**labels):
        return scrape.sum("fulmen_executed_total", **labels)

    assert emitted(component="texts", stream="default") == executed(
        component="split", source_component="texts"
    )
    assert emitted(component="split", stream="default") == executed(
        component="keep", source_component="split"
    )
    assert emitted(component="split", stream="lengths") == executed(component="large")
    assert executed(component="keep", source_stream="__tick")
    inits = executed(component="__acker", source_stream="__ack_init")
    assert inits == scrape.sum("fulmen_acker_executed_total", stream="__ack_init")
    assert len(scrape.by("task", "fulmen_acker_executed_total")) == 2


def test_histograms_count_what_was_executed_and_acked(scrape):
    check_consistent(scrape)


def test_buckets_end_with_the_count(scrape):
    for sample in scrape.samples:
        if sample.name.endswith("_count"):
            name = sample.name.removesuffix("_count") + "_bucket"
            buckets = [s.value for s in scrape.all(name, **sample.labels)]
            assert buckets == sorted(buckets)
            assert buckets[-1] == sample.value
            assert len(buckets) == 22


def test_batches_are_timed(driver, scrape):
    batches = scrape.value("fulmen_batches_total")
    count = "fulmen_batch_seconds_count"
    assert scrape.value(count, phase="run") == scrape.value(count, phase="wait") == batches
    assert 0 < scrape.value(count, phase="commit") <= batches
    seconds = scrape.by("phase", "fulmen_batch_seconds_sum")
    ran = scrape.value("fulmen_failed_attempts_total") * 0.1  # what failed is waited for
    assert math.isclose(seconds["run"], batches * 0.1)
    assert seconds["wait"] >= ran - 1e-6
    written = scrape.by("part", "fulmen_checkpoint_bytes_total")
    assert written["commit"] == driver.log.bytes_written > 0


def test_the_shape_of_the_topology(scrape):
    assert scrape.by("component", "fulmen_tasks") == {
        "texts": 2, "silent": 1, "split": 2, "keep": 3, "large": 1, "__acker": 2,
    }  # fmt: skip
    assert scrape.by("component", "fulmen_executors")["keep"] == 2
    assert scrape.value("fulmen_workers") == scrape.value("fulmen_workers_present") == 2
    assert scrape.value("fulmen_active") == 0  # it was drained
    assert scrape.by("component", "fulmen_permit_tuples") == {}
    assert scrape.by("component", "fulmen_spout_pending_messages") == {}


def test_open_metrics_has_them_too(driver):
    registry = CollectorRegistry()
    registry.register(TopologyCollector(lambda: driver.totals))
    text = generate_latest(registry).decode()
    assert text.endswith("# EOF\n")
    assert 'fulmen_workers{topology="metered"} 2.0' in text


def test_before_the_start_there_are_none():
    assert list(TopologyCollector(lambda: None).collect()) == []


class Watch(Silent):
    """Scrapes after each batch, while messages are pending."""

    def __init__(self):
        self.pending, self.permits, self.active = [], [], set()

    def batch(self, totals, done):
        scrape = Scrape.of(totals)
        check_consistent(scrape)
        assert scrape.sum("fulmen_acker_pending_trees") == totals.trees.pending
        self.pending.append(scrape.value("fulmen_spout_pending_messages", component="texts"))
        self.permits.append(scrape.value("fulmen_permit_tuples", component="texts"))
        self.active.add(scrape.value("fulmen_active"))


def test_gauges_follow_the_batches():
    watch = Watch()
    run_metered(TEXTS[:21], observer=watch, max_spout_pending=4)
    assert 0 < max(watch.pending) <= 8  # two tasks
    assert watch.pending[-1] == 0
    assert max(watch.permits) >= 2 * FIRST_PERMIT
    assert watch.active == {0.0, 1.0}


@pytest.fixture
def restless():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_a_scrape_never_sees_half_a_batch(restless):
    builder = TopologyBuilder(name="many", workers=1, max_spout_pending=2)
    builder.set_spout("numbers", ListSpout(range(120)))
    builder.set_bolt("sink", CollectBolt, 2).shuffle_grouping("numbers")
    driver = make_driver(builder).start()
    texts, is_over = [], threading.Event()

    def scrape():
        while not is_over.is_set():
            texts.append(generate_latest(registry))

    registry = CollectorRegistry()
    registry.register(TopologyCollector(lambda: driver.totals))
    scraper = threading.Thread(target=scrape)
    scraper.start()
    driver.run(Stop(when_drained=True))
    is_over.set()
    scraper.join()
    driver.close()
    seen = {}
    for text in texts:
        found = Scrape(text.decode().replace("# EOF\n", ""))
        check_consistent(found)
        seen[found.value("fulmen_batches_total")] = found
    assert len(seen) > 3
    for found in seen.values():
        emitted = found.value("fulmen_emitted_total", component="numbers", stream="default")
        assert emitted == found.value("fulmen_executed_total", component="sink")


def test_a_tuple_that_is_kept_counts_with_its_real_time():
    clock = ManualClock(1e9)
    builder = TopologyBuilder(name="keep", workers=1)
    builder.set_spout("numbers", ListSpout([1, 2], tracked=False))
    builder.set_bolt("keep", Keeper(room=9)).shuffle_grouping("numbers").set_tick_seconds(2)
    with mock.patch.object(BoltTask, "now", staticmethod(clock)):
        driver = make_driver(builder, clock=clock, seconds=0.9).start()
        for _ in range(4):
            driver.step()
        driver.close()
    scrape = Scrape.of(driver.totals)
    labels = {"component": "keep", "source_component": "numbers"}
    name = "fulmen_process_latency_seconds"
    assert scrape.value(f"{name}_count", **labels) == 2
    assert scrape.value(f"{name}_bucket", le="2.5", **labels) == 0  # from batch 1 to batch 4
    assert scrape.value(f"{name}_bucket", le="5.0", **labels) == 2
    assert scrape.value("fulmen_execute_latency_seconds_bucket", le="0.5", **labels) == 2


@pytest.mark.parametrize("own", [False, True], ids=["ahead of an input", "in a bolt"])
def test_each_step_of_a_pipeline_counts_its_rows(own):
    shop = Streams("steps")
    rows = shop.source("rows", ListSpout(range(10), ["n"], replays=False))
    rows = rows.repartition(1) if own else rows
    steps = rows.filter(lambda row: row.n != 3).map(lambda row: 12 // (row.n - 5), fields="n")
    steps = steps.flat_map(lambda row: range(row.n), fields="n").where("n <> 2")
    steps.filter(lambda row: row.n or 1 // 0, name="last").sink("out", CollectBolt)
    driver = make_driver(shop.build()).start()
    for _ in range(5):
        driver.step()
    driver.close()
    given = [n for m in range(10) if m not in (3, 5) for n in range(12 // (m - 5))]
    of_last = [n for n in given if n != 2]
    expected = [
        [10, 9, 0],
        [9, 8, 1],
        [8, len(given), 0],
        [len(given), len(of_last), 0],
        [len(of_last), len(of_last) - of_last.count(0), of_last.count(0)],
    ]
    now, figures = Snapshot.of(driver.totals), ("rows", "given", "failed")
    shown = TopologyJson(now, now, []).json()["components"]
    (steps,) = (one["steps"] for one in shown if one["steps"])
    assert [[step[of] for of in figures] for step in steps] == expected
    scrape = Scrape.of(driver.totals)
    of_step = {s["step"]: [s[of] for of in figures] for s in steps}
    for step, values in of_step.items():
        found = [scrape.value(f"fulmen_step_{of}_total", step=step) for of in figures]
        assert found == values


def test_capacity_is_the_share_of_the_busiest_executor():
    clock = ManualClock()
    builder = TopologyBuilder(name="busy", workers=1)
    builder.set_spout("numbers", ListSpout(range(10)))
    builder.set_bolt("sink", CollectBolt, 2).shuffle_grouping("numbers")
    driver = make_driver(builder, clock=clock).start()
    first, second = (e.first for e in driver.plan.executors if e.component == "sink")
    clock.advance(100)
    driver.totals.executors.add({first: 30.0, second: 80.0}, clock())
    assert Scrape.of(driver.totals).value("fulmen_capacity_ratio", component="sink") == 0.8
    clock.advance(700)
    assert Scrape.of(driver.totals).value("fulmen_capacity_ratio", component="sink") == 0
    driver.close()


def test_what_was_kept_of_tasks_is_forgotten_when_they_become_others():
    clock = ManualClock()
    builder = TopologyBuilder(name="other", workers=1)
    builder.set_spout("numbers", ListSpout(range(10)))
    driver = make_driver(builder, clock=clock).start()
    totals = driver.totals
    totals.executors.add({1: 30.0}, clock())
    totals.workers.add({0: 30.0}, clock())
    totals.levels[PENDING_TREES, 99] = totals.levels[PENDING_MESSAGES, 99] = 1
    totals.tasks[1], totals.stages[0] = 1.0, StageSeconds(1.0, 1.0, 1)
    totals.processes[0] = Process()
    clock.advance(5)
    assert Snapshot.of(totals).workers == {0: 1.0}  # and not 6
    other = TopologyBuilder(name="other", workers=1, max_spout_pending=7)
    other.set_spout("numbers", ListSpout(range(10)))
    driver.follow(Stop(topology=other.build()))
    now = Snapshot.of(totals)
    assert totals.placed is driver.placed
    assert (now.executors, now.workers, now.levels) == ({}, {}, {})
    assert (now.tasks.any(), now.stages, now.processes) == (False, {}, {})
    driver.close()


def test_complete_latency_is_until_the_batch_counted():
    builder = TopologyBuilder(name="slow", workers=1)
    builder.set_spout("numbers", ListSpout([1]))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("numbers")
    driver = make_driver(builder).start()
    before = time.time()
    driver.run(Stop(when_drained=True))
    driver.close()
    most = time.time() - before + 0.001  # emits are known to the millisecond
    total = Scrape.of(driver.totals).value("fulmen_complete_latency_seconds_sum")
    assert 0 <= total <= most
    assert driver.totals.latencies.count == 1


def test_without_ackers_spouts_have_no_trees():
    scrape = Scrape.of(run_metered(["a b"], ackers=0).totals)
    assert scrape.all("fulmen_executed_total", component="__acker") == []
    assert scrape.all("fulmen_acker_pending_trees") == []
    assert scrape.value("fulmen_emitted_total", component="texts", stream="default") == 1
    assert scrape.sum("fulmen_acked_total", component="texts") == 0
    assert scrape.sum("fulmen_execute_latency_seconds_count", component="keep") > 0


class PinnedNumbers(ListSpout):
    pinned = True


def test_a_pinned_spout_is_the_drivers():
    builder = TopologyBuilder(name="pinned", workers=1)
    builder.set_spout("numbers", PinnedNumbers(range(5)))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("numbers")
    driver = make_driver(builder).start()
    driver.run(Stop(when_drained=True))
    scrape = Scrape.of(driver.totals)
    now = Snapshot.of(driver.totals)
    driver.close()
    assert scrape.value("fulmen_complete_latency_seconds_count", component="numbers") == 5
    check_consistent(scrape)
    workers = {worker["worker"]: worker for worker in TopologyJson(now, now, []).json()["workers"]}
    assert [e["component"] for e in workers[-1]["executors"]] == ["numbers"]
    assert workers[-1]["present"]


def test_workers_are_told_apart_by_number(driver, scrape):
    workers = driver.totals.processes
    assert workers.keys() >= {0, 1}
    infos = {s.labels["worker"]: s.labels for s in scrape.all("fulmen_worker_info")}
    assert infos.keys() == {str(worker) for worker in workers}
    assert {info["host"] for info in infos.values()} == {socket.gethostname()}
    assert {info["slot"] for info in infos.values()} == {""}
    for worker in infos:
        assert 0 <= scrape.value("fulmen_worker_busy_ratio", worker=worker) <= 1
        assert 0 <= scrape.value("fulmen_worker_run_delay_ratio", worker=worker) <= 1
        assert scrape.value("fulmen_worker_memory_bytes", worker=worker) > 10_000_000


def test_the_slot_of_a_pod_is_a_label(driver):
    now = Snapshot.of(driver.totals)
    pods = {-1: Process(-1, 7, "pod-d", "pod-d"), 1: Process(1, 7, "pod-w", "pod-w")}
    (info,) = (f for f in families(replace(now, processes=pods)) if f.name == "fulmen_worker_info")
    found = {(s.labels["worker"], s.labels["host"], s.labels["slot"]) for s in info.samples}
    assert found == {("-1", "pod-d", ""), ("1", "pod-w", "0")}
