"""`python -m benchmarks.state_on_disk`: what keyed state on disk costs, beside that in memory.

One task's state is committed to a folder as workers and drivers do it, without Spark. Keys are of
16 bytes, values of 34, and batches change keys of a Zipf distribution. Times are of this process's
CPU, RocksDB's threads included, but for those that say `wall`, and those of batches: `cpu_ms` is of
the thread that runs them, and `wall_ms` has what it waits for as well. Each has the median, the
99th percentile and the largest.

A very large state takes `--steps written lost hot memory restart`: `written` makes the checkpoint
alone, by the same segments, and `lost` then makes the store of it, as after the loss of a disk.
`memory` has the batches of `hot` with a state in memory, of the keys that they change and no
others. `hot` counts what was compacted meanwhile, in the store by RocksDB's own log, and tells of
the batches that ran beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bulk_state import AT_ONCE, shuffled, write_state
from benchmarks.compactions import compactions
from benchmarks.state import TASK, memory
from fulmen.checkpoint import CommitLog, Store, load, save
from fulmen.engine.state.entries.disk_journals import DiskJournals, restored_entries
from fulmen.engine.state.journals import STATE

SKEW = 1.2
HOT_BATCH, HOT_BATCHES, WARM = 20_000, 400, 10


class Life:
    """A task whose keyed state is committed, and may be on disk."""

    def __init__(self, folder: Path, *, on_disk: bool) -> None:
        self._store = Store.open(f"file://{folder / 'checkpoint'}?fsync=false")
        self._log = CommitLog(self._store, "benchmark", "me")
        self._log.claim()
        manifest = self._log.manifest
        journals: Any = (
            DiskJournals({}, self._store, manifest, TASK, folder / "disk")
            if on_disk
            else load(self._store, manifest, TASK)
        )
        self.state: Any = restored_entries(journals, STATE)
        self._begin()

    def _begin(self) -> None:
        if hasattr(self.state, "begin_batch"):
            self.state.begin_batch(f"t{self._log.manifest.number + 1}")

    def commit(self) -> int:
        """Commit what changed, and begin the next batch. Gives how many segments are no more."""
        number = self._log.manifest.number + 1
        tag = f"t{number}"
        updates, rewritten = {}, 0
        for journal, (data, keep_from) in self.state.updates(number).items():
            rewritten += data is None
            updates[journal] = save(self._store, number, tag, TASK, journal, data, keep_from)
        self._log.commit(self._log.draft(tag=tag, clock=0.0, updates={TASK: updates}))
        self._log.collect()
        self._begin()
        return rewritten


class Peak:
    """The most memory that this process has held since it was made."""

    def __init__(self) -> None:
        self.before = self.most = memory()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.most = max(self.most, memory())

    @property
    def megabytes(self) -> int:
        """How much more it was than at the beginning."""
        return round((max(self.most, memory()) - self.before) / 1e6)


def written(folder: Path, keys: int, *, on_disk: bool) -> dict[str, Any]:
    """Write the checkpoint of all keys, and nothing else."""
    store = Store.open(f"file://{folder / 'checkpoint'}?fsync=false")
    log = CommitLog(store, "benchmark", "me")
    log.claim()
    before = time.process_time()
    write_state(store, log, [TASK], keys, lambda n: (_key(n), _value(n)))
    return {
        "written_us": round((time.process_time() - before) / keys * 1e6, 2),
        "checkpoint_mb": _size(folder / "checkpoint"),
    }


def _key(n: int) -> str:
    return f"key-{n:012d}"


def _value(n: int) -> bytes:
    return b"%034d" % n


def fill(folder: Path, keys: int, *, on_disk: bool) -> dict[str, Any]:
    """Set all keys, in an order that is none of theirs."""
    peak, life = Peak(), Life(folder, on_disk=on_disk)
    before, wall, walls = time.process_time(), time.monotonic(), []
    for start in range(0, keys, AT_ONCE):
        began = time.monotonic()
        for n in shuffled(np.arange(start, min(keys, start + AT_ONCE)), keys).tolist():
            life.state[_key(n)] = _value(n)
        life.commit()
        walls.append(time.monotonic() - began)
    seconds = time.process_time() - before
    return {
        "fill_us": round(seconds / keys * 1e6, 1),
        "fill_wall_us": round((time.monotonic() - wall) / keys * 1e6, 1),
        "fill_batch_wall_ms": _percentiles(walls),
        "fill_mb": peak.megabytes,
        "disk_mb": _size(folder / "disk"),
        "checkpoint_mb": _size(folder / "checkpoint"),
    }


def hot(folder: Path, keys: int, *, on_disk: bool) -> dict[str, Any]:
    """Count in batches of keys of a Zipf distribution."""
    peak, life, began = Peak(), Life(folder, on_disk=on_disk), time.time()
    counted = Batches(keys)
    counted.run(life)
    found = counted.found("hot")
    if on_disk:
        life.state.close()
        done = [span for span in compactions(folder / "disk") if span[1] > began]
        found |= counted.beside(done)
    return found | {
        "hot_mb": peak.megabytes,
        "hot_rss_mb": round(peak.most / 1e6),
        "hot_checkpoint_mb": _size(folder / "checkpoint"),
    }


def hot_in_memory(folder: Path, keys: int, *, on_disk: bool) -> dict[str, Any]:
    """The batches of `hot` in memory, where nothing but the keys that they change is."""
    with tempfile.TemporaryDirectory() as own:
        life, counted = Life(Path(own), on_disk=False), Batches(keys)
        for numbers in counted.drawn():
            life.state.update({_key(n): _value(n) for n in numbers})
        life.commit()
        counted.run(life)
    return counted.found("memory")


class Batches:
    """The same batches each time that they run.

    Attributes:
        rewritten: How many segments of the checkpoint each has put into others.
    """

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._us: list[float] = []
        self._cpus: list[float] = []
        self._spans: list[tuple[float, float]] = []
        self._sizes: list[int] = []
        self.rewritten: list[int] = []

    def drawn(self) -> Iterator[list[int]]:
        """The numbers of the keys that each changes."""
        rng = np.random.default_rng(2)
        for _ in range(WARM + HOT_BATCHES):
            yield shuffled(_zipf(rng, self._keys), self._keys).tolist()

    def run(self, life: Life) -> None:
        """Measure all but the first few."""
        for i, batch in enumerate(self.drawn()):
            began, wall, of_thread = time.process_time(), time.time(), time.thread_time()
            state = life.state
            for n in batch:
                key = _key(n)
                state[key] = state[key][:-1] + b"x"
            for n in batch:
                state[_key(n)] = _value(n + i)
            rewritten = life.commit()
            if i >= WARM:
                self._us.append((time.process_time() - began) / HOT_BATCH * 1e6)
                self._cpus.append(time.thread_time() - of_thread)
                self._spans.append((wall, time.time()))
                self._sizes.append(len(set(batch)))
                self.rewritten.append(rewritten)

    def found(self, name: str) -> dict[str, Any]:
        """What all of them took."""
        walls = [end - start for start, end in self._spans]
        return {
            f"{name}_us": round(float(np.mean(self._us)), 2),
            f"{name}_us_median": round(float(np.median(self._us)), 2),
            f"{name}_batch_cpu_ms": _percentiles(self._cpus),
            f"{name}_batch_wall_ms": _percentiles(walls),
            f"{name}_keys_a_batch": round(float(np.mean(self._sizes))),
        }

    def beside(self, done: Sequence[tuple[float, float]]) -> dict[str, Any]:
        """What those took that ran while the store or the checkpoint was compacted."""
        first, last = self._spans[0][0], self._spans[-1][1]
        done = [(start, end) for start, end in done if end > first and start < last]
        walls = {"store": list[float](), "checkpoint": list[float]()}
        for (start, end), rewritten in zip(self._spans, self.rewritten, strict=True):
            if any(a < end and start < b for a, b in done):
                walls["store"].append(end - start)
            if rewritten:
                walls["checkpoint"].append(end - start)
        return {
            "compactions": len(done),
            "segments_rewritten": sum(self.rewritten),
            **{f"batches_beside_{what}": len(found) for what, found in walls.items()},
            **{
                f"batch_beside_{what}_wall_ms": _percentiles(found)
                for what, found in walls.items()
                if found
            },
        }


def _zipf(rng: np.random.Generator, keys: int) -> np.ndarray:
    drawn = rng.zipf(SKEW, 4 * HOT_BATCH)
    drawn = drawn[drawn <= keys][:HOT_BATCH] - 1
    assert len(drawn) == HOT_BATCH
    return drawn


def restart(folder: Path, keys: int, *, on_disk: bool) -> dict[str, Any]:
    """Go on with what is on disk."""
    return _restarted(folder, keys, "restart", on_disk=on_disk)


def lost(folder: Path, keys: int, *, on_disk: bool) -> dict[str, Any]:
    """Go on where the disk is empty."""
    if not on_disk:
        return {}
    shutil.rmtree(folder / "disk", ignore_errors=True)
    return _restarted(folder, keys, "lost", on_disk=on_disk)


def _restarted(folder: Path, keys: int, name: str, *, on_disk: bool) -> dict[str, Any]:
    peak, before, wall = Peak(), time.process_time(), time.monotonic()
    life = Life(folder, on_disk=on_disk)
    assert len(life.state) == keys
    seconds, opened = time.process_time() - before, time.monotonic() - wall
    life.state[_key(0)] = _value(1)
    life.commit()
    return {
        f"{name}_seconds": round(seconds, 2),
        f"{name}_wall_seconds": round(opened, 2),
        f"{name}_first_commit_wall_seconds": round(time.monotonic() - wall, 2),
        f"{name}_us": round(seconds / keys * 1e6, 2),
        f"{name}_mb": peak.megabytes,
        f"{name}_rss_mb": round(peak.most / 1e6),
        "disk_mb": _size(folder / "disk"),
    }


def _percentiles(walls: list[float]) -> list[int]:
    return [round(1000 * at) for at in np.percentile(walls, [50, 99, 100])]


def _size(folder: Path) -> int:
    return round(sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6)


STEPS = {
    "fill": fill,
    "hot": hot,
    "memory": hot_in_memory,
    "restart": restart,
    "lost": lost,
    "written": written,
}


def main() -> None:
    """Print a line of JSON for each number of keys and backend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--backend", choices=("memory", "disk"), nargs="+", default=["disk"])
    parser.add_argument("--steps", nargs="+", default=["fill", "hot", "restart", "lost"])
    parser.add_argument("--folder", type=Path, help="kept afterwards, for more steps")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        on_disk = arguments.backend == ["disk"]
        step = STEPS[arguments.steps[0]]
        print(json.dumps(step(arguments.folder, arguments.keys[0], on_disk=on_disk)))
        return
    for keys in arguments.keys:
        for backend in arguments.backend:
            with tempfile.TemporaryDirectory() as temporary:
                folder = arguments.folder or Path(temporary)
                found: dict[str, Any] = {"keys": keys, "backend": backend}
                for step in arguments.steps:
                    command = [sys.executable, "-m", "benchmarks.state_on_disk", "--once"]
                    command += ["--steps", step, "--folder", str(folder), "--keys", str(keys)]
                    command += ["--backend", backend]
                    said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
                    found |= json.loads(said)
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
