"""The dashboard for Grafana and the alerts for Prometheus, and what their PromQL names."""

import json
import re
from dataclasses import dataclass
from functools import cache

import yaml

from support.docs.scripts import script
from support.metrics.scrapes import PAGE, documented
from support.operator.charts import CHART

OPERATIONS = PAGE.with_name("operations.md")
ALERTS = CHART / "alerts.yaml"
TARGET_LABELS = {"namespace", "pod", "container", "endpoint", "job", "instance"}
"""What Prometheus' operator adds to everything that a PodMonitor finds."""


@dataclass(frozen=True)
class Query:
    """One of a panel's."""

    panel: str
    legend: str
    text: str

    def __str__(self):
        return f"{self.panel}: {self.legend}"

    def of(self, topology, namespace=".*", seconds=20):
        """PromQL with Grafana's variables filled in."""
        values = {
            "$namespace": namespace,
            "$topology": topology,
            "$__rate_interval": f"{seconds}s",
            "$__range": f"{seconds}s",
        }
        return re.sub(r"\$\w+", lambda found: values[found[0]], self.text)


@cache
def dashboard():
    """What `make dashboard` writes."""
    return json.loads(script("dashboard").text())


def panels():
    """Those that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def panel_queries():
    return [
        Query(panel["title"], target.get("legendFormat", target["refId"]), target["expr"])
        for panel in panels()
        for target in panel["targets"]
    ]


def alerts():
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return group["rules"]


def names_in(promql):
    """The names of Fulmen's samples in it."""
    return set(re.findall(r"\bfulmen_\w+", promql))


def of_operator():
    """What the operator tells of itself."""
    return set(re.findall(r"`(fulmen_operator_\w+)[`{]", OPERATIONS.read_text(encoding="utf-8")))


def check_names(promql):
    """Everything in it is documented: samples, the labels that choose them, those it is by."""
    of_sample = {sample: m for m in documented().values() for sample in m.samples}
    if names_in(promql) <= of_operator():
        return
    assert names_in(promql) <= of_sample.keys()
    known = {"namespace", "topology"}
    for name, matchers in re.findall(r"\b(fulmen_\w+)\{([^}]*)\}", promql):
        assert set(re.findall(r"(\w+)(?:=~|!=|=)", matchers)) <= of_sample[name].labels | known
    common = frozenset.intersection(*(of_sample[name].labels for name in names_in(promql)))
    if all(name.endswith("_bucket") for name in names_in(promql)):
        common |= {"le"}
    for by in re.findall(r"\bby \(([^)]*)\)", promql):
        assert set(by.split(", ")) <= common | known
