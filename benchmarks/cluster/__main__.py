"""`python -m benchmarks.cluster`: measures a topology on the cluster of KUBECONFIG.

The operator has to be installed, and nothing else should run. The figures are the driver's own
metrics, and times as somebody who looks at them through the API server sees them, to some 0.3 s.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import goals
from benchmarks.cluster.kubectl import DRIVERS, NAME, NAMESPACE, WORKERS, kubectl, manifested, pods
from benchmarks.cluster.metrics import quantile, scrape, total
from benchmarks.cluster.pod_times import PodTimes, log_times, parts
from benchmarks.machine import bare, machine
from benchmarks.running import word_count

Result = dict[str, Any]
PAUSE_SECONDS = 0.3
START_SECONDS = 300


def acked() -> float:
    """How many trees the newest driver has seen acked; 0 if there is none that answers."""
    try:
        return total(scrape(pods(DRIVERS)[0]), "fulmen_acked_total", component="sentences")
    except (subprocess.CalledProcessError, IndexError):
        return 0


def manifest(rate: int, given: argparse.Namespace) -> str:
    """The word count as `kubectl apply` takes it.

    Args:
        rate: Sentences a second; 0: as many as it can take.
        given: The command's options.
    """
    how: dict[str, Any] = {"slots": given.slots}
    if rate:
        how |= {"config": {"start": time.time(), "rate": rate}, "maxSpoutPending": 10 * rate}
    else:
        how |= {"spout": "Endless", "batchTargetMillis": 1000}
    small = {"resources": {"requests": {"cpu": "100m"}}}
    content = word_count(given.workers, **how, driver=small, worker=small)
    return manifested(content)


def starts(content: str, times: PodTimes, given: argparse.Namespace) -> Result:
    """Seconds from apply to the first acked tuple, and what they were spent on."""
    began, clock = time.time(), time.monotonic()
    kubectl("apply", "-f", "-", content=content)
    first = _await_ack(given, times, began)
    kubectl("wait", "--for=condition=Ready", f"topology/{NAME}", "--timeout=5m")
    return first | {"ready_within_seconds": round(time.monotonic() - clock, 1)}


def _await_ack(given: argparse.Namespace, times: PodTimes, began: float) -> Result:
    """Wait for an ack of a driver that was made after a call.

    Raises:
        TimeoutError: There was none.
    """
    while not (times.of("driver", "running", began) and acked()):
        if time.time() > began + START_SECONDS:
            raise TimeoutError(f"no ack within {START_SECONDS} s")
        time.sleep(PAUSE_SECONDS)
    seen, driver = time.time(), pods(DRIVERS)[0]
    samples = scrape(driver)
    batches = {
        f"{phase}_seconds": round(total(samples, "fulmen_batch_seconds_sum", phase=phase), 2)
        for phase in ("run", "commit")
    }
    spent = parts(began, times, log_times(driver), -(-given.workers // given.slots), seen)
    return {"seconds": round(seen - began, 1), "parts": spent, "batches_since": batches}


def steady(seconds: int) -> Result:
    """Batches and latency for so long."""
    driver = pods(DRIVERS)[0]
    before, began = scrape(driver), time.monotonic()
    time.sleep(seconds)
    after, elapsed = scrape(driver), time.monotonic() - began
    ended = [total(found, "fulmen_acked_total", component="sentences") for found in (before, after)]
    figures: Result = {"sentences_per_second": round((ended[1] - ended[0]) / elapsed)}
    for q in (0.5, 0.99):
        name = f"p{100 * q:.0f}_ms"
        figures[f"batch_{name}"] = quantile(before, after, "fulmen_batch_seconds", q, phase="run")
        figures[name] = quantile(before, after, "fulmen_complete_latency_seconds", q)
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


def losses(times: PodTimes, given: argparse.Namespace) -> Iterator[Result]:
    """Seconds without an ack after each kind of loss; of a driver's, what they were spent on."""
    at_once = ("--grace-period=0", "--force")
    worker = pods(WORKERS)[0]
    killed = ("exec", worker, "--", "pkill", "-9", "-nf", "python_daemon")
    yield {"lost": "python", "seconds": gap(killed, 20)}
    yield {"lost": "worker", "seconds": gap(("delete", "pod", worker, *at_once), 60)}
    for lost, how in (("driver", at_once), ("driver, evicted", ())):
        began = time.time()
        kubectl("delete", "pod", pods(DRIVERS)[0], "--wait=false", *how)
        yield {"lost": lost, **_await_ack(given, times, began)}
        time.sleep(given.warm / 4)  # the next one is to meet a topology that runs


def operator_at_rest(seconds: int) -> Result:
    """What the operator uses while nothing happens."""
    system = "fulmen-system"
    pod = pods("app.kubernetes.io/name=fulmen-operator", system)[0]
    before = scrape(pod, 9465, system)
    time.sleep(seconds)
    after = scrape(pod, 9465, system)
    used = total(after, "process_cpu_seconds_total") - total(before, "process_cpu_seconds_total")
    megabytes = total(after, "process_resident_memory_bytes") / 1e6
    return {"cores": round(used / seconds, 4), "megabytes": round(megabytes)}


def measure(rate: int, given: argparse.Namespace) -> Iterator[tuple[str, Result]]:
    """All figures of a topology at a rate, in a namespace of its own: (benchmark, result)."""
    which = {"workers": given.workers, "slots": given.slots}
    content = manifest(rate, given)
    kubectl("create", "namespace", NAMESPACE)
    try:
        with PodTimes() as times:
            yield "pods-start", {**which, "rate": rate, **starts(content, times, given)}
            time.sleep(given.warm)
            yield "pods", {**which, "rate": rate, **steady(given.seconds)}
            if rate:
                yield "pods-operator", operator_at_rest(given.seconds)
                for result in losses(times, given):
                    yield "pods-loss", {**which, **result}
    finally:
        kubectl("delete", "namespace", NAMESPACE)


def main() -> None:
    """Measure, print a line of JSON for each figure, and then the goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument(
        "--rates",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[1000, 0],
        help="sentences a second; 0: as many as it can take; default: 1000,0",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slots", type=int, default=2, help="workers in each pod; default: 2")
    parser.add_argument("--warm", type=int, default=120, help="seconds before anything is measured")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of measuring")
    given = parser.parse_args()
    results = goals.Results()

    def tell(benchmark: str, result: Result) -> None:
        results.add(benchmark, result)
        print(json.dumps({"benchmark": benchmark, **result}), flush=True)

    print(machine())
    for result in bare(given):
        tell("bare", result)
    for rate in given.rates:
        for benchmark, result in measure(rate, given):
            tell(benchmark, result)
    print(f"\nOn {machine()}, on a cluster:")
    print("\n".join(goals.table(results)))


if __name__ == "__main__":
    main()
