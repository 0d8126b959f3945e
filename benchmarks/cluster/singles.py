"""`python -m benchmarks.cluster.singles`: many topologies of one pod each, on a cluster.

All are applied at once. What is measured: the time to Ready of each, and after a rest the memory
and the CPU of its pod, by its cgroup. Each gets a sentence a second, and must have acked one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterable
from typing import Any

from benchmarks.cluster.kubectl import kubectl
from benchmarks.cluster.metrics import scrape, total
from benchmarks.cluster.operator import author_code
from benchmarks.machine import bare, machine
from benchmarks.running import word_count

NAMESPACE = "fulmen-singles-benchmark"
START_SECONDS = 600
MIB = 1024 * 1024
CGROUP = """cd /sys/fs/cgroup
if [ -e memory.current ]; then
    cat memory.current memory.peak
    sed -n "s/usage_usec \\(.*\\)/\\1000/p" cpu.stat
else
    cat memory/memory.usage_in_bytes memory/memory.max_usage_in_bytes cpuacct/cpuacct.usage
fi
"""
"""Bytes now and at most, and nanoseconds of CPU: as both versions of cgroups tell them."""


def topology(name: str, code: dict[str, str]) -> dict[str, Any]:
    """A topology in one pod, with next to nothing to do."""
    content = word_count(1, config={"start": time.time(), "rate": 1}, deployment="single-pod")
    content["metadata"]["name"] = name
    content["spec"] |= {"code": {"files": code}, "checkpoint": {"deletionPolicy": "Delete"}}
    return content


def start(names: Iterable[str]) -> dict[str, float]:
    """Apply them all at once; the seconds until each was Ready."""
    code = author_code()
    content = {"apiVersion": "v1", "kind": "List", "items": [topology(n, code) for n in names]}
    path = f"/apis/fulmen.dev/v1alpha1/namespaces/{NAMESPACE}/topologies?watch=1"
    watch = subprocess.Popen(["kubectl", "get", "--raw", path], stdout=subprocess.PIPE, text=True)
    assert watch.stdout is not None
    began = time.monotonic()
    try:
        kubectl("apply", "-f", "-", content=json.dumps(content), namespace=NAMESPACE)
        missing, ready = set(names), dict[str, float]()
        for line in watch.stdout:
            found = json.loads(line)["object"]
            name, seconds = found["metadata"]["name"], time.monotonic() - began
            conditions = {
                c["type"]: c["status"] for c in found.get("status", {}).get("conditions", ())
            }
            if name in missing and conditions.get("Ready") == "True":
                missing.discard(name)
                ready[name] = round(seconds, 1)
            if not missing:
                return ready
            if seconds > START_SECONDS:
                break
        raise TimeoutError(f"not Ready within {START_SECONDS} s: {missing}")
    finally:
        watch.terminate()
        watch.wait()


def used(pod: str) -> tuple[float, float, float, float]:
    """MiB now and at most, seconds of CPU, and when that was read."""
    text = kubectl("exec", pod, "--", "sh", "-c", CGROUP, namespace=NAMESPACE)
    current, peak, nanoseconds = map(int, text.split())
    return current / MIB, peak / MIB, nanoseconds / 1e9, time.monotonic()


def at_rest(pods: list[str], seconds: int) -> list[dict[str, float]]:
    """What each pod uses."""
    before = [used(pod) for pod in pods]
    time.sleep(seconds)
    after = [used(pod) for pod in pods]
    return [
        {
            "mib": round(now[0]),
            "peak_mib": round(now[1]),
            "cores": round((now[2] - then[2]) / (now[3] - then[3]), 4),
            "acked": total(scrape(pod, namespace=NAMESPACE), "fulmen_acked_total"),
        }
        for pod, then, now in zip(pods, before, after, strict=True)
    ]


def measure(number: int, warm: int, seconds: int) -> dict[str, Any]:
    """All figures of so many topologies."""
    names = [f"single-{n}" for n in range(number)]
    kubectl("create", "namespace", NAMESPACE)
    try:
        ready = sorted(start(names).values())
        time.sleep(warm)
        pods = at_rest([f"{name}-driver-1" for name in names], seconds)
    finally:
        kubectl("delete", "namespace", NAMESPACE)
    return {
        "topologies": number,
        "ready_p50_seconds": ready[len(ready) // 2],
        "ready_max_seconds": ready[-1],
        **{
            f"{name}_{which}": of(pod[name] for pod in pods)
            for name in ("mib", "peak_mib", "cores")
            for which, of in (("min", min), ("max", max))
        },
        "all_acking": all(pod["acked"] > 0 for pod in pods),
    }


def main() -> None:
    """Measure, and print a line of JSON for each number of topologies."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.singles")
    parser.add_argument("--topologies", default="1,8,10", help="how many at once; default: 1,8,10")
    parser.add_argument("--warm", type=int, default=60, help="seconds before anything is measured")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of measuring")
    given = parser.parse_args()
    print(machine())
    for number in map(int, given.topologies.split(",")):
        result = {"bare": bare(given)[0]["sentences_per_second"]}
        result |= measure(number, given.warm, given.seconds)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
