"""The dashboard and the alerts: what the script makes, of metrics that exist, explained."""

import re

import pytest

from support.metrics.dashboards import (
    TARGET_LABELS,
    alerts,
    check_names,
    dashboard,
    names_in,
    panel_queries,
    panels,
)
from support.metrics.scrapes import PAGE, documented

QUERIES = panel_queries()
ALERTS = alerts()
ROWS = [
    *("At a glance", "__acker throughput", "Transactions"),
    *("Components", "Lag and backpressure", "Workers", "Batches", "Recoveries"),
]


def test_rows_and_variables():
    found = dashboard()
    assert (found["uid"], found["title"]) == ("fulmen-topology", "Fulmen topology")
    assert [panel["title"] for panel in found["panels"] if panel["type"] == "row"] == ROWS
    variables = {variable["name"]: variable for variable in found["templating"]["list"]}
    assert list(variables) == ["datasource", "namespace", "topology"]
    assert variables["namespace"]["allValue"] == ".*"  # matches targets without such a label, too
    for name in ("namespace", "topology"):
        assert names_in(variables[name]["query"]["query"]) == {"fulmen_workers"}


def test_panels_are_told_apart_and_explained():
    found = dashboard()["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    assert len({panel["title"] for panel in panels()}) == len(panels())
    for panel in panels():
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_no_panel_lies_on_another():
    taken = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_queries_name_what_is_documented(query):
    check_names(query.text)
    for labels in re.findall(r"\{([^}]*)\}", query.text):
        assert labels.startswith('namespace=~"$namespace", topology="$topology"')
    assert query.text.count("{") == len(re.findall(r"\bfulmen_", query.text))


def test_every_documented_metric_is_shown():
    shown = set.union(*(names_in(query.text) for query in QUERIES))
    assert [name for name, m in documented().items() if not m.samples & shown] == []


def test_metrics_have_no_label_that_targets_have():
    """Or Prometheus would rename theirs."""
    assert {label for m in documented().values() for label in m.labels} & TARGET_LABELS == set()
    assert "topology" not in TARGET_LABELS


def test_each_alert_has_a_row_that_says_what_to_do():
    section = PAGE.read_text(encoding="utf-8").partition("### Alerts")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert [name for name, _, _ in rows] == [alert["alert"] for alert in ALERTS]


@pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])
def test_alerts_name_what_is_documented_and_say_what_to_do(alert):
    check_names(alert["expr"])
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["annotations"].keys() == {"summary", "description"}
    whose = "namespace" if alert["alert"] == "FulmenNoOperatorLeads" else "topology"
    assert f"$labels.{whose}" in alert["annotations"]["summary"]
    assert len(alert["annotations"]["description"]) > 100
