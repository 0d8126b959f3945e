"""Metrics and the page of a topology on real Spark, with two workers."""

import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from fulmen.cli.local.environment import Where
from fulmen.cli.local.prepared_run import prepare
from fulmen.cli.topology_file import TopologyFile
from fulmen.engine.driver.driver import Driver, Stop
from fulmen.engine.spark.jobs import LocalSparkJobs
from fulmen.metrics import MetricsServer
from support.cli.cli_runs import write_letters
from support.metrics.browser import see
from support.metrics.scrapes import Scrape, check_consistent
from support.runs.spark_runs import wait_until

pytestmark = pytest.mark.timeout(400)

ENDLESS = {"count": 10**9, "raise_at": 500}


class Running(threading.Thread):
    """A driver at work."""

    def __init__(self, prepared, folder):
        super().__init__(daemon=True)
        self.stop = Stop()
        self.error = None
        self.driver = Driver(
            prepared.runnable,
            LocalSparkJobs(2, {}, prepared.runnable.code_folder, folder / "spark.log"),
            prepared.checkpoint,
        )
        self.running = None

    def run(self):
        try:
            self.running = self.driver.start()
            self.running.run(self.stop)
        except BaseException as e:  # noqa: BLE001 (told by `end`)
            self.error = e
        finally:
            if self.running is not None:
                self.running.close()

    def totals(self):
        assert self.error is None
        return self.running.totals if self.running is not None else None

    def end(self):
        self.stop.drain = True
        self.join(120)
        assert not self.is_alive()
        assert self.error is None, self.error


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("letters")


@contextmanager
def running(folder):
    file = folder / write_letters(folder, ENDLESS, maxSpoutPending=200)
    with prepare(TopologyFile(Path(file)), str(folder / "kept"), Where.SPARK) as prepared:
        thread = Running(prepared, folder)
        thread.start()
        with MetricsServer("127.0.0.1", 0, thread.totals) as server:
            yield thread, server


def scrape(server):
    with urllib.request.urlopen(f"{server.url}metrics", timeout=60) as answer:
        return Scrape(answer.read().decode())


def test_scraped_while_it_runs_and_at_the_end(folder):
    with running(folder) as (thread, server):
        wait = "fulmen_batches_total"
        wait_until(lambda: scrape(server).sum(wait) > 5, "some batches", seconds=180)
        first = scrape(server)
        check_consistent(first)
        page, complaints = see(server.url, folder)
        later = scrape(server)
        check_consistent(later)
        thread.end()
        last = scrape(server)
        report = thread.running.totals.report()
    check_consistent(last)
    for name in ("executed", "acked", "emitted", "transferred", "batches"):
        sums = [s.sum(f"fulmen_{name}_total") for s in (first, later, last)]
        assert sums == sorted(sums), name
    check_page(page, complaints, first, later)
    check_end(last, report)


def check_page(page, complaints, first, later):
    """The page was looked at between these scrapes."""
    assert complaints == []
    assert page.id("status").text == "live"
    rows = {row[0]: row[1:] for row in page.id("components").rows()}
    executed = int(rows["count"][4].replace(",", ""))
    least, most = (s.value("fulmen_executed_total", component="count") for s in (first, later))
    assert least <= executed <= most
    assert len(page.id("workers").rows()) == 2
    assert len(page.id("ackers").rows()) == 2


def check_end(last, report):
    """It was drained: nothing is pending, and all is in the report."""
    for what in ("emitted", "transferred", "executed", "acked", "failed"):
        for name, component in report["components"].items():
            assert last.sum(f"fulmen_{what}_total", component=name) == component[what]
    assert last.sum("fulmen_acker_pending_trees") == 0
    assert last.sum("fulmen_spout_pending_messages") == 0
    assert last.sum("fulmen_errors_total", component="count") == 2  # one in each worker
    assert last.sum("fulmen_replayed_total") == report["trees"]["replayed"] == 2
    assert last.value("fulmen_workers_present") == 2
    assert last.value("fulmen_capacity_ratio", component="count") > 0
    assert last.value("fulmen_batch_seconds_count", phase="run") == report["batches"]
