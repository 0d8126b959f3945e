"""`python -m benchmarks.nexmark [--events N] [--queries q1,q5]`: events a second of each query.

Each query runs on real Spark with one worker until all events are dealt with. What it finds is
compared with what DuckDB finds in the same events. Beside it the same in Bytewax, where that can
say it, with one thread. docs/measurements.md keeps the results.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks import running
from benchmarks.machine import bare, machine
from benchmarks.nexmark import queries
from fulmen.engine.batches.done import Done
from fulmen.engine.driver.stop import Stop
from fulmen.engine.totals.totals import Totals

WARM = 0.25
"""The share of events before anything is measured."""
BATCH_MS = 1_000
IN_BYTEWAX = (
    *("q0", "q1", "q2", "q3", "q7", "q8", "q10", "q11", "q13", "q14"),
    *("q18", "q19", "q20", "q21", "q22", "yahoo"),
)
ALL_UPDATES = ("q18", "q19")
"""Of these Bytewax counts each update, Fulmen's sink the rows that are left."""


class Rate(running.Watcher):
    """Measures from the batch on in which the first events have been emitted until the end."""

    def __init__(self, source: str, count: int) -> None:
        super().__init__()
        self.source, self.count = source, count
        self.began = self.emitted = 0.0

    def batch(self, totals: Totals, done: Done) -> None:
        """One batch counted."""
        emitted = totals.component(self.source)["emitted"]
        if not self.began and emitted >= WARM * self.count:
            self.began, self.emitted = time.monotonic(), emitted

    def per_second(self) -> float:
        """Events a second until now."""
        return (self.count - self.emitted) / (time.monotonic() - self.began)


def measure(query: str, count: int, given: dict[str, pa.Table]) -> dict[str, Any]:
    """Run a query, and see that its result is right."""
    content = queries.topology(query, count)
    content["spec"].update(workers=1, batchTargetMillis=BATCH_MS)
    watcher = Rate(content["spec"]["spouts"][0]["name"], count)
    jobs = partial(running.in_the_driver, folder=queries.FOLDER)
    with running.running(content, watcher, jobs, queries.FOLDER) as driver:
        driver.run(Stop(when_drained=True))
        rate = watcher.per_second()
        found = driver.totals.report()["components"]["results"]["metrics"]
    wanted = queries.expected(query, given)
    digest = sum(map(queries.fingerprint, wanted))
    return {
        "query": query,
        "events_per_second": round(rate),
        "rows": int(found["rows"]),
        "is_right": (found["rows"], found["digest"]) == (len(wanted), digest),
    }


def in_bytewax(query: str, count: int) -> dict[str, Any] | None:
    """The same in Bytewax, in a process of its own; None: it can't be said, or is not there."""
    if query not in IN_BYTEWAX or importlib.util.find_spec("bytewax") is None:
        return None
    command = [sys.executable, "-m", "benchmarks.nexmark.dataflow", query, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line(result: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    """One row of the table."""
    rate = result["events_per_second"]
    verdict = f"{result['rows']:,}" if result["is_right"] else f"{result['rows']:,}, WRONG"
    beside: Sequence[str] = ("", "")
    if other is not None:
        theirs = other["events_per_second"]
        missing = other["rows"] - result["rows"] if result["query"] not in ALL_UPDATES else 0
        beside = f"{theirs:,}" + (f", {missing:+,} rows" if missing else ""), f"{rate / theirs:.1f}"
    return f"| {result['query']} | {rate:,} | {verdict} | {' | '.join(beside)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=400_000, help="default: 400,000")
    parser.add_argument("--queries", default=",".join(queries.QUERIES), help="default: all")
    parser.add_argument("--no-bytewax", action="store_true", help="Fulmen alone")
    arguments = parser.parse_args()
    chosen = arguments.queries.split(",")
    if unknown := set(chosen) - set(queries.QUERIES):
        parser.error(f"no query {sorted(unknown)}: there are {', '.join(queries.QUERIES)}")
    count = arguments.events
    speed = bare(arguments)[0]["sentences_per_second"]
    print(f"On {machine()}, bare {speed:,}; {count:,} events of each query\n")
    print("| query | events/s | rows, as DuckDB finds them | Bytewax: events/s | times Bytewax |")
    print("|---|---|---|---|---|", flush=True)
    given: dict[bool, dict[str, pa.Table]] = {}
    all_right = True
    for query in chosen:
        kind = query == "yahoo"
        if kind not in given:
            given[kind] = queries.tables(query, count)
        result = measure(query, count, given[kind])
        other = None if arguments.no_bytewax else in_bytewax(query, count)
        print(line(result, other), flush=True)
        all_right &= result["is_right"]
    if not all_right:
        sys.exit("a query has found something else than DuckDB")


if __name__ == "__main__":
    main()
