"""`python -m benchmarks.state`: what keyed state costs, by the number of its keys. Without Spark.

One task's state of `key-N` -> N is committed to a folder as workers and drivers do it. Times are of
this process's CPU, since other processes disturb these less.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fulmen.checkpoint import CommitLog, Store, load, read_newest, save
from fulmen.engine.state.committed_state import read_key
from fulmen.engine.state.entries.keyed_state import KeyedState

COMPONENT, TASK = "count", "count/0"
AT_ONCE = 50_000
BATCHES, CHANGED = 50, 1000
RESTARTS = 5
LARGE_BYTES = 20_000_000


class Life:
    """A task whose keyed state is committed, in a process that may be started anew.

    Attributes:
        state: As the author's code has it.
        written: Bytes in all segments so far.
    """

    def __init__(self, folder: str) -> None:
        self._store = Store.open(f"file://{folder}?fsync=false")
        self._log = CommitLog(self._store, "benchmark", "me")
        self._log.claim()
        self.state = KeyedState.restore(load(self._store, self._log.manifest, TASK))
        self.written = 0

    def commit(self) -> None:
        """Commit what changed."""
        number = self._log.manifest.number + 1
        tag = f"t{number}"
        updates = {}
        for journal, (data, keep_from) in self.state.updates(number).items():
            updates[journal] = save(self._store, number, tag, TASK, journal, data, keep_from)
            self.written += len(data or b"")
        self._log.commit(self._log.draft(tag=tag, clock=0.0, updates={TASK: updates}))
        self._log.collect()


def change(life: Life, keys: int, batches: int) -> Iterator[float]:
    """Batches that change some keys each: gives the seconds that each of them took."""
    for _ in range(batches):
        numbers = random.sample(range(keys), min(keys, CHANGED))
        before = time.process_time()
        for n in numbers:
            life.state[f"key-{n}"] += 1
        life.commit()
        yield time.process_time() - before


def memory() -> int:
    """What this process has of the machine's memory now, in bytes."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def size_of(folder: str) -> int:
    """Bytes of all objects in a checkpoint."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def load_all(folder: str, keys: int) -> dict[str, Any]:
    """Fill a state, change it, and change it across restarts."""
    life, before = Life(folder), time.process_time()
    life.state["large"] = "x" * LARGE_BYTES
    for start in range(0, keys, AT_ONCE):
        for n in range(start, min(keys, start + AT_ONCE)):
            life.state[f"key-{n}"] = n
        life.commit()
    loaded = time.process_time() - before
    plain = len(pickle.dumps(dict(life.state), 5))
    written = life.written
    seconds = sorted(change(life, keys, BATCHES))
    return {
        "load_seconds": round(loaded, 2),
        "written_times": round(written / plain, 2),
        "batch_ms": round(1000 * seconds[len(seconds) // 2], 1),
        "slowest_batch_ms": round(1000 * seconds[-1], 1),
        "batch_kb": round((life.written - written) / BATCHES / 1000),
        "state_mb": round(plain / 1e6, 1),
    }


def restart(folder: str, keys: int) -> dict[str, Any]:
    """Go on in a process that has nothing."""
    before, empty = time.process_time(), memory()
    life = Life(folder)
    seconds, held = time.process_time() - before, memory() - empty
    list(change(life, keys, 5))
    return {"restart_seconds": round(seconds, 2), "memory_mb": round(held / 1e6)}


def plain(folder: str, keys: int) -> dict[str, Any]:
    """What a plain dict of the same takes."""
    empty = memory()
    items = {f"key-{n}": n for n in range(keys)}
    return {"dict_mb": round((memory() - empty) / 1e6) if items else 0}


def one_key(folder: str, keys: int) -> dict[str, Any]:
    """Find a key."""
    store = Store.open(f"file://{folder}")
    read_newest(store)
    before, empty = time.process_time(), memory()
    found = read_key(store, COMPONENT, f"key-{keys - 1}")
    assert len(found.tasks[0]) == 1
    seconds, held = time.process_time() - before, memory() - empty
    return {"key_ms": round(1000 * seconds, 1), "key_mb": round(held / 1e6)}


STEPS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    step.__name__: step for step in (load_all, restart, plain, one_key)
}


def measure(keys: int) -> dict[str, Any]:
    """All figures for a number of keys, each step in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:

        def of(step: str) -> dict[str, Any]:
            command = [sys.executable, "-m", "benchmarks.state", "--step", step]
            command += ["--folder", folder, "--keys", str(keys)]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            content: dict[str, Any] = json.loads(said)
            return content

        found = {"keys": keys, **of("load_all")}
        sizes = [size_of(folder)]
        for _ in range(RESTARTS):
            found |= of("restart")
            sizes.append(size_of(folder))
        ratio = max(sizes) / 1e6 / found["state_mb"]
        return {**found, "largest_times": round(ratio, 2), **of("one_key"), **of("plain")}


def main() -> None:
    """Print a line of JSON for each number of keys."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10**4, 10**6, 10**7])
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(STEPS[arguments.step](arguments.folder, arguments.keys[0])))
        return
    for keys in arguments.keys:
        print(json.dumps(measure(keys)), flush=True)


if __name__ == "__main__":
    main()
