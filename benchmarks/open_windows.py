"""Many open windows, and many timers: `python -m benchmarks.open_windows`.

What they take of memory, what a batch costs that changes 1,000 of them and its commit, what one
costs that changes none, and how long a restart takes. In one process without Spark, in CPU seconds.
Each is a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.running import TOPOLOGIES
from benchmarks.state import memory
from benchmarks.windows import clicks
from fulmen.engine.driver.driver import Driver
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.topology.validation.check import check

BATCH, CHANGED, BATCHES = 50_000, 1_000, 30
LOADS = {"windows": 1_000_000, "timers": 10_000_000}


def topology(kind: str, count: int) -> dict[str, Any]:
    """One that opens so many windows, or sets so many timers."""
    content = clicks(count, "tumbling")
    [spout], [bolt, nowhere] = content["spec"]["spouts"], content["spec"]["bolts"]
    spout["class"] = "clicks.EachUser"
    if kind == "windows":
        bolt["config"]["window"]["size"] = "1d"
    else:
        bolt["class"] = "clicks.Timed"
        del bolt["config"]
        content["spec"]["bolts"].remove(nowhere)
    return content


def step(driver: Any, size: int) -> float:
    """CPU seconds of a batch of so many clicks."""
    began = time.process_time()
    driver.coordinator.size.permit = size
    driver.coordinator.size.emit_seconds = 3600.0
    driver.step()
    return time.process_time() - began


def measure(kind: str, count: int) -> dict[str, Any]:
    """All figures of one kind, in this very process."""
    runnable = check(topology(kind, count), TOPOLOGIES).runnable(TOPOLOGIES)
    with tempfile.TemporaryDirectory() as folder:

        def start() -> Any:
            return Driver(runnable, InProcessJobs(), f"file://{folder}/checkpoint").start()

        driver = start()
        step(driver, 1)
        gc.collect()
        empty, loading, loaded = memory(), time.process_time(), 0.0
        while driver.totals.trees.acked < count:
            step(driver, BATCH)
        loaded = time.process_time() - loading
        gc.collect()
        full = memory()
        batches = [step(driver, CHANGED) for _ in range(BATCHES)]
        driver.close()
        restarting = time.process_time()
        driver = start()
        step(driver, 1)
        restarted = time.process_time() - restarting
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        driver.close()
    return {
        "of": kind,
        "number": count,
        "us_to_make_one": round(loaded / count * 1e6, 1),
        "bytes_each": round((full - empty) / count),
        "batch_of_1000_ms": round(1000 * statistics.median(batches)),
        "most_ms": round(1000 * max(batches)),
        "restart_s": round(restarted, 1),
        "checkpoint_mb": round(size / 1e6),
    }


def main() -> None:
    """Print a line of JSON for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_windows", description=__doc__)
    parser.add_argument("--once", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, default=1.0, help="of the full numbers, for a look")
    given = parser.parse_args()
    if given.once:
        print(json.dumps(measure(given.once[0], int(given.once[1]))))
        return
    print(machine())
    for kind, count in LOADS.items():
        command = [sys.executable, "-m", "benchmarks.open_windows", "--once"]
        subprocess.run([*command, kind, str(int(given.share * count))], check=True)


if __name__ == "__main__":
    main()
