"""What bad rows cost the good ones: a file read with and without rows that always fail.

`python -m benchmarks.failing`: CPU time of this process for a good row, without Spark. Pairs of
runs are taken in turn, each in a fresh process, and the least of each counts. The goal is a speed
of at least 0.9 with 2.5 % of bad rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fulmen import BasicBolt, TopologyBuilder
from fulmen.connectors.files import FileSpout
from fulmen.engine.driver.driver import Driver
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.topology.validation.check import check

GOAL = 0.9


class Parse(BasicBolt):
    """Fails what is no number."""

    outputs = ("carrier", "delay")

    def execute(self, tup, collector):  # type: ignore[no-untyped-def]
        """Parse a row."""
        collector.emit([tup["carrier"], int(tup["delay"])])


class Total(BasicBolt):
    """Adds up by key."""

    def execute(self, tup, collector):  # type: ignore[no-untyped-def]
        """Add a row."""
        self.state[tup["carrier"]] = self.state.get(tup["carrier"], 0) + tup["delay"]


def write(file: Path, rows: int, percent: float) -> int:
    """A file of so many good rows, and bad ones evenly among them; returns how many these are."""
    bad, owed = 0, 0.0
    with file.open("w", encoding="utf-8") as out:
        for i in range(rows):
            owed += percent / (100 - percent)
            if owed >= 1:
                owed, bad = owed - 1, bad + 1
                out.write(f"XX,NA,2013-01-01T05:{i % 60:02}:00Z\n")
            out.write(f"C{i % 97},{i % 300 - 30},2013-01-01T05:{i % 60:02}:00Z\n")
    return bad


def measure(rows: int, percent: float) -> tuple[float, float, int]:
    """Microseconds of CPU a good row, seconds, and how many tuples failed, in this very process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        write(file, rows, percent)
        builder = TopologyBuilder("failing")
        config = {
            "path": str(file),
            "follow": False,
            "format": {"type": "csv", "fields": ["carrier", "delay", "time"]},
        }
        builder.set_spout("rows", FileSpout).set_config(config)
        builder.set_bolt("parse", Parse).shuffle_grouping("rows")
        builder.set_bolt("total", Total).fields_grouping("parse", ["carrier"])
        checked = check(builder.build(), Path(folder))
        driver = Driver(
            checked.runnable(Path(folder)), InProcessJobs(), f"file://{folder}/checkpoint"
        ).start()
        began, started = time.process_time(), time.monotonic()
        while driver.totals.trees.acked < rows:
            driver.step()
        took, seconds = time.process_time() - began, time.monotonic() - started
        failed = driver.totals.trees.failed
        driver.close()
    return took / rows * 1e6, seconds, failed


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--percent", type=float, default=2.5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(*measure(arguments.rows, arguments.percent))
        return
    found: dict[float, list[tuple[float, ...]]] = {0.0: [], arguments.percent: []}
    for _ in range(arguments.runs):
        for percent, figures in found.items():
            figures.append(_in_a_process(arguments.rows, percent))
    print("bad rows  us of CPU a good row  good rows a second  failed tuples")
    for percent, figures in found.items():
        cpu, seconds, failed = min(figures)
        print(f"{percent:>6} %  {cpu:>20.2f}  {arguments.rows / seconds:>18,.0f}  {failed:>13,.0f}")
    without, with_them = (min(figures)[0] for figures in found.values())
    print(f"speed with bad rows: {without / with_them:.2f} of that without (goal: {GOAL})")


def _in_a_process(rows: int, percent: float) -> tuple[float, ...]:
    command = [sys.executable, "-m", "benchmarks.failing", "--once"]
    command += ["--rows", str(rows), "--percent", str(percent)]
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        command, env=environment, cwd=root, check=True, capture_output=True, text=True
    )
    return tuple(map(float, run.stdout.split()))


if __name__ == "__main__":
    main()
