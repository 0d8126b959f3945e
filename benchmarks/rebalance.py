"""What another number of workers costs: how long nothing is acked, and the latency meanwhile.

Workers come and go on one machine, in the JVM of the driver, so no pod has to start: what is left
is the rebalance itself. Spouts stop, pending trees end, executors are placed anew with their state.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import running
from benchmarks.running import Watcher, word_count
from fulmen.engine.batches.done import Done
from fulmen.engine.driver.stop import Stop
from fulmen.engine.spark.jobs import LocalSparkJobs
from fulmen.engine.totals.totals import Totals
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.spec import TopologySpec

Result = dict[str, Any]
TASKS = 2
RATE = 1000
BETWEEN_SECONDS = 10
CHANGES = 10
MOST_WORKERS = 2


@dataclass
class Changing(Watcher):
    """Asks for another number of workers every few seconds.

    Attributes:
        stop: By which the driver is told.
        start: When the first sentence is due, by the wall clock.
        begins: When the first change is asked for.
        changed: When each change was asked for.
        times: When each batch was committed.
        of_batches: The latencies of each.
    """

    stop: Stop = field(default_factory=Stop)
    start: float = 0.0
    begins: float = 0.0
    changed: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    of_batches: list[list[np.ndarray]] = field(default_factory=list)

    def batch(self, totals: Totals, done: Done) -> None:
        """One batch counted."""
        known = len(self.latencies)
        super().batch(totals, done)
        now = time.time()
        self.times.append(now)
        self.of_batches.append(self.latencies[known:])
        if now < self.begins + len(self.changed) * BETWEEN_SECONDS:
            return
        if len(self.changed) == CHANGES:
            self.stop.now = True
            return
        self.changed.append(now)
        workers = MOST_WORKERS if len(self.changed) % 2 else 1
        self.stop.topology = parse(content(workers, self.start))

    def after(self, change: float) -> Result:
        """The longest time without an ack, and the latencies, from a change until the next one."""
        until = change + BETWEEN_SECONDS
        chosen = [n for n, at in enumerate(self.times) if change <= at < until and self.acked[n]]
        moments = [change, *(self.times[n] for n in chosen)]
        return {
            "pause": max(np.diff(moments)),
            "latencies": np.concatenate([part for n in chosen for part in self.of_batches[n]]),
        }


def content(workers: int, start: float) -> dict[str, Any]:
    """The word count with so many workers."""
    made = word_count(workers, config={"start": start, "rate": RATE})
    for component in (*made["spec"]["spouts"], *made["spec"]["bolts"]):
        component |= {"numTasks": TASKS}
    return made


def rebalance(arguments: argparse.Namespace) -> list[Result]:
    """From one worker to two and back, again and again, at 1,000 sentences a second."""
    start = time.time() + 15
    watcher = Changing(
        due=lambda k: start + k * TASKS / RATE, start=start, begins=start + arguments.warm
    )

    def with_room(_: TopologySpec, log_file: Path) -> LocalSparkJobs:
        return LocalSparkJobs(MOST_WORKERS, {}, running.TOPOLOGIES, log_file)

    with running.running(content(1, start), watcher, with_room) as driver:
        driver.run(watcher.stop)
    found = [watcher.after(change) for change in watcher.changed]
    results = []
    for name, chosen in (("1 to 2 workers", found[::2]), ("2 to 1 workers", found[1::2])):
        pauses = [one["pause"] for one in chosen]
        p50, p99 = np.percentile(np.concatenate([one["latencies"] for one in chosen]), (50, 99))
        results.append(
            {
                "change": name,
                "pause_p50_seconds": round(float(np.median(pauses)), 2),
                "pause_max_seconds": round(float(max(pauses)), 2),
                "p50_ms": round(float(p50), 1),
                "p99_ms": round(float(p99), 1),
            }
        )
    return results
