"""Runs a topology for a benchmark, and watches the time, memory and CPU of all its processes."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fulmen.engine.batches.done import Done
from fulmen.engine.driver.driver import Driver
from fulmen.engine.driver.observer import Silent
from fulmen.engine.spark.jobs import LocalSparkJobs
from fulmen.engine.totals.totals import Totals
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.validation.check import check

if TYPE_CHECKING:  # benchmarks.inprocess runs earlier versions as well
    from fulmen.engine.driver.driver import RunningTopology

TOPOLOGIES = Path(__file__).parent / "topologies"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Watcher(Silent):
    """Remembers each batch.

    Attributes:
        seconds: How long each batch took, without its commit.
        acked: Trees acked in each batch.
        latencies: Milliseconds from when a sentence was due to its ack's commit, if `due` is set.
        skipped: How many stages each batch left out.
        busy: CPU seconds of each worker in each batch.
        due: Seconds of the wall clock at which the sentences of these sequence numbers were due.
    """

    due: Callable[[np.ndarray], np.ndarray] | None = None
    seconds: list[float] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)
    latencies: list[np.ndarray] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    busy: list[Counter[int]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def batch(self, totals: Totals, done: Done) -> None:
        """One batch counted."""
        now = time.time()
        self.seconds.append(done.seconds)
        self.skipped.append(len(done.skipped))
        n, busy = 0, Counter[int]()
        for summary in done.summaries:
            busy[summary.partition] += summary.cpu_seconds  # type: ignore[assignment] # no int
            for ranges in summary.acked.values():
                n += int((ranges[:, 1] - ranges[:, 0]).sum())
                if self.due is not None:
                    sequences = np.concatenate([np.arange(a, b) for a, b in ranges.tolist()])
                    self.latencies.append((now - self.due(sequences)) * 1000)
        self.acked.append(n)
        self.busy.append(busy)

    def error(self, error: object) -> None:
        """A component reported an error: none of these does."""

    def note(self, text: str) -> None:
        """Nobody reads it."""

    def attempt_failed(self, number: int, reason: str) -> None:
        """An attempt failed."""
        self.failures.append(reason)

    def forget(self) -> None:
        """Begin to measure."""
        self.seconds.clear()
        self.acked.clear()
        self.latencies.clear()
        self.skipped.clear()
        self.busy.clear()


def document(
    spout: Mapping[str, Any], bolts: Sequence[Mapping[str, Any]], **spec: Any
) -> dict[str, Any]:
    """A topology's document."""
    return {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "benchmark"},
        "spec": {**spec, "spouts": [spout], "bolts": bolts},
    }


def word_count(
    workers: int,
    spout: str = "Clock",
    prefix: str = "",
    config: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Sentences, shuffled to `split`, whose words are grouped by field to `count`."""
    return document(
        {
            "name": "sentences",
            "class": f"sentences.{spout}",
            "parallelism": workers,
            "config": dict(config or {}),
        },
        [
            {
                "name": "split",
                "class": f"sentences.{prefix}Split",
                "parallelism": workers,
                "inputs": [{"from": "sentences", "grouping": {"type": "shuffle"}}],
            },
            {
                "name": "count",
                "class": f"sentences.{prefix}Count",
                "parallelism": workers,
                "inputs": [{"from": "split", "grouping": {"type": "fields", "fields": ["word"]}}],
            },
        ],
        workers=workers,
        **spec,
    )


Jobs = Callable[[TopologySpec, Path], Any]
"""What runs the jobs of a topology, whose log is in that file."""


def in_the_driver(spec: TopologySpec, log_file: Path, folder: Path = TOPOLOGIES) -> LocalSparkJobs:
    """All workers in the JVM of the driver, as `fulmen run` has them, with the code of a folder."""
    return LocalSparkJobs(spec.workers, spec.spark.conf, folder, log_file)


def in_this_process(_spec: TopologySpec, _log_file: Path) -> InProcessJobs:
    """No Spark."""
    return InProcessJobs()


@contextmanager
def running(
    content: Mapping[str, Any],
    watcher: Watcher,
    jobs: Jobs = in_the_driver,
    code: Path = TOPOLOGIES,
) -> Iterator[RunningTopology]:
    """A driver on real Spark, with a checkpoint on this machine's disk."""
    runnable = check(content, code).runnable(code)
    spec = runnable.topology.spec
    folder = Path(tempfile.mkdtemp(prefix="fulmen-benchmark-"))
    driver = Driver(runnable, jobs(spec, folder / "log"), f"file://{folder}/checkpoint", watcher)
    try:
        topology = driver.start()
        try:
            yield topology
        finally:
            topology.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_for(driver: RunningTopology, seconds: float) -> None:
    """Batches for that long, with the pauses of an idle topology."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if driver.step():
            time.sleep(min(left, driver.coordinator.idle_seconds()))


def processes() -> dict[int, str]:
    """This process and all below it: process id -> its kind.

    Kinds: driver, driver-jvm, python and, where workers have JVMs of their own, worker-jvm.
    """
    below = _children()
    own = below[os.getpid()]
    found, todo = {os.getpid(): "driver"}, list(own)
    while todo:
        pid = todo.pop()
        todo += below[pid]
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue
        jvm = "driver-jvm" if pid in own else "worker-jvm"
        found[pid] = jvm if command.endswith(b"java") else "python"
    return found


def cpu_seconds_of(root: int) -> float:
    """CPU seconds so far of a process and all below it, with those that it has waited for."""
    below, used, todo = _children(), 0.0, [root]
    while todo:
        pid = todo.pop()
        todo += below[pid]
        if fields := _stat(pid):
            used += sum(map(int, fields[11:15])) / _TICKS
    return used


def _children() -> dict[int, list[int]]:
    """The processes that each process has started."""
    below: dict[int, list[int]] = defaultdict(list)
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(int(name))
        if fields:
            below[int(fields[1])].append(int(name))
    return below


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def cpu_seconds() -> dict[str, float]:
    """CPU seconds so far of all processes, by kind."""
    used: dict[str, float] = defaultdict(float)
    for pid, kind in processes().items():
        fields = _stat(pid)
        if fields:
            used[kind] += (int(fields[11]) + int(fields[12])) / _TICKS
    return used


def stolen_seconds() -> float:
    """CPU seconds so far that this virtual machine wanted and its host gave to others."""
    return int(Path("/proc/stat").read_text().split()[8]) / _TICKS


def memory_bytes() -> dict[str, int]:
    """Memory of all processes, by kind. What several share counts for each in part (PSS)."""
    used: dict[str, int] = defaultdict(int)
    for pid, kind in processes().items():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            continue
        used[kind] += sum(1024 * int(line.split()[1]) for line in lines if line[:4] == "Pss:")
    return used
