"""The metrics of a pod, and what they say."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.cluster.kubectl import NAMESPACE, kubectl

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(pod: str, port: int = 9464, namespace: str = NAMESPACE) -> Samples:
    """The metrics of a pod."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(kubectl("get", "--raw", path))
        for sample in family.samples
    }


def total(samples: Samples, name: str, **labels: str) -> float:
    """The sum of a metric over all series with these labels."""
    wanted = set(labels.items())
    return sum(v for (found, own), v in samples.items() if found == name and wanted <= own)


def quantile(before: Samples, after: Samples, name: str, q: float, **labels: str) -> float:
    """A quantile of what came between, in milliseconds, as Prometheus works it out."""
    buckets: dict[float, float] = {}
    for (found, own), value in after.items():
        if found == f"{name}_bucket" and set(labels.items()) <= own:
            bound = float(dict(own)["le"])
            buckets[bound] = buckets.get(bound, 0) + value - before.get((found, own), 0)
    rank, last_bound, last_count = q * max(buckets.values()), 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= rank:
            share = (rank - last_count) / (count - last_count)
            return round(1000 * (last_bound + share * (bound - last_bound)), 1)
        last_bound, last_count = bound, count
    return float("inf")
