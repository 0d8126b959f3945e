"""Metrics of authors, lag and what a topology waits for, as Prometheus gets them."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fulmen.api.signals import Family, Sample
from fulmen.metrics.families.topology import TopologyCollector
from support.metrics.scrapes import Scrape, documented
from support.runs.waiting import SERVICE, run_waiting


@pytest.fixture(scope="module")
def running():
    return run_waiting()


@pytest.fixture(scope="module")
def scrape(running):
    return Scrape.of(running.totals)


def test_what_is_there_while_there_is_something_to_say_is_documented(scrape):
    others = ("fulmen_result_", "fulmen_step_")  # of results, and of pipelines
    of_results = {name for name in documented() if name.startswith(others)}
    occasional = [
        m for name, m in documented().items() if m.is_occasional and name not in of_results
    ]
    assert len(occasional) == 8
    for metric in occasional:
        (family,) = (f for f in scrape.families if f.name == metric.name.removesuffix("_total"))
        assert (family.type, bool(family.samples)) == (metric.type, True)
        for sample in family.samples:
            assert sample.labels.keys() == metric.labels | {"topology"}


def test_watermarks_have_their_values(running, scrape):
    for component in ("behind", "buffer", "writer"):
        assert scrape.value("fulmen_watermark_timestamp_seconds", component=component) == 18
    silent = scrape.value("fulmen_watermark_silent_seconds", component="behind", part="task 0")
    assert (
        silent
        == running.totals.header.clock
        - running.totals.watermarks.sources["behind"].parts["task 0"].since
    )
    assert scrape.value("fulmen_timers", component="buffer") == 0
    for reason in ("unusable", "ahead"):
        assert scrape.value("fulmen_untimed_total", component="behind", reason=reason) == 0


def test_lag_and_waiting_have_their_values(running, scrape):
    (spout,) = running.plan.tasks("behind")
    of_spout = {"component": "behind", "task": str(spout)}
    assert scrape.value("fulmen_spout_lag_messages", **of_spout) == 20
    assert scrape.value("fulmen_spout_lag_seconds", **of_spout) == 1.5
    seconds = scrape.value("fulmen_service_away_seconds", service=SERVICE, component="writer")
    assert seconds == pytest.approx(
        running.clocks.steady() - running.totals.waits.away["writer"].began
    )
    assert seconds > 0
    assert scrape.value("fulmen_holding_tasks", component="buffer") == 1


def test_metrics_of_authors_have_names_types_labels_and_values(running, scrape):
    families = {f.name: f for f in scrape.families if f.name.startswith("fulmen_user_")}
    assert {name: (f.type, f.documentation) for name, f in families.items()} == {
        "fulmen_user_emitted": ("counter", "Numbers that were emitted."),
        "fulmen_user_length": ("gauge", "Length of the buffer."),
        "fulmen_user_sizes": ("histogram", "Sizes of numbers."),
    }
    (spout,), (buffer,) = (running.plan.tasks(name) for name in ("behind", "buffer"))
    of_buffer = {"topology": "waiting", "component": "buffer", "task": str(buffer)}
    assert scrape.value("fulmen_user_emitted_total", task=str(spout)) == 20
    assert scrape.value("fulmen_user_length", kind="rows", **of_buffer) == 20
    buckets = {s.labels["le"]: s.value for s in scrape.all("fulmen_user_sizes_bucket")}
    assert buckets == {"5.0": 6, "10.0": 11, "+Inf": 20}
    assert scrape.value("fulmen_user_sizes_count", **of_buffer) == 20
    assert scrape.value("fulmen_user_sizes_sum", **of_buffer) == sum(range(20))


def test_they_are_openmetrics_too(running):
    registry = CollectorRegistry()
    registry.register(TopologyCollector(lambda: running.totals))
    names = {f.name for f in text_string_to_metric_families(generate_latest(registry).decode())}
    assert {"fulmen_user_emitted", "fulmen_user_length", "fulmen_user_sizes"} <= names


def test_tasks_that_are_no_more_are_not_shown(running):
    family, totals = Family("counter", "gone", "Gone."), running.totals
    totals.metrics.add("buffer", 1, [Sample(family, (), 5)])  # it had two tasks before
    totals.metrics.add("removed", 0, [Sample(family, (), 5)])
    assert Scrape.of(totals).all("fulmen_user_gone_total") == []
    totals.metrics.add("buffer", 0, [Sample(family, (), 2)])
    assert Scrape.of(totals).value("fulmen_user_gone_total", component="buffer") == 2
