"""`python -m benchmarks.cluster.operator`: what an operator costs, on the cluster of KUBECONFIG.

The operator runs here, as a process of its own that looks after one namespace; no other may do so
meanwhile. Topologies that are "pending" have a driver's pod that no node takes, and "suspended"
ones have none; "active" ones run. Each figure is of a rest after the topologies have settled.

With `--log`, the log of the API server, calls are those that it has answered, of the operator and
of drivers and Spark; without it they are what the operator itself counts: it says so of no watch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.cluster.kubectl import kubectl as any_kubectl
from benchmarks.cluster.metrics import Samples, quantile, total
from benchmarks.running import TOPOLOGIES, word_count

NAMESPACE = "fulmen-operator-benchmark"
METRICS_PORT, PROBE_PORT = 19465, 18080
LOGGED = re.compile(r'"HTTP" verb="(\w+)" URI="([^"]+)".* userAgent="([^"]*)"')
AGENTS = ("fulmen-operator", "kopf", "fulmen-driver", "fabric8")
NOWHERE = {"podTemplate": {"spec": {"nodeSelector": {"fulmen.dev/nowhere": "true"}}}}
PAUSE_SECONDS = 1.0
SETTLED_SECONDS = 10
"""So long no topology's status has changed."""


def kubectl(*args: str, content: str | None = None) -> str:
    """Run kubectl in the namespace that is measured; its output."""
    return any_kubectl(*args, content=content, namespace=NAMESPACE)


def topology(name: str, kind: str, code: dict[str, str]) -> dict[str, Any]:
    """A topology that is to be active, pending or suspended."""
    content = word_count(1, config={"start": time.time(), "rate": 1000})
    content["metadata"]["name"] = name
    spec = content["spec"]
    small = {"resources": {"requests": {"cpu": "50m"}}}
    spec |= {"driver": small, "worker": small, "code": {"files": code}}
    if kind == "suspended":
        spec["state"] = "Suspended"
    if kind == "pending":
        spec["driver"] = small | NOWHERE
    if kind != "active":
        spec["checkpoint"] = {"uri": "file:///tmp/checkpoint"}  # no claims, which cost others more
    return content


def author_code() -> dict[str, str]:
    """The files of the measured topologies, as `fulmen manifest` packs them."""
    content = word_count(1)
    content["spec"]["code"] = {"folder": str(TOPOLOGIES)}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(yaml.safe_dump(content))
        file.flush()
        command = [str(Path(sys.executable).with_name("fulmen")), "manifest", "--inline", file.name]
        manifest = subprocess.run(command, text=True, check=True, capture_output=True).stdout
    files: dict[str, str] = yaml.safe_load(manifest)["spec"]["code"]["files"]
    return files


@contextmanager
def operator(image: str) -> Iterator[None]:
    """The operator runs, for this namespace."""
    env = {
        **os.environ,
        "FULMEN_NAMESPACES": NAMESPACE,
        "FULMEN_IMAGE": image,
        "FULMEN_METRICS_PORT": str(METRICS_PORT),
        "FULMEN_PROBE_PORT": str(PROBE_PORT),
    }
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "fulmen_operator"]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            yield
            if process.poll() is not None:
                log.seek(0)
                raise RuntimeError(f"the operator has ended: {log.read()[-2000:]}")
        finally:
            process.terminate()
            process.wait(30)


def figures() -> Samples:
    """The operator's own metrics."""
    with urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def settle(count: int, seconds: float) -> float:
    """Wait until all topologies have a status that does not change; how long that took."""
    columns = "custom-columns=S:.status.state,V:.metadata.resourceVersion"
    began, changed, last = time.monotonic(), time.monotonic(), ""
    while time.monotonic() - changed < SETTLED_SECONDS:
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not settled within {seconds} s")
        now = kubectl("get", "topologies", "--no-headers", "-o", columns)
        lines = now.split("\n")[:-1]
        states = [line.split()[0] for line in lines]
        is_there = len(lines) == count and not {"<none>", "Starting"} & set(states)
        seen = now if "Active" not in states else " ".join(states)  # active ones go on
        if not is_there or seen != last:
            changed, last = time.monotonic(), seen
        time.sleep(PAUSE_SECONDS)
    return round(changed - began, 1)


@contextmanager
def logged(log: Path | None) -> Iterator[Counter[str]]:
    """Calls by client and verb, filled in at the end, if the API server's log is at hand."""
    found: Counter[str] = Counter()
    if log is None:
        yield found
        return
    begin = log.stat().st_size
    level = ("replace", "--raw", "/debug/flags/v", "-f", "-")
    kubectl(*level, content="3")
    try:
        yield found
    finally:
        kubectl(*level, content="0")
    with log.open(encoding="utf-8", errors="replace") as lines:
        lines.seek(begin)
        for match in filter(None, map(LOGGED.search, lines)):
            verb, uri, agent = match.groups()
            if agent.startswith(AGENTS) and (NAMESPACE in uri or "kopf" in agent):
                resource = uri.partition("?")[0].partition(NAMESPACE)[2].split("/")[1:2]
                found[f"{agent.split('/')[0]} {verb} {''.join(resource)}"] += 1


def at_rest(seconds: float, log: Path | None) -> dict[str, Any]:
    """What the operator costs in so many seconds."""
    before = figures()
    with logged(log) as calls:
        time.sleep(seconds)
    after = figures()

    def grown(name: str) -> float:
        return total(after, name) - total(before, name)

    minutes = seconds / 60
    name = "fulmen_operator_reconcile_seconds"
    looks = grown(f"{name}_count")
    return {
        "calls_per_minute": {call: round(n / minutes, 1) for call, n in sorted(calls.items())},
        "all_calls_per_minute": round(sum(calls.values()) / minutes, 1),
        "own_calls_per_minute": round(grown("fulmen_operator_api_requests_total") / minutes, 1),
        "reconciles_per_minute": round(looks / minutes, 1),
        "reconcile_p50_ms": quantile(before, after, name, 0.5) if looks else None,
        "reconcile_p99_ms": quantile(before, after, name, 0.99) if looks else None,
        "cpu_seconds_per_minute": round(grown("process_cpu_seconds_total") / minutes, 2),
        "megabytes": round(total(after, "process_resident_memory_bytes") / 1e6),
    }


def measure(kinds: dict[str, int], given: argparse.Namespace) -> dict[str, Any]:
    """Make so many topologies of each kind, let them settle, and look."""
    code, log = author_code(), Path(given.log) if given.log else None
    names = [(kind, n) for kind, count in kinds.items() for n in range(count)]
    objects = [topology(f"{kind}-{n}", kind, code) for kind, n in names]
    everything = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl("create", "namespace", NAMESPACE)
    try:
        with operator(given.image):
            before_calls = time.monotonic()
            kubectl("create", "-f", "-", content=json.dumps(everything))
            created = round(time.monotonic() - before_calls, 1)
            settled = settle(len(objects), given.settle)
            start = figures()
            name = "fulmen_operator_reconcile_seconds"
            making = {
                "created_in_seconds": created,
                "settled_in_seconds": settled,
                "cpu_seconds": round(total(start, "process_cpu_seconds_total"), 1),
                "own_calls": total(start, "fulmen_operator_api_requests_total"),
                "reconciles": total(start, f"{name}_count"),
                "reconcile_p50_ms": quantile({}, start, name, 0.5),
                "reconcile_p99_ms": quantile({}, start, name, 0.99),
            }
            rest = at_rest(given.seconds, log)
        with operator(given.image):  # another one takes over what is there
            time.sleep(given.settle_again)
            again = figures()
            over = {
                "cpu_seconds": round(total(again, "process_cpu_seconds_total"), 1),
                "own_calls": total(again, "fulmen_operator_api_requests_total"),
                "megabytes": round(total(again, "process_resident_memory_bytes") / 1e6),
            }
        return {"making": making, "rest": rest, "taking over": over}
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--timeout=15m")


def main() -> None:
    """Measure, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--active", type=int, default=0)
    parser.add_argument("--pending", type=int, default=0)
    parser.add_argument("--suspended", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120, help="of rest that are measured")
    parser.add_argument("--settle", type=float, default=900, help="the most it may take to settle")
    parser.add_argument("--settle-again", type=float, default=30)
    parser.add_argument("--image", default="fulmen:dev", help="of drivers and workers")
    parser.add_argument("--log", default=os.environ.get("API_SERVER_LOG", ""))
    given = parser.parse_args()
    kinds = {kind: getattr(given, kind) for kind in ("active", "pending", "suspended")}
    print(json.dumps({"topologies": kinds, **measure(kinds, given)}), flush=True)


if __name__ == "__main__":
    main()
