"""Other shapes of topologies than a warm word count, and another engine to compare with."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import running
from benchmarks.running import Watcher, document, run_for, word_count
from fulmen.engine.batches.done import Done
from fulmen.engine.totals.totals import Totals

Result = dict[str, Any]
COLD_SECONDS = 30
FIRST_RATE = 1000
FIRST_SECONDS = (1, 2, 3, 5, 10, 30)
ROW = 10
ROW_SECONDS = 40


def bytewax(arguments: argparse.Namespace) -> list[Result]:
    """The same word count with Bytewax and two threads, which keeps and acks nothing."""
    if importlib.util.find_spec("bytewax") is None:
        print("bytewax: not installed; pip install bytewax")
        return []
    command = [sys.executable, "-m", "benchmarks.dataflow", "2", str(arguments.seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(done.stdout)]


def cold(arguments: argparse.Namespace) -> list[Result]:
    """Sentences in the first 30 seconds after the start, and as many seconds later."""
    results = []
    for workers in arguments.workers:
        with running.running(word_count(workers, spout="Endless"), Watcher()) as driver:
            first = _emitted_in(driver, COLD_SECONDS)
            run_for(driver, arguments.warm)
            later = _emitted_in(driver, arguments.seconds)
        results.append(
            {
                "workers": workers,
                "first": round(first),
                "warm": round(later),
                "share": round(first / later, 2),
            }
        )
    return results


@dataclass
class Ends(Watcher):
    """Remembers when each batch ended, too.

    Attributes:
        ends: Seconds of the wall clock, of each batch in which trees were acked.
    """

    ends: list[float] = field(default_factory=list)

    def batch(self, totals: Totals, done: Done) -> None:
        """One batch counted."""
        before = len(self.latencies)
        super().batch(totals, done)
        self.ends += [time.time()] * (len(self.latencies) - before)


def first(arguments: argparse.Namespace) -> list[Result]:
    """Latency at 1,000 sentences/s from the very first batch on, and how many are not acked yet."""
    results = []
    for workers in arguments.workers:
        start = time.time() + 15
        per_task = FIRST_RATE / workers
        watcher = Ends(due=lambda k, t=start, r=per_task: t + k / r)
        content = word_count(workers, config={"start": start, "rate": FIRST_RATE})
        with running.running(content, watcher) as driver:
            time.sleep(max(0.0, start - time.time()))  # Spark runs, and has run no batch
            run_for(driver, FIRST_SECONDS[-1])
        for since, until in pairwise((0, *FIRST_SECONDS)):
            of = [
                times
                for end, times in zip(watcher.ends, watcher.latencies, strict=True)
                if since < end - start <= until
            ]
            acked = sum(
                len(times)
                for end, times in zip(watcher.ends, watcher.latencies, strict=True)
                if end - start <= until
            )
            p50, p99 = np.percentile(np.concatenate(of), (50, 99)) if of else (np.nan, np.nan)
            results.append(
                {
                    "workers": workers,
                    "seconds": f"{since} to {until}",
                    "p50_ms": round(float(p50)) if of else None,
                    "p99_ms": round(float(p99)) if of else None,
                    "backlog": max(0, FIRST_RATE * until - acked),
                }
            )
    return results


def _emitted_in(driver: Any, seconds: float) -> float:
    """Sentences a second in that time."""
    before, began = driver.totals.component("sentences")["emitted"], time.monotonic()
    run_for(driver, seconds)
    emitted = driver.totals.component("sentences")["emitted"] - before
    return float(emitted / (time.monotonic() - began))


def row(arguments: argparse.Namespace) -> list[Result]:
    """Ten bolts in a row by shuffle: trees in the first 40 seconds, and latency at 1,000/s."""
    results = []
    for workers in arguments.workers:
        watcher = Watcher()
        with running.running(bolts_in_a_row(workers, "Endless"), watcher) as driver:
            run_for(driver, ROW_SECONDS)
        trees = sum(watcher.acked)
        start = time.time() + 15
        per_task = 1000 / workers
        watcher = Watcher(due=lambda k, t=start, r=per_task: t + k / r)
        config = {"start": start, "rate": 1000}
        with running.running(bolts_in_a_row(workers, "Clock", config), watcher) as driver:
            run_for(driver, max(0.0, start - time.time()) + arguments.warm)
            watcher.forget()
            run_for(driver, arguments.seconds)
        p50, p99 = np.percentile(np.concatenate(watcher.latencies), (50, 99))
        results.append(
            {
                "workers": workers,
                "first_trees": trees,
                "p50_ms": round(float(p50), 1),
                "p99_ms": round(float(p99), 1),
                "batch_p50_ms": round(float(np.median(watcher.seconds)) * 1000, 1),
            }
        )
    return results


def bolts_in_a_row(workers: int, spout: str, config: Any = None) -> dict[str, Any]:
    """A spout, and bolts that pass on what they get."""
    names = ["sentences", *(f"bolt-{n}" for n in range(ROW))]
    return document(
        {
            "name": "sentences",
            "class": f"sentences.{spout}",
            "parallelism": workers,
            "config": config or {},
        },
        [
            {
                "name": name,
                "class": "sentences.Relay",
                "parallelism": workers,
                "inputs": [{"from": before, "grouping": {"type": "shuffle"}}],
            }
            for before, name in pairwise(names)
        ],
        workers=workers,
    )
