"""`python -m benchmarks.moving_state`: other numbers of tasks for a large state, while it runs.

A bolt counts rows about very many keys, whose state is in the checkpoint already, in memory or on
disk. Its number of tasks changes while rows come at a rate. What is told of each change: for how
long nothing was acked, how long it took in all, the CPU of all processes meanwhile, and the most
memory that one Python process has held by then.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import running
from benchmarks.bulk_state import write_state
from benchmarks.running import TOPOLOGIES, Watcher, document, in_the_driver, in_this_process
from fulmen.checkpoint import CommitLog, Store
from fulmen.engine.batches.done import Done
from fulmen.engine.driver.driver import Driver, RunningTopology
from fulmen.engine.driver.stop import Stop
from fulmen.engine.totals.totals import Totals
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.validation.check import check

WARM_BATCHES = 30
AFTER_SECONDS = 5.0


@dataclass
class Moving(Watcher):
    """Remembers when trees were acked, and what was said."""

    times: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def batch(self, totals: Totals, done: Done) -> None:
        """One batch counted."""
        before = sum(self.acked)
        super().batch(totals, done)
        if sum(self.acked) > before:
            self.times.append(time.monotonic())

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)


def content(given: argparse.Namespace, tasks: int) -> dict[str, Any]:
    """The topology with so many tasks."""
    config = {"keys": given.keys, "rate": given.rate, "rows": given.rows, "start": given.start}
    return document(
        {"name": "keys", "class": "counted_keys.Keys", "config": config},
        [
            {
                "name": "count",
                "class": "counted_keys.Count",
                "numTasks": tasks,
                "parallelism": min(tasks, 2),
                "inputs": [{"from": "keys", "grouping": {"type": "fields", "fields": ["key"]}}],
            }
        ],
        workers=given.workers,
        keyedState={"backend": given.backend, "diskLimit": "50Gi"},
    )


@contextmanager
def driving(
    content: Mapping[str, Any], watcher: Watcher, folder: Path, *, spark: bool
) -> Iterator[RunningTopology]:
    """The topology on a checkpoint that stays."""
    runnable = check(content, TOPOLOGIES).runnable(TOPOLOGIES)
    jobs = (in_the_driver if spark else in_this_process)(runnable.topology.spec, folder / "log")
    driver = Driver(runnable, jobs, f"file://{folder}/checkpoint?fsync=false", watcher)
    topology = driver.start()
    try:
        yield topology
    finally:
        topology.close()


def steps(topology: RunningTopology, stop: Stop) -> None:
    """A batch, and the pause of an idle topology."""
    topology.follow(stop)
    if topology.step():
        time.sleep(topology.coordinator.idle_seconds())


def fill(given: argparse.Namespace, folder: Path) -> None:
    """Have the state of all keys in the checkpoint, after some batches that have made it."""
    with driving(content(given, given.tasks[0]), Moving(), folder, spark=False) as topology:
        while not topology.log.manifest.tasks.get("count/0"):
            steps(topology, Stop())
        topology.run(Stop(drain=True))  # what was not delivered yet would be in the last commit
    store = Store.open(f"file://{folder}/checkpoint?fsync=false")
    log = CommitLog(store, "benchmark", "me")
    log.claim()
    tasks = [f"count/{i}" for i in range(given.tasks[0])]
    write_state(store, log, tasks, given.keys, lambda n: (f"customer-{n:09d}", n % 100 + 1))


def measure(given: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Start, then change."""
    watcher = Moving()
    began, cpu = time.monotonic(), _cpu()
    with driving(content(given, given.tasks[0]), watcher, folder, spark=given.spark) as topology:
        stop = Stop()
        while len(watcher.times) < WARM_BATCHES:
            steps(topology, stop)
        yield {
            "start_until_first_ack_seconds": round(watcher.times[0] - began, 1),
            "cpu_seconds": round(_cpu() - cpu, 1),
            **memory(),
        }
        for tasks in given.tasks[1:]:
            began, cpu = time.monotonic(), _cpu()
            known, said = len(watcher.times), len(watcher.notes)
            batches = len(watcher.seconds)
            stop.topology = parse(content(given, tasks))
            while stop.topology is not None:
                steps(topology, stop)
            changed, at = time.monotonic(), len(watcher.times)
            while len(watcher.times) < at + 3 or time.monotonic() < changed + AFTER_SECONDS:
                steps(topology, stop)
            moments = [began, *watcher.times[known:]]
            gaps = [b - a for a, b in pairwise(moments)]
            yield {
                "tasks": tasks,
                "longest_without_ack_seconds": round(max(gaps), 2),
                "total_seconds": round(watcher.times[at] - began, 1),
                "batches": len(watcher.seconds) - batches,
                "cpu_seconds": round(_cpu() - cpu, 1),
                **memory(),
                "notes": watcher.notes[said:],
            }


def _cpu() -> float:
    return sum(running.cpu_seconds().values())


def memory() -> dict[str, int]:
    """The most that one Python process has held so far."""
    most = 0
    for pid, kind in running.processes().items():
        if kind in ("driver", "python"):
            with suppress(OSError):  # it has ended
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                most = max([most, *(int(x.split()[1]) for x in lines if x.startswith("VmHWM"))])
    return {"largest_python_mb": most * 1024 // 10**6}


def main() -> None:
    """Print a line of JSON for the start, and for each change."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moving_state")
    parser.add_argument("--keys", type=int, default=10**7)
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 3, 6])
    parser.add_argument("--backend", choices=("memory", "disk"), default="disk")
    parser.add_argument("--rate", type=int, default=1000, help="rows a second; default: 1000")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--spark", action="store_true", help="else in this process")
    given = parser.parse_args()
    given.start, given.rows = time.time(), None
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        began = time.process_time()
        fill(given, folder)
        print(json.dumps({"filled_cpu_seconds": round(time.process_time() - began, 1)}), flush=True)
        for found in measure(given, folder):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
