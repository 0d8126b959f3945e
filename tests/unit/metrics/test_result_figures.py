"""Results of bolts in the metrics, in the page's JSON and in the report."""

import pytest

from fulmen import BasicBolt, FailedException, TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import CollectBolt, ListSpout
from support.metrics.scrapes import Scrape, check_consistent, documented
from support.runs.engine_runs import make_driver


class Doubles(BasicBolt):
    """Emits each number twice when the batch ends, one of them negative."""

    outputs = ("n",)

    def __init__(self):
        self.numbers = []

    def execute(self, tup, collector):
        self.numbers.append(tup[0])

    def end_batch(self, collector):
        for n in self.numbers:
            collector.emit([n])
            collector.emit([-n])
        self.numbers = []


class Refuses(BasicBolt):
    """Fails 1 always, and 2 once."""

    def __init__(self):
        self.left = {1: 10**9, 2: 1}

    def execute(self, tup, collector):
        if self.left.get(tup[0], 0):
            self.left[tup[0]] -= 1
            raise FailedException("no")


@pytest.fixture(scope="module")
def driver():
    builder = TopologyBuilder(name="results", max_replays=3)
    builder.set_spout("source", ListSpout([1, 2, 3, 4]))
    builder.set_bolt("doubles", Doubles).shuffle_grouping("source")
    builder.set_bolt("refuses", Refuses).shuffle_grouping("doubles")
    builder.set_bolt("dead", CollectBolt).shuffle_grouping("doubles", "__dead_letters")
    driver = make_driver(builder).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    return driver


ENDED = {"acked": 8, "failed": 4, "timed_out": 0}  # a dead letter has a tree as well


def test_metrics_have_the_trees_of_results(driver):
    scrape = Scrape.of(driver.totals)
    assert scrape.by("outcome", "fulmen_result_trees_total", component="doubles") == {
        name: n for name, n in ENDED.items() if n
    }
    for name in ("fulmen_result_pending", "fulmen_result_resting"):
        assert scrape.value(name, component="doubles") == 0
    assert scrape.by("component", "fulmen_replayed_total") == {"doubles": 3}
    assert scrape.by("component", "fulmen_dead_lettered_total") == {"doubles": 1}
    assert scrape.value("fulmen_complete_latency_seconds_count", component="doubles") == 8
    assert scrape.value("fulmen_acker_trees_acked_total") == 4 + 8
    families = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in scrape.families
        if family.name.startswith("fulmen_result_")
    }
    assert families.keys() == {name for name in documented() if name.startswith("fulmen_result_")}
    for name, family in families.items():
        assert family.type == documented()[name].type
        for sample in family.samples:
            assert sample.labels.keys() == documented()[name].labels | {"topology"}
    check_consistent(scrape)


def test_what_a_bolt_did_with_its_inputs_is_counted_apart(driver):
    assert driver.totals.component("doubles")["acked"] == 4
    assert driver.totals.component("doubles")["failed"] == 0
    assert driver.totals.component("refuses")["failed"] == 4


def test_the_page_has_the_results_of_each_bolt(driver):
    now = Snapshot.of(driver.totals)
    found = {c["name"]: c for c in TopologyJson(now, now, []).json()["components"]}
    more = {"pending": 0, "resting": 0, "replayed": 3, "dead_lettered": 1}
    assert found["doubles"]["results"] == ENDED | more
    assert found["doubles"]["pending"] == 0
    assert found["doubles"]["complete_ms"] > 0
    assert found["refuses"]["results"] is None
    assert found["refuses"]["pending"] is None


def test_the_report_counts_trees_of_results_with_all_others(driver):
    trees = driver.totals.report()["trees"]
    assert (trees["acked"], trees["failed"], trees["pending"]) == (4 + 8, 4, 0)
    assert (trees["replayed"], trees["dead_lettered"]) == (3, 1)
