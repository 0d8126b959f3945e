"""How long a start takes, cold: to the first ack, and to the end of a first example.

`python -m benchmarks.starts WORKERS` is one start, in a process of its own: what a process has
imported and what its JVM has loaded would make the next start faster.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import running
from benchmarks.running import Watcher, cpu_seconds, word_count
from fulmen.engine.jvm.class_archive import ClassArchive, spark_jars
from fulmen.engine.jvm.java import find_java

Result = dict[str, Any]
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/word-count/run"
ACKED = re.compile(r"trees +([\d,]+) acked")


def start(arguments: argparse.Namespace) -> list[Result]:
    """Seconds from the first call to the commit of the first ack, with and without class archive.

    The median of some starts; each of them is told as well.
    """
    results = []
    for workers in sorted({*arguments.workers, 4, 8}):
        for wants_archive in (True, False):
            runs = [_start(workers, wants_archive) for _ in range(arguments.starts)]
            has_archive = all(run["class_archive"] for run in runs)
            if wants_archive and not has_archive:
                print("start: there is no class archive; `make classes` makes one", flush=True)
                continue
            seconds = [run["seconds"] for run in runs]
            results.append(
                {
                    "workers": workers,
                    "class_archive": has_archive,
                    "seconds": statistics.median(seconds),
                    "each": seconds,
                    "cpu_seconds": statistics.median(run["cpu_seconds"] for run in runs),
                }
            )
    return results


def _start(workers: int, wants_archive: bool) -> Result:
    """One start in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="fulmen-benchmark-") as empty:
        environment = dict(os.environ) if wants_archive else {**os.environ, "FULMEN_CLASSES": empty}
        command = [sys.executable, "-m", "benchmarks.starts", str(workers)]
        run = subprocess.run(
            command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        )
    found: Result = json.loads(run.stdout.splitlines()[-1])
    return found


def first_ack(workers: int) -> Result:
    """One start in this very process."""
    watcher, began = Watcher(), time.monotonic()
    with running.running(word_count(workers, spout="Endless"), watcher) as driver:
        while not sum(watcher.acked):
            driver.step()
        seconds, cpu = time.monotonic() - began, sum(cpu_seconds().values())
    return {
        "class_archive": ClassArchive().fits(find_java().path, spark_jars()),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
    }


def example(arguments: argparse.Namespace) -> list[Result]:
    """Seconds that `make run` takes when everything is set up: a newcomer's first look."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    runs, trees = [], 0
    for _ in range(arguments.starts):
        began = time.monotonic()
        done = subprocess.run(
            [EXAMPLE], env={**os.environ, "PATH": path}, check=True, capture_output=True, text=True
        )
        runs.append(round(time.monotonic() - began, 1))
        told = ACKED.findall(done.stdout + done.stderr)
        trees = int(told[-1].replace(",", "")) if told else 0
    return [{"seconds": statistics.median(runs), "each": runs, "trees": trees}]


if __name__ == "__main__":
    print(json.dumps(first_ack(int(sys.argv[1]))))
