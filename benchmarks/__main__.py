"""`python -m benchmarks [NAME ...]`: measures Fulmen on this machine, on real Spark.

Every figure comes with what it is to be compared with, measured in the same run: what one core does
in a bare Python loop (`bare`). docs/measurements.md keeps the results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import (
    goals,
    lifetimes,
    rebalance,
    running,
    shapes,
    slots,
    starts,
    transactions,
    windows,
)
from benchmarks.machine import bare, machine
from benchmarks.running import Watcher, cpu_seconds, memory_bytes, run_for, word_count

Result = dict[str, Any]
NOISE = 0.02
"""Cores that may be missing before figures are worth little."""
WARM_EMIT_SECONDS = 0.02
"""Of batches that warm JVMs: they warm with the number of jobs, and a long batch is one job too."""


def latency(arguments: argparse.Namespace) -> list[Result]:
    """Complete latency at a fixed rate: from when a sentence was due to the commit of its ack."""
    results = []
    for workers in arguments.workers:
        for rate in arguments.rates:
            start = time.time() + 15
            per_task = rate / workers
            watcher = Watcher(due=lambda k, t=start, r=per_task: t + k / r)
            content = word_count(workers, config={"start": start, "rate": rate})
            with running.running(content, watcher) as driver:
                run_for(driver, max(0.0, start - time.time()) + arguments.warm)
                watcher.forget()
                before, began = cpu_seconds(), time.monotonic()
                run_for(driver, arguments.seconds)
                elapsed, after = time.monotonic() - began, cpu_seconds()
            milliseconds = np.concatenate(watcher.latencies)
            p50, p99 = np.percentile(milliseconds, (50, 99))
            results.append(
                {
                    "workers": workers,
                    "rate": rate,
                    "p50_ms": round(float(p50), 1),
                    "p99_ms": round(float(p99), 1),
                    "batch_p50_ms": round(float(np.median(watcher.seconds)) * 1000, 1),
                    "acked_per_second": round(len(milliseconds) / elapsed),
                    "cores": {k: round((after[k] - before[k]) / elapsed, 2) for k in after},
                }
            )
    return results


def _throughput(workers: int, arguments: argparse.Namespace, **how: Any) -> Result:
    watcher = Watcher()
    spec = {"batchTargetMillis": arguments.target, **how.pop("spec", {})}
    with running.running(word_count(workers, **how, **spec), watcher) as driver:
        driver.coordinator.size.emit_seconds = WARM_EMIT_SECONDS
        run_for(driver, 3 / 4 * arguments.warm)
        driver.coordinator.size.emit_seconds = 0
        run_for(driver, arguments.warm / 4)
        watcher.forget()
        emitted = driver.totals.component("sentences")["emitted"]
        before, began = cpu_seconds(), time.monotonic()
        run_for(driver, arguments.seconds)
        elapsed, after = time.monotonic() - began, cpu_seconds()
        emitted = driver.totals.component("sentences")["emitted"] - emitted
    return {
        "workers": workers,
        "sentences_per_second": round(emitted / elapsed),
        "batch_p50_ms": round(float(np.median(watcher.seconds)) * 1000, 1),
        "sentences_a_batch": round(emitted / len(watcher.seconds)),
        "cores": {k: round((after[k] - before[k]) / elapsed, 2) for k in after},
    }


def throughput(arguments: argparse.Namespace) -> list[Result]:
    """Sentences a second through a per-tuple spout and BasicBolts, acked and committed."""
    return [_throughput(w, arguments, spout="Endless") for w in arguments.workers]


def unacked(arguments: argparse.Namespace) -> list[Result]:
    """The same without message ids and ackers: what acking costs."""
    return [
        _throughput(w, arguments, spout="Endless", config={"reliable": False}, spec={"ackers": 0})
        for w in arguments.workers
    ]


def arrow(arguments: argparse.Namespace) -> list[Result]:
    """Sentences a second through an ArrowSpout and ArrowBolts, acked and committed."""
    return [
        _throughput(w, arguments, spout="ArrowSentences", prefix="Arrow") for w in arguments.workers
    ]


def idle(arguments: argparse.Namespace) -> list[Result]:
    """Cores that a topology uses which has nothing to do, and its memory.

    In process and on Spark; with a `next_tuple` that returns False, and with one that returns None.
    """
    results = []
    ways = [(1, running.in_this_process), *((n, running.in_the_driver) for n in arguments.workers)]
    for says, (workers, jobs) in itertools.product((True, False), ways):
        watcher = Watcher()
        content = word_count(workers, spout="Idle", config={"says": says})
        with running.running(content, watcher, jobs) as driver:
            run_for(driver, arguments.warm)
            before, began, batches = cpu_seconds(), time.monotonic(), len(watcher.seconds)
            run_for(driver, arguments.seconds)
            elapsed, after = time.monotonic() - began, cpu_seconds()
            megabytes = {k: round(v / 1e6) for k, v in memory_bytes().items()}
        results.append(
            {
                "next_tuple": "False" if says else "None",
                "workers": "in process" if jobs is running.in_this_process else workers,
                "cores": {k: round((after[k] - before[k]) / elapsed, 4) for k in after},
                "batches": len(watcher.seconds) - batches,
                "megabytes": megabytes,
            }
        )
    return results


def linear(arguments: argparse.Namespace) -> list[Result]:
    """Microseconds a sentence in batches of 10^4, 10^5 and 10^6 sentences."""
    results = []
    for workers in arguments.workers:
        watcher = Watcher()
        content = word_count(workers, spout="Endless", batchTargetMillis=60_000)
        with running.running(content, watcher) as driver:
            run_for(driver, arguments.warm)
            for size in arguments.sizes:
                times = [_one_batch(driver, watcher, size, workers) for _ in range(3)]
                results.append(
                    {
                        "workers": workers,
                        "sentences": size,
                        "microseconds_a_sentence": round(min(times) / size * 1e6, 2),
                        "megabytes": {k: round(v / 1e6) for k, v in memory_bytes().items()},
                    }
                )
    return results


def _one_batch(driver: Any, watcher: Watcher, size: int, workers: int) -> float:
    driver.coordinator.size.permit = size // workers
    driver.coordinator.size.emit_seconds = 3600.0
    while not driver.step():
        pass
    return watcher.seconds[-1]


ALL: dict[str, Callable[[argparse.Namespace], list[Result]]] = {
    "bare": bare,
    "bytewax": shapes.bytewax,
    "latency": latency,
    "throughput": throughput,
    "unacked": unacked,
    "arrow": arrow,
    "cold": shapes.cold,
    "first": shapes.first,
    "row": shapes.row,
    "idle": idle,
    "linear": linear,
    "rebalance": rebalance.rebalance,
    "start": starts.start,
    "example": starts.example,
    "recovery": lifetimes.recovery,
    "overhead": lifetimes.overhead,
    "slots": slots.slots,
    "keys": lifetimes.keys,
    "transactions": transactions.transactions,
    "committers": transactions.committers,
    "commits": transactions.commits,
    "windows": windows.windows,
    "soak": lifetimes.soak,
}


SMALL = ["bare", "bytewax", "throughput"]
"""What `--small` measures."""


def numbers(text: str) -> list[int]:
    """A comma-separated list of whole numbers."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--small", action="store_true", help="a look that takes a minute")
    parser.add_argument("--workers", type=numbers, default=[1, 2], help="default: 1,2")
    parser.add_argument("--rates", type=numbers, default=[1000, 10000], help="sentences a second")
    parser.add_argument("--warm", type=float, default=60, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of measuring")
    parser.add_argument("--target", type=int, default=1000, help="batchTargetMillis of throughput")
    parser.add_argument("--sizes", type=numbers, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--counts", type=numbers, default=[2, 4, 8, 16], help="of overhead")
    parser.add_argument("--starts", type=int, default=3, help="of start and example, each cold")
    parser.add_argument("--minutes", type=float, default=30, help="of soak")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(ALL):
        parser.error(f"no benchmark {sorted(unknown)}: there are {sorted(ALL)}")
    if arguments.small:
        arguments.names, arguments.warm, arguments.seconds = SMALL, 10.0, 5.0
    print(machine())
    results = goals.Results()
    for name in arguments.names or ALL:
        began, stolen = time.monotonic(), running.stolen_seconds()
        for result in ALL[name](arguments):
            results.add(name, result)
            print(json.dumps({"benchmark": name, **result}), flush=True)
        share = (running.stolen_seconds() - stolen) / (time.monotonic() - began)
        if share > NOISE:
            print(f"{name}: {share:.2f} cores went to other machines of this host, which delays")
    warm = f"measured for {arguments.seconds:g} s, warm for {arguments.warm:g} s"
    print(f"\nOn {machine()}, {warm}:")
    print("\n".join(goals.table(results)))


if __name__ == "__main__":
    main()
