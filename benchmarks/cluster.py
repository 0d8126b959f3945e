"""`python -m benchmarks.cluster`: measures a topology on the cluster of KUBECONFIG.

The operator has to be installed, and nothing else should run. The figures are the driver's own
metrics, and times as somebody who looks at them through the API server sees them, to some 0.3 s.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.running import TOPOLOGIES, word_count

NAME = "benchmark"
NAMESPACE = "fulmen-benchmark"
DRIVERS = f"fulmen.dev/topology={NAME},app.kubernetes.io/component=driver"
WORKERS = f"fulmen.dev/topology={NAME},app.kubernetes.io/component=worker"
PAUSE_SECONDS = 0.3
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def kubectl(*args: str, content: str | None = None, namespace: str = NAMESPACE) -> str:
    """Run kubectl; its output."""
    command = ["kubectl", "-n", namespace, *args]
    return subprocess.run(command, input=content, text=True, check=True, capture_output=True).stdout


def pods(selector: str, namespace: str = NAMESPACE) -> list[str]:
    """The names of the pods that run, the newest first."""
    found = json.loads(kubectl("get", "pods", "-l", selector, "-o", "json", namespace=namespace))
    running = [pod["metadata"] for pod in found["items"] if pod["status"]["phase"] == "Running"]
    running.sort(key=lambda meta: str(meta["creationTimestamp"]), reverse=True)
    return [meta["name"] for meta in running]


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


def acked() -> float:
    """How many trees the newest driver has seen acked; 0 if there is none that answers."""
    try:
        return total(scrape(pods(DRIVERS)[0]), "fulmen_acked_total", component="sentences")
    except (subprocess.CalledProcessError, IndexError):
        return 0


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


def apply(rate: int, workers: int) -> None:
    """Apply the word count to a namespace of its own."""
    if rate:
        content = word_count(workers, config={"start": time.time(), "rate": rate})
        content["spec"]["maxSpoutPending"] = 10 * rate
    else:
        content = word_count(workers, spout="Endless", batchTargetMillis=1000)
    content["spec"]["code"] = {"folder": str(TOPOLOGIES)}
    small = {"resources": {"requests": {"cpu": "100m"}}}
    content["spec"] |= {"driver": small, "worker": small}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(yaml.safe_dump(content))
        file.flush()
        fulmen = Path(sys.executable).with_name("fulmen")
        command = [str(fulmen), "manifest", file.name]
        manifest = subprocess.run(command, text=True, check=True, capture_output=True).stdout
    kubectl("create", "namespace", NAMESPACE)
    kubectl("apply", "-f", "-", content=manifest)


def starts(rate: int, workers: int) -> dict[str, float]:
    """Seconds from apply to Ready, and to the first acked tuple."""
    began = time.monotonic()
    apply(rate, workers)
    kubectl("wait", "--for=condition=Ready", f"topology/{NAME}", "--timeout=5m")
    ready = time.monotonic() - began
    while not acked():
        time.sleep(PAUSE_SECONDS)
    return {"ready": round(ready, 1), "first_ack": round(time.monotonic() - began, 1)}


def steady(seconds: int) -> dict[str, float]:
    """Batches and latency for so long."""
    driver = pods(DRIVERS)[0]
    before = scrape(driver)
    time.sleep(seconds)
    after = scrape(driver)
    emitted = "fulmen_acked_total"
    rate = total(after, emitted, component="sentences") - total(
        before, emitted, component="sentences"
    )
    figures: dict[str, float] = {"acked_per_second": round(rate / seconds)}
    for q in (0.5, 0.99):
        name = f"p{100 * q:.0f}_ms"
        figures[f"batch_{name}"] = quantile(before, after, "fulmen_batch_seconds", q, phase="run")
        latency = "fulmen_complete_latency_seconds"
        figures[f"latency_{name}"] = quantile(before, after, latency, q)
    return figures


def gap(kill: tuple[str, ...], seconds: int) -> float:
    """The longest time without an ack after a kill, in seconds."""
    last, since, longest = acked(), time.monotonic(), 0.0
    kubectl(*kill)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = acked()
        if now and now != last:
            longest, last, since = max(longest, time.monotonic() - since), now, time.monotonic()
        time.sleep(PAUSE_SECONDS)
    return round(max(longest, time.monotonic() - since), 1)


def losses() -> dict[str, float]:
    """The gap after each kind of kill."""
    at_once = ("--grace-period=0", "--force")
    return {
        "python": gap(("exec", pods(WORKERS)[0], "--", "pkill", "-9", "-nf", "pyspark.daemon"), 20),
        "worker": gap(("delete", "pod", pods(WORKERS)[0], *at_once), 60),
        "driver": gap(("delete", "pod", pods(DRIVERS)[0], *at_once), 90),
        "driver, evicted": gap(("delete", "pod", pods(DRIVERS)[0]), 90),
    }


def operator_at_rest(seconds: int) -> dict[str, float]:
    """What the operator uses while nothing happens."""
    system = "fulmen-system"
    pod = pods("app.kubernetes.io/name=fulmen-operator", system)[0]
    before = scrape(pod, 9465, system)
    time.sleep(seconds)
    after = scrape(pod, 9465, system)
    used = total(after, "process_cpu_seconds_total") - total(before, "process_cpu_seconds_total")
    megabytes = total(after, "process_resident_memory_bytes") / 1e6
    return {"cores": round(used / seconds, 4), "megabytes": round(megabytes)}


def main() -> None:
    """Measure, and print one line of JSON for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rate", type=int, default=1000, help="sentences a second; 0: as many as it can take"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--warm", type=int, default=60, help="seconds before anything is measured")
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    try:
        print(json.dumps({"start": starts(given.rate, given.workers)}), flush=True)
        time.sleep(given.warm)
        print(json.dumps({"steady": steady(given.seconds)}), flush=True)
        if given.rate:
            print(json.dumps({"operator": operator_at_rest(given.seconds)}), flush=True)
            print(json.dumps({"seconds without an ack after": losses()}), flush=True)
    finally:
        kubectl("delete", "namespace", NAMESPACE)


if __name__ == "__main__":
    main()
