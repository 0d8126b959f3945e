"""`python -m benchmarks.state_story`: many counts that are moved, spoilt, taken back and mended.

A topology on Spark counts rows about ten million keys, whose counts are on disk. While it runs, its
tasks are doubled and a savepoint is made. Then code that counts twice is deployed, the state goes
back to the savepoint, the right code goes on, a count that was wrong from the beginning is set by
hand, and each of the counts is compared with what it has to be. All but the first step are the
documented commands. Told are the seconds and the CPU of each, of all its processes, and the most
memory that one of them has held.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import running
from benchmarks.bulk_state import write_state
from benchmarks.moving_state import Moving, content, driving, memory, steps
from benchmarks.running import TOPOLOGIES, cpu_seconds_of
from fulmen.checkpoint import CommitLog, Store
from fulmen.engine.driver.stop import Stop
from fulmen.topology.reading.field_problems import parse

WRONG, TOO_MUCH = 7, 5
"""The count of the key of this number is too large from the beginning, by so much."""
FAR = 7_368_787
"""How far a row's key is from that of the row before, in counted_keys."""
RIGHT_CODE, WRONG_CODE = "get(key, 0) + 1", "get(key, 0) + 2"
BUG_SECONDS, ROWS_AFTERWARDS = 30, 50_000


def main() -> None:
    """Print a line of JSON for each step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state_story")
    parser.add_argument("--keys", type=int, default=10**7)
    parser.add_argument("--rate", type=int, default=1000, help="rows a second; default: 1000")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    given.backend, given.start, given.rows = "disk", time.time(), None
    with tempfile.TemporaryDirectory(prefix="fulmen-benchmark-") as temporary:
        for found in Story(given, Path(temporary)).told():
            print(json.dumps(found), flush=True)


class Story:
    """What is done to one checkpoint."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given, self._folder = given, folder
        self._checkpoint = folder / "checkpoint"
        self._first = self._rows = 0

    def told(self) -> Iterator[dict[str, Any]]:
        """Do it, and tell of each step."""
        yield self._filled()
        yield self._doubled()
        yield self._ran("a bug", ["--for", str(BUG_SECONDS)], WRONG_CODE)
        yield self._command("go back", "savepoint", "restore", str(self._checkpoint), "before")
        self._given.rows = self._rows + ROWS_AFTERWARDS
        yield self._ran("mended code", ["--until-drained"], RIGHT_CODE)
        key, count = key_of(WRONG), int(self._wanted()[WRONG])
        yield self._command(
            "one by hand",
            *("state", "set", str(self._checkpoint), "count", key, str(count)),
            *("--because", "they were sent twice"),
        )
        exported = self._folder / "counts.parquet"
        yield self._command(
            "export", "state", "export", str(self._checkpoint), "count", str(exported)
        )
        yield self._compared(exported)

    def _filled(self) -> dict[str, Any]:
        """The counts of all keys, in the checkpoint of a topology that has begun."""
        began = time.process_time()
        with driving(content(self._given, 2), Moving(), self._folder, spark=False) as topology:
            while not topology.log.manifest.tasks.get("count/0"):
                steps(topology, Stop())
            topology.run(Stop(drain=True))
        store = Store.open(f"file://{self._checkpoint}?fsync=false")
        log = CommitLog(store, "benchmark", "me")
        log.claim()
        self._first = self._position()  # what was counted so far is overwritten
        tasks = ["count/0", "count/1"]
        write_state(store, log, tasks, self._given.keys, lambda n: (key_of(n), first_count(n)))
        return {"step": "filled", "cpu_seconds": round(time.process_time() - began, 1)}

    def _doubled(self) -> dict[str, Any]:
        """Twice the tasks, and a savepoint, while it runs."""
        watcher, stop = Moving(), Stop()
        began, cpu = time.monotonic(), _cpu()
        with driving(content(self._given, 2), watcher, self._folder, spark=True) as topology:
            while len(watcher.times) < 30:
                steps(topology, stop)
            changed = time.monotonic()
            stop.topology = parse(content(self._given, 4))
            while stop.topology is not None:
                steps(topology, stop)
            became, batches = time.monotonic(), len(watcher.times)
            asked = threading.Thread(target=self._savepoint)
            asked.start()
            while asked.is_alive() or len(watcher.times) < batches + 10:
                steps(topology, stop)
            gaps = [b - a for a, b in pairwise(watcher.times)]
            last = watcher.times[batches - 1]
            at_change = [b - a for a, b in pairwise(watcher.times) if a <= last and b > changed]
            topology.run(Stop(drain=True))
            found = {"cpu_seconds": round(_cpu() - cpu, 1), **memory()}
        self._rows = self._position()
        return {
            "step": "doubled while it runs",
            "first_ack_after_seconds": round(watcher.times[0] - began, 1),
            "change_seconds": round(became - changed, 1),
            "pause_at_change_seconds": round(max(at_change, default=0.0), 2),
            "longest_without_ack_seconds": round(max(gaps), 2),
            "median_without_ack_seconds": round(float(np.median(gaps)), 3),
            "rows": self._rows,
            **found,
        }

    def _savepoint(self) -> None:
        words = "savepoint", "create", str(self._checkpoint), "before", "--why", "version 2"
        _check(self._start(*words))

    def _position(self) -> int:
        said = subprocess.run(
            [*FULMEN, "state", "get", self._checkpoint, "keys", "--kind", "fields", "-o", "json"],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        return next(int(f["value"]) for f in json.loads(said) if f["key"] == "position")

    def _ran(self, step: str, options: list[str], code: str) -> dict[str, Any]:
        folder = self._folder / "code"
        folder.mkdir(exist_ok=True)
        source = (TOPOLOGIES / "counted_keys.py").read_text()
        assert RIGHT_CODE in source
        (folder / "counted_keys.py").write_text(source.replace(RIGHT_CODE, code))
        file = folder / "story.yaml"
        file.write_text(json.dumps(content(self._given, 4)))
        given = [str(file), "--code-folder", str(folder), "--checkpoint", str(self._checkpoint)]
        return self._command(step, "run", *given, *options)

    def _command(self, step: str, *words: str) -> dict[str, Any]:
        began, cpu, most = time.monotonic(), 0.0, 0
        process = self._start(*words)
        while process.poll() is None:
            cpu = max(cpu, cpu_seconds_of(process.pid))
            most = max(most, memory()["largest_python_mb"])
            time.sleep(0.2)
        _check(process)
        return {
            "step": step,
            "seconds": round(time.monotonic() - began, 1),
            "cpu_seconds": round(cpu, 1),
            "largest_python_mb": most,
        }

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*FULMEN, *words], stdout=sys.stderr)

    def _wanted(self) -> np.ndarray:
        numbers = np.arange(self._given.keys)
        rows = np.arange(self._first, self._given.rows, dtype=np.int64) * FAR % self._given.keys
        return (
            first_count(numbers)
            - (numbers == WRONG) * TOO_MUCH
            + np.bincount(rows, minlength=len(numbers))
        )

    def _compared(self, exported: Path) -> dict[str, Any]:
        """Each count with what it has to be."""
        found = np.full(self._given.keys, -1)
        rows = 0
        for batch in pq.ParquetFile(exported).iter_batches(1 << 16, columns=["key", "value"]):
            keys, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
            at = [int(json.loads(key).removeprefix("customer-")) for key in keys]
            found[at] = [int(value) for value in values]
            rows += len(at)
        wrong = int((found != self._wanted()).sum())
        assert rows == self._given.keys, f"{rows} keys"
        assert wrong == 0, f"{wrong} counts are wrong"
        return {"step": "compared", "keys": rows, "wrong": wrong}


FULMEN = [str(Path(sys.executable).with_name("fulmen"))]


def key_of(n: int) -> str:
    """The key of this number."""
    return f"customer-{n:09d}"


def first_count(n: Any) -> Any:
    """What it was counted to at first; of an array as well."""
    return n % 100 + 1 + (n == WRONG) * TOO_MUCH


def _check(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise SystemExit(f"{process.args!r}: {process.returncode}")


def _cpu() -> float:
    return sum(running.cpu_seconds().values())


if __name__ == "__main__":
    main()
