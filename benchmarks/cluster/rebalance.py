"""`python -m benchmarks.cluster.rebalance`: what another number of workers costs, on pods.

A word count at 1,000 sentences a second gets a third worker, each in a pod of its own, and loses it
again, several times, on the cluster of KUBECONFIG, where the operator has to be installed. The
longest time without an ack is as somebody sees it who reads the driver's metrics, to some 0.3 s;
latency is that of all trees that end within half a minute of a change.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from benchmarks.cluster.kubectl import DRIVERS, NAME, NAMESPACE, kubectl, manifested, pods
from benchmarks.cluster.metrics import quantile, scrape, total
from benchmarks.machine import bare, machine
from benchmarks.running import word_count

Result = dict[str, Any]
RATE = 1000
FEW, MANY = 2, 3
SECONDS = 30
"""From one change to the next."""
PAUSE_SECONDS = 0.2


def manifest() -> str:
    """The word count, with a task of each component for each of the workers."""
    small = {"resources": {"requests": {"cpu": "100m"}}}
    config = {"start": time.time() + 30, "rate": RATE}
    content = word_count(MANY, config=config, driver=small, worker=small)
    content["spec"]["workers"] = FEW
    return manifested(content)


def change(driver: str, workers: int) -> Result:
    """Have so many workers: the longest time without an ack, and latency."""
    before, began = scrape(driver), time.monotonic()
    kubectl("scale", "topology", NAME, f"--replicas={workers}")
    acked, since, longest = 0.0, began, 0.0
    while (now := time.monotonic()) < began + SECONDS:
        after = scrape(driver)
        ended = total(after, "fulmen_acked_total", component="sentences")
        if ended != acked:
            longest, acked, since = max(longest, now - since), ended, now
        time.sleep(PAUSE_SECONDS)
    latency = "fulmen_complete_latency_seconds"
    return {
        "pause": max(longest, time.monotonic() - since),
        "p50": quantile(before, after, latency, 0.5),
        "p99": quantile(before, after, latency, 0.99),
    }


def measure(given: argparse.Namespace) -> list[Result]:
    """The medians, and the longest pause, of changes up and down; and a rest without any."""
    kubectl("create", "namespace", NAMESPACE)
    try:
        kubectl("apply", "-f", "-", content=manifest())
        kubectl("wait", "--for=condition=Placed", f"topology/{NAME}", "--timeout=5m")
        time.sleep(given.warm)
        [driver] = pods(DRIVERS)
        found = {"none": [change(driver, FEW)], "up": [], "down": []}
        for _ in range(given.changes):
            found["up"].append(change(driver, MANY))
            found["down"].append(change(driver, FEW))
    finally:
        kubectl("delete", "namespace", NAMESPACE)
    return [
        {
            "change": name,
            "pause_p50_seconds": round(float(np.median([one["pause"] for one in those])), 1),
            "pause_max_seconds": round(max(one["pause"] for one in those), 1),
            "p50_ms": float(np.median([one["p50"] for one in those])),
            "p99_ms": float(np.median([one["p99"] for one in those])),
        }
        for name, those in found.items()
    ]


def main() -> None:
    """Measure, and print a line of JSON for each kind of change."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.rebalance")
    parser.add_argument("--warm", type=int, default=60, help="seconds before anything is measured")
    parser.add_argument("--changes", type=int, default=3, help="in each direction; default: 3")
    given = parser.parse_args()
    print(machine(), bare(given)[0]["sentences_per_second"], flush=True)
    for result in measure(given):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
