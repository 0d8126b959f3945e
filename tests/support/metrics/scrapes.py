"""What Prometheus reads from a topology, and what docs/metrics.md says about it."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fulmen.metrics.families.topology import TopologyCollector

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(fulmen_\w+)` \| (\w+) \|([\w, ]*)\| .+ \|$", re.MULTILINE)
_SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("",), "gauge": ("",)}


@dataclass(frozen=True)
class Documented:
    """A row of the table.

    Attributes:
        name: As in PromQL.
        type: Of the metric.
        labels: Besides `topology`.
        is_transactional: Only transactional topologies have it.
        is_occasional: It is only there while there is something to say.
    """

    name: str
    type: str
    labels: frozenset[str]
    is_transactional: bool
    is_occasional: bool

    @property
    def samples(self):
        return {self.name + suffix for suffix in _SUFFIXES[self.type]}


def documented():
    """All rows, by name."""
    usual, others = PAGE.read_text(encoding="utf-8").split(
        "Transactional topologies have these as well:"
    )
    transactional, occasional = others.split("These are there while there is something to say:")
    tables = ((usual, False, False), (transactional, True, False), (occasional, False, True))
    return {
        name: Documented(name, kind, frozenset(re.findall(r"\w+", labels)), *when)
        for table, *when in tables
        for name, kind, labels in _ROW.findall(table)
    }


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text):
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    @staticmethod
    def of(totals):
        registry = CollectorRegistry()
        registry.register(TopologyCollector(lambda: totals))
        return Scrape(generate_latest(registry).decode())

    def all(self, name, **labels):
        """The samples of that name with these labels among theirs."""
        return [s for s in self.samples if s.name == name and labels.items() <= s.labels.items()]

    def sum(self, name, **labels):
        return sum(sample.value for sample in self.all(name, **labels))

    def value(self, name, **labels):
        (sample,) = self.all(name, **labels)
        return sample.value

    def by(self, label, name, **labels):
        """Sums by a label's value; those that are 0 are left out."""
        sums = Counter()
        for sample in self.all(name, **labels):
            sums[sample.labels[label]] += sample.value
        return dict(+sums)

    @property
    def names(self):
        return {sample.name for sample in self.samples}


def check_documented(scrape):
    """See that all families have the types and labels that the page says."""
    rows = documented()
    for family in scrape.families:
        name = family.name + ("_total" if family.type == "counter" else "")
        metric = rows[name]
        assert (metric.name, metric.type) == (name, family.type)
        for sample in family.samples:
            labels = metric.labels | {"topology"} | ({"le"} if "_bucket" in sample.name else set())
            assert sample.labels.keys() == labels, sample


def check_consistent(scrape):
    """What holds for every scrape of a topology, at any moment, if its bolts ack what they get."""
    assert scrape.sum("fulmen_executed_total") == scrape.sum("fulmen_execute_latency_seconds_count")
    bolts = [s.labels for s in scrape.all("fulmen_executed_total")]
    for labels in bolts:
        assert scrape.value("fulmen_acked_total", **labels) == scrape.value(
            "fulmen_process_latency_seconds_count", **labels
        )
    for sample in scrape.all("fulmen_complete_latency_seconds_count"):
        name = sample.labels["component"]
        acked = scrape.sum("fulmen_acked_total", component=name, source_stream="")
        acked += scrape.sum("fulmen_result_trees_total", component=name, outcome="acked")
        assert sample.value == acked
    begun = scrape.sum("fulmen_acker_executed_total", stream="__ack_init")
    ended = scrape.sum("fulmen_acker_trees_acked_total") + scrape.sum(
        "fulmen_acker_trees_failed_total"
    )
    assert begun == ended + scrape.sum("fulmen_acker_pending_trees")
