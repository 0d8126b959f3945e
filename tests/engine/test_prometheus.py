"""Dashboard and alerts with a real Prometheus, which scrapes a topology in this process."""

import json
import math
import re
import threading

import pytest
import yaml

from fulmen import TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.kube import contract
from fulmen.metrics import MetricsServer
from fulmen.streams import Streams
from fulmen.testing import CollectBolt, ManualClock
from support.docs.pages import blocks
from support.metrics.dashboards import (
    ALERTS,
    TARGET_LABELS,
    alerts,
    dashboard,
    names_in,
    panel_queries,
)
from support.metrics.scrapes import PAGE, documented
from support.parts.result_parts import AtBatchEnds, RandomSink
from support.runs.engine_runs import Numbers, Steady, make_driver, new_store
from support.runs.metered import WORDS, metered_driver, run_metered
from support.runs.spark_runs import wait_until
from support.runs.waiting import run_waiting
from support.servers.prometheus import promtool, running_prometheus
from support.transactions.transacted import TROUBLE, transacted_driver

pytestmark = pytest.mark.timeout(180)

PLAIN = " ".join(WORDS)
TEXTS = [PLAIN] * 20 + ["fail once", "raise", "report", "lost", "kill"]
LABELS = {"namespace": "shop", "pod": "metered-driver-1", "container": "driver"}
QUERIES = panel_queries()
STEPS, SCRAPES = 3, 5


class Driven:
    """A topology that runs some batches whenever it is scraped, until it is ended."""

    def __init__(self, driver):
        self.driver = driver.start()
        self.lock = threading.Lock()
        self.is_over = False

    def totals(self):
        with self.lock:
            for _ in range(0 if self.is_over else STEPS):
                self.driver.step()
        return self.driver.totals

    def end(self):
        """Drain it; gives the report."""
        with self.lock:
            self.is_over = True
            self.driver.run(Stop(drain=True))
            self.driver.close()
        return self.driver.totals.report()


@pytest.fixture(scope="module")
def topology():
    texts = (TEXTS + [PLAIN] * 200) * 50  # more than there is time for
    return Driven(metered_driver(texts, max_replays=2, max_spout_pending=20))


@pytest.fixture(scope="module")
def transactions():
    """A transactional topology beside it."""
    return Driven(transacted_driver(TROUBLE * 500))


@pytest.fixture(scope="module")
def results():
    """A topology whose bolt emits by itself, and a sink that fails much of that."""
    builder = TopologyBuilder("results", config={"limit": 10**9, "wrong": 0.6}, max_spout_pending=9)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("gather", AtBatchEnds).shuffle_grouping("numbers")
    builder.set_bolt("sink", RandomSink).shuffle_grouping("gather")
    clock, store = ManualClock(), new_store()
    jobs = Steady(clock, 0.1, store=store)
    driven = Driven(make_driver(builder.build(), store=store, clock=clock, jobs=jobs))
    yield driven
    driven.end()


@pytest.fixture(scope="module")
def steps():
    """A pipeline one of whose steps fails for some rows."""
    pipeline = Streams("steps", config={"limit": 10**9}, max_spout_pending=9)
    numbers = pipeline.source("numbers", Numbers)
    numbers.map(lambda row: 12 // (row.number % 3), fields="n").sink("sink", CollectBolt)
    clock, store = ManualClock(), new_store()
    jobs = Steady(clock, 0.1, store=store)
    driven = Driven(make_driver(pipeline.build(), store=store, clock=clock, jobs=jobs))
    yield driven
    driven.end()


@pytest.fixture(scope="module")
def earlier():
    """Another topology of the same name, elsewhere."""
    return run_metered(TEXTS, max_replays=2)


@pytest.fixture(scope="module")
def waiting():
    """A topology with lag, a bolt that holds its spouts, and a service that is away."""
    return run_waiting()


@pytest.fixture(scope="module")
def prometheus(topology, transactions, results, steps, earlier, waiting, tmp_path_factory):
    """It has scraped for some seconds."""
    with (
        MetricsServer("127.0.0.1", 0, topology.totals) as one,
        MetricsServer("127.0.0.1", 0, lambda: earlier.totals) as other,
        MetricsServer("127.0.0.1", 0, transactions.totals) as third,
        MetricsServer("127.0.0.1", 0, lambda: waiting.totals) as fourth,
        MetricsServer("127.0.0.1", 0, results.totals) as fifth,
        MetricsServer("127.0.0.1", 0, steps.totals) as sixth,
        running_prometheus(
            tmp_path_factory.mktemp("prometheus"),
            {
                f"127.0.0.1:{one.port}": LABELS,
                f"127.0.0.1:{other.port}": {},
                f"127.0.0.1:{third.port}": {**LABELS, "pod": "transacted-driver-1"},
                f"127.0.0.1:{fourth.port}": {**LABELS, "pod": "waiting-driver-1"},
                f"127.0.0.1:{fifth.port}": {**LABELS, "pod": "results-driver-1"},
                f"127.0.0.1:{sixth.port}": {**LABELS, "pod": "steps-driver-1"},
            },
            [ALERTS],
        ) as server,
    ):
        scrapes = "min(count_over_time(fulmen_batches_total[1m]))"
        wait_until(lambda: (server.value(scrapes) or 0) >= SCRAPES, "some scrapes", seconds=60)
        yield server


def topology_of(query):
    """One that has what the query asks for."""
    of = [
        metric
        for m in names_in(query.text)
        for metric in documented().values()
        if m in metric.samples
    ]
    if any(name.startswith("fulmen_result_") for name in names_in(query.text)):
        return "results"
    if any(name.startswith("fulmen_step_") for name in names_in(query.text)):
        return "steps"
    if any(metric.is_occasional for metric in of):
        return "waiting"
    return "transacted" if any(metric.is_transactional for metric in of) else "metered"


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_panels_have_data(prometheus, query):
    samples = prometheus.query(query.of(topology_of(query), "shop"))
    assert [value for _, value in samples if not math.isnan(value)], samples
    if (label := re.fullmatch(r"\{\{(\w+)\}\}", query.legend)) and len(samples) > 1:
        assert all(label[1] in labels for labels, _ in samples)


def test_variables_have_the_topology(prometheus):
    found = {v["name"]: v for v in dashboard()["templating"]["list"] if v["type"] == "query"}
    asked = {name: v["query"]["query"].replace("$namespace", ".*") for name, v in found.items()}
    parts = {n: re.fullmatch(r"label_values\((.*), (\w+)\)", t) for n, t in asked.items()}
    values = {name: prometheus.label_values(*part.group(2, 1)) for name, part in parts.items()}
    assert values == {
        "namespace": ["shop"],
        "topology": ["metered", "results", "steps", "transacted", "waiting"],
    }


def test_labels_of_target_and_metrics_do_not_collide(prometheus):
    samples = [labels for labels, _ in prometheus.query('{__name__=~"fulmen_.+"}')]
    assert len(samples) > 100
    assert not [name for labels in samples for name in labels if name.startswith("exported_")]
    assert LABELS.keys() <= TARGET_LABELS


def documented_questions():
    questions = PAGE.read_text(encoding="utf-8").partition("### Questions to ask")[2]
    return re.findall(r"^\| [^|]+ \| `([^`]+)`", questions.partition("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize("promql", documented_questions())
def test_documented_questions_can_be_asked(prometheus, promql):
    prometheus.query(promql)


def test_a_topology_without_a_namespace_is_found_with_all(prometheus, earlier):
    acked = 'sum(fulmen_acker_trees_acked_total{namespace=~"NAME", topology="metered"})'
    alone = prometheus.value(acked.replace("NAME", ""))
    assert alone == earlier.totals.report()["trees"]["acked"] > 0
    assert prometheus.value(acked.replace("NAME", ".*")) > alone


def test_rules_are_evaluated(prometheus):
    wait_until(
        lambda: all(rule["health"] == "ok" for rule in prometheus.rules().values()),
        "an evaluation of each rule",
        seconds=30,
    )
    assert prometheus.rules().keys() == {alert["alert"] for alert in alerts()}


def test_prometheus_has_in_the_end_what_the_topology_reports(prometheus, topology):
    """The last one: it ends the topology."""
    report = topology.end()
    of = '{namespace="shop", topology="metered"}'

    def total(name, of=of):
        return prometheus.value(f"sum({name}{of})")

    wait_until(
        lambda: total("fulmen_batches_total") == report["batches"], "the last scrape", seconds=30
    )
    trees = report["trees"]
    assert total("fulmen_acker_trees_acked_total") == trees["acked"] > 0
    assert total("fulmen_acker_trees_failed_total") == trees["failed"] + trees["timed_out"] > 0
    assert total("fulmen_acker_pending_trees") == trees["pending"] == 0
    acker = report["components"]["__acker"]
    assert total("fulmen_acker_executed_total") == acker["executed"] > 0
    streams = prometheus.query(f"sum by (stream) (fulmen_acker_executed_total{of})")
    by_stream = {labels["stream"]: value for labels, value in streams}
    assert by_stream["__ack_init"] == trees["acked"] + trees["failed"] + trees["timed_out"]
    assert total("fulmen_dead_lettered_total") == trees["dead_lettered"] > 0
    assert total("fulmen_replayed_total") == trees["replayed"] > 0
    for name, component in report["components"].items():
        of_component = f'{{namespace="shop", topology="metered", component="{name}"}}'
        assert total("fulmen_emitted_total", of_component) in (component["emitted"], None)


def test_prometheus_has_in_the_end_what_became_of_transactions(prometheus, transactions):
    report = transactions.end()
    found = report["transactions"]

    def by_outcome():
        samples = prometheus.query("fulmen_transaction_attempts_total")
        return {labels["outcome"]: value for labels, value in samples}

    wait_until(lambda: by_outcome() == found["attempts"], "the last scrape", seconds=30)
    assert found["attempts"]["committed"] > found["attempts"]["given_up"] > 0
    assert prometheus.value("fulmen_transaction_committed_txid") == found["committed_txid"]
    complete = prometheus.value('fulmen_transaction_seconds_count{phase="complete"}')
    assert complete == found["attempts"]["committed"]
    assert prometheus.value("sum(fulmen_transactions_active)") == found["active"] == 0


def test_promtool_finds_nothing_wrong():
    assert f"SUCCESS: {len(alerts())} rules found" in promtool("check", "rules", str(ALERTS))


BAD_AND_GOOD = {
    'fulmen_batches_total{topology="NAME"}': ("5+0x40", "5+60x40"),
    'fulmen_workers{topology="NAME"}': ("2+0x40", "2+0x40"),
    'fulmen_workers_present{topology="NAME"}': ("1+0x40", "2+0x40"),
    'fulmen_acked_total{topology="NAME", component="words"}': ("0+900x40", "0+900x40"),
    'fulmen_acked_total{topology="NAME", component="__acker"}': ("0+9000x40", "0+9000x40"),
    'fulmen_failed_total{topology="NAME", component="words"}': ("0+10x40", "0+8x40"),
    'fulmen_capacity_ratio{topology="NAME", component="count"}': ("0.99+0x40", "0.9+0x40"),
    'fulmen_dead_lettered_total{topology="NAME", component="words"}': ("0+1x40", "7+0x40"),
    'fulmen_failed_attempts_total{topology="NAME"}': ("0+1x40", "3+0x40"),
    'fulmen_transaction_head_failures{topology="NAME"}': ("5+0x40", "4+0x40"),
    'fulmen_transaction_attempts_total{topology="NAME", outcome="given_up"}': ("0+1x40", "7+0x40"),
    'fulmen_operator_topology_ready{topology="NAME"}': ("0+0x40", "1+0x40"),
    'fulmen_operator_leader{namespace="NAME", pod="operator-1"}': ("0+0x40", "0+0x40"),
    'fulmen_operator_leader{namespace="NAME", pod="operator-2"}': ("1+0x20 _x20", "1+0x40"),
    'fulmen_spout_lag_messages{topology="NAME", component="words"}': ("0+600x40", "5000+0x40"),
    'fulmen_service_away_seconds{topology="NAME", component="count", service="db"}': (
        *("0+60x40", "60+0x40"),
    ),
}


def whose(alert):
    """What an alert is about: a topology, or an installation of the operator."""
    return "namespace" if alert["alert"] == "FulmenNoOperatorLeads" else "topology"


def test_alerts_are_about_what_is_not_well(tmp_path):
    series = [
        {"series": name.replace("NAME", topology), "values": values[which]}
        for name, values in BAD_AND_GOOD.items()
        for which, topology in enumerate(("bad", "good"))
    ]
    firing = [
        {"labels": f'{{alertname="{alert["alert"]}", {whose(alert)}="bad"}}', "value": 1}
        for alert in alerts()
    ]
    expected = {
        "expr": 'sum by (alertname, topology, namespace) (ALERTS{alertstate="firing"})',
        "eval_time": "35m",
        "exp_samples": firing,
    }
    file = tmp_path / "test.yaml"
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": [expected]}]
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", str(file))


PODS = [
    # the name by its labels, that of the port, whether it is scraped
    (contract.APP_NAME, contract.METRICS_PORT_NAME, True),
    (contract.APP_NAME, "spark", False),
    ("else", contract.METRICS_PORT_NAME, False),
]


def test_the_documented_configuration_finds_drivers(tmp_path):
    """Debian's Prometheus knows no Kubernetes: it is given what that would have found."""
    (text,) = (b.text for b in blocks("docs/metrics.md", "yaml") if "kubernetes_sd" in b.text)
    config = yaml.safe_load(text)
    (job,) = config["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    label = "__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", contract.NAME_LABEL)
    job["static_configs"] = [
        {
            "targets": [f"10.0.0.{n}:9464"],
            "labels": {
                label: name,
                "__meta_kubernetes_pod_container_port_name": port,
                "__meta_kubernetes_namespace": "shop",
                "__meta_kubernetes_pod_name": f"pod-{n}",
            },
        }
        for n, (name, port, _) in enumerate(PODS)
    ]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    found = promtool("check", "service-discovery", "--timeout=3s", str(file), job["job_name"])
    targets = {
        target["discoveredLabels"]["__address__"]: target["labels"]
        for target in json.loads(found[found.index("[") :])
    }
    assert {address for address, labels in targets.items() if labels} == {
        f"10.0.0.{n}:9464" for n, (_, _, is_scraped) in enumerate(PODS) if is_scraped
    }
    assert {"namespace": "shop", "pod": "pod-0"}.items() <= targets["10.0.0.0:9464"].items()


def test_the_documented_configuration_for_one_machine_is_valid(tmp_path):
    file = tmp_path / "prometheus.yml"
    found = [block.text for block in blocks("docs/metrics.md", "yaml")]
    configuration, *_ = (text for text in found if text.startswith("scrape_configs:"))
    file.write_text(configuration)
    assert "SUCCESS" in promtool("check", "config", str(file))
