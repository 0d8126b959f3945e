"""Windows of event time: what a click costs in one, and how long a batch takes that ends many.

And what the busiest of four workers has to do if some users click much more often than others, with
and without aggregation before clicks leave their worker.

In one process, without Spark, and in CPU seconds: so the figures depend little on what else the
machine does.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks import running
from benchmarks.running import Watcher, document
from fulmen.engine.worker.process import CollectionPauses

Result = dict[str, Any]
KEYS = (1_000, 100_000)
AGGREGATES = ("sum(at)", "mean(at)", "max(at)", "distinct(at)")
WARM = 100_000
WORKERS, HOT_WARM, HOT_CLICKS = 4, 500_000, 3_000_000
CLICKS = 1_200_000
"""A window of ten seconds ends: one of each user."""
BATCH = 100_000
BYTEWAX_CLICKS = 300_000
EXPONENT = 1.5
"""The n-th user clicks as often as 1 / n**1.5 says: the first one makes 38 % of all clicks."""
_pauses = CollectionPauses()


def windows(arguments: argparse.Namespace) -> list[Result]:
    """Clicks a CPU second, counted by user: without windows, in windows, and by Bytewax."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawned, max_tasks_per_child=1) as fresh:
        # Each in a process of its own: garbage of another one would be collected in its time.
        results: list[Result] = [
            {"keys": keys, "windows": how, **fresh.submit(_measure, clicks(keys, how)).result()}
            for keys in KEYS
            for how in ("none", "tumbling", "arrow")
        ]
        for aggregate in AGGREGATES:
            for how in ("tumbling", "arrow"):
                found = fresh.submit(_measure, clicks(100_000, how, aggregate)).result()
                results.append({"keys": 100_000, "windows": how, "aggregate": aggregate, **found})
        for hot in (True, False):
            for partial in (False, "auto", True):
                found = fresh.submit(_measure_workers, hot, partial).result()
                results.append({"keys": 100_000, "hot": hot, "partial": partial, **found})
    if importlib.util.find_spec("bytewax") is None:
        print("bytewax: not installed; pip install bytewax")
        return results
    command = [sys.executable, "-m", "benchmarks.dataflow_windows", "1000", str(BYTEWAX_CLICKS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [*results, {"windows": "bytewax", **json.loads(done.stdout)}]


def clicks(keys: int, how: str, aggregate: str = "count") -> dict[str, Any]:
    """Clicks, counted by user, and a bolt that takes what windows emit.

    Args:
        keys: How many users there are.
        how: none: without windows; tumbling: in windows; arrow: the same, of record batches.
        aggregate: What windows have of them.
    """
    spout: dict[str, Any] = {"name": "clicks", "class": "clicks.Clicks", "config": {"keys": keys}}
    grouping = {"type": "fields", "fields": ["user"]}
    count: dict[str, Any] = {
        "name": "count",
        "class": "clicks.Count",
        "inputs": [{"from": "clicks", "grouping": grouping}],
    }
    bolts = [count]
    if how == "arrow":
        spout["class"] = "clicks.ArrowClicks"
    if how != "none":
        spout["eventTime"] = {"field": "at", "unit": "ms"}
        count["class"] = "fulmen.windows.Aggregate"
        count["config"] = {
            "key": ["user"],
            "window": {"type": "tumbling", "size": "10s"},
            "aggregates": {"clicks": aggregate},
        }
        inputs = [{"from": "count", "grouping": {"type": "shuffle"}}]
        bolts.append({"name": "nowhere", "class": "clicks.Nowhere", "inputs": inputs})
    return document(spout, bolts, workers=1, batchTargetMillis=60_000)


def _measure_workers(hot: bool, partial: bool | str) -> Result:
    content = clicks(100_000, "tumbling")
    spec = content["spec"]
    spec["workers"] = WORKERS
    [spout], [count, nowhere] = spec["spouts"], spec["bolts"]
    for component in (spout, count, nowhere):
        component["parallelism"] = WORKERS
    spout["config"]["exponent"] = EXPONENT if hot else 0.0
    count["config"]["partial"] = partial
    watcher = Watcher()
    with running.running(content, watcher, running.in_this_process) as driver:
        while sum(watcher.acked) < HOT_WARM:
            _step(driver)
        watcher.forget()
        while sum(watcher.acked) < HOT_CLICKS:
            _step(driver)
    acked, busy = sum(watcher.acked), sum(watcher.busy, Counter[int]())
    return {
        "clicks_per_cpu_second": round(acked / sum(busy.values())),
        "of_the_busiest": round(acked / sum(max(one.values()) for one in watcher.busy)),
    }


def _measure(content: dict[str, Any]) -> Result:
    watcher = Watcher()
    with running.running(content, watcher, running.in_this_process) as driver:
        while sum(watcher.acked) < WARM:
            _step(driver)
        watcher.forget()
        batches = []
        while sum(watcher.acked) < CLICKS:
            began = time.process_time()
            _step(driver)
            batches.append(time.process_time() - began)
    return {
        "clicks_per_cpu_second": round(sum(watcher.acked) / sum(batches)),
        "batch_p50_ms": round(statistics.median(batches) * 1000),
        "batch_most_ms": round(max(batches) * 1000),
    }


def _step(driver: Any) -> None:
    """One batch of the same size as every other. As in workers, no garbage is collected in it."""
    driver.coordinator.size.permit = BATCH
    driver.coordinator.size.emit_seconds = 3600.0
    _pauses.begin()
    driver.step()
    _pauses.end()
