"""Metrics of authors on real Spark: exact although a worker's process is killed."""

import os
import signal
import threading
from pathlib import Path

import pytest

from fulmen.cli.local.environment import Where
from fulmen.cli.local.prepared_run import prepare
from fulmen.cli.topology_file import TopologyFile
from fulmen.engine.driver.driver import Driver, Stop
from fulmen.engine.spark.jobs import LocalSparkJobs
from support.runs.spark_runs import wait_until

pytestmark = pytest.mark.timeout(400)

COUNT = 60_000
CODE = f'''
from fulmen import BasicBolt, Spout


class Numbers(Spout):
    outputs = ["number"]

    def __init__(self):
        self.at = 0

    def open(self, conf, context, collector):
        self.context, self.collector = context, collector
        self.emitted = context.counter("emitted", "Numbers.")

    def next_tuple(self):
        if self.at < {COUNT}:
            self.emitted.inc()
            self.collector.emit([self.at], msg_id=self.at)
            self.at += 1
            self.context.lag(messages={COUNT} - self.at, seconds=0)

    def is_exhausted(self):
        return self.at == {COUNT}


class Count(BasicBolt):
    """Holds the spouts at every 1,000th number until its next tick."""

    def __init__(self):
        self.seen = 0
        self.held = 0

    def prepare(self, conf, context):
        self.context = context
        self.counted = context.counter("counted", "Numbers.")
        self.sizes = context.histogram("sizes", "Numbers.", [1_000])

    def execute(self, tup, collector):
        if tup.is_tick():
            self.context.release_spouts()
            return
        self.seen += 1
        self.counted.inc()
        self.sizes.observe(tup[0])
        if self.seen % 1_000 == 0:
            self.held += 1
            self.context.hold_spouts("a thousand more")
'''
TOPOLOGY = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: counted}
spec:
  workers: 2
  maxSpoutPending: 5000
  code: {folder: .}
  spouts: [{name: numbers, class: counted.Numbers}]
  bolts:
    - name: count
      class: counted.Count
      parallelism: 2
      tickSeconds: 0.05
      inputs: [{from: numbers, grouping: {type: shuffle}}]
"""


def kill_a_worker(running):
    """End the process of a worker, in the middle of the run."""
    wait_until(lambda: running.totals.component("count")["executed"] > 5_000, seconds=180)
    process = running.totals.processes[0]
    os.kill(process.pid, signal.SIGKILL)


def test_metrics_are_exact_although_a_worker_is_killed(tmp_path):
    (tmp_path / "counted.py").write_text(CODE)
    (tmp_path / "counted.yaml").write_text(TOPOLOGY)
    file = Path(tmp_path / "counted.yaml")
    with prepare(TopologyFile(file), str(tmp_path / "kept"), Where.SPARK) as prepared:
        folder = prepared.runnable.code_folder
        jobs = LocalSparkJobs(2, {}, folder, tmp_path / "spark.log")
        running = Driver(prepared.runnable, jobs, prepared.checkpoint).start()
        killer = threading.Thread(target=kill_a_worker, args=(running,), daemon=True)
        killer.start()
        try:
            running.run(Stop(when_drained=True))
        finally:
            running.close()
        killer.join(10)
    report, components = running.totals.report(), running.totals.report()["components"]
    assert report["restored_tasks"] >= 1
    assert report["trees"]["acked"] == COUNT
    assert components["numbers"]["metrics"] == {"emitted": COUNT}
    found = components["count"]["metrics"]
    assert found["counted"] == COUNT
    assert found["sizes"] == {
        "count": COUNT,
        "sum": COUNT * (COUNT - 1) / 2,
        "buckets": {"1000.0": 1_001, "+Inf": COUNT},
    }
    assert running.coordinator.last.holds == {}
    (task,) = running.plan.tasks("numbers")
    assert running.totals.waits.lags[task] == (0, 0.0)
