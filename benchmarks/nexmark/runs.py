"""One run of a query with Fulmen: on Spark, or in this process by the time of its CPU.

`python -m benchmarks.nexmark.runs QUERY FORM EVENTS` runs it in this process, and prints the
figures.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks import running
from benchmarks.nexmark import queries
from fulmen.engine.batches.done import Done
from fulmen.engine.driver.stop import Stop
from fulmen.engine.totals.totals import Totals

WARM = 0.25
"""The share of events before anything is measured."""
BATCH_MS = 1_000


class Rate(running.Watcher):
    """Measures from the batch on in which the first events have been emitted until the end.

    Attributes:
        per_second: Events a second, when the run is over.
    """

    per_second = 0.0

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.count, self.clock = count, clock
        self.began = self.emitted = 0.0

    def batch(self, totals: Totals, done: Done) -> None:
        """One batch counted."""
        emitted = totals.component("events")["emitted"]
        if not self.began and emitted >= WARM * self.count:
            self.began, self.emitted = self.clock(), emitted

    def end(self) -> None:
        """The run is over."""
        self.per_second = (self.count - self.emitted) / (self.clock() - self.began)


def _run(content: dict[str, Any], watcher: Rate, jobs: running.Jobs) -> dict[str, float]:
    """Run it to its end. Returns the metrics of its sink."""
    content["spec"].update(workers=1, batchTargetMillis=BATCH_MS)
    with running.running(content, watcher, jobs, queries.FOLDER) as driver:
        driver.run(Stop(when_drained=True))
        watcher.end()
        metrics: dict[str, float] = driver.totals.report()["components"]["results"]["metrics"]
        return metrics


def measure(query: str, form: str, count: int, *, in_process: bool) -> dict[str, Any]:
    """Events a second, in this process of its CPU, and how many rows came out."""
    rounds = queries.rounds_of(query)
    content = queries.topology(query, count, form, only_counts=True, rounds=rounds)
    clock = time.process_time if in_process else time.monotonic
    watcher = Rate(count * rounds, clock)
    if in_process:
        gc.disable()  # as workers do within a batch
        jobs: running.Jobs = running.in_this_process
    else:
        jobs = partial(running.in_the_driver, folder=queries.FOLDER)
    rows = _run(content, watcher, jobs)["rows"]
    rate = "events_per_cpu_second" if in_process else "events_per_second"
    return {rate: round(watcher.per_second), "rows": int(rows)}


def is_right(query: str, form: str, count: int, given: dict[str, pa.Table]) -> bool:
    """Whether a query finds what DuckDB finds in these tables: by number and fingerprint."""
    found = _run(queries.topology(query, count, form), Rate(count), running.in_this_process)
    wanted = queries.expected(query, given)
    digest = sum(map(queries.fingerprint, wanted))
    return (found["rows"], found["digest"]) == (len(wanted), digest)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), in_process=True)))
