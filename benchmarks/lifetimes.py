"""What a topology costs over its life: its losses, its workers, its age, its state."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import running
from benchmarks.running import (
    Watcher,
    cpu_seconds,
    document,
    memory_bytes,
    processes,
    run_for,
    word_count,
)
from fulmen.engine.driver.driver import RunningTopology

Result = dict[str, Any]
PERIODS = 6


def _until_acked(driver: RunningTopology, watcher: Watcher) -> None:
    before = sum(watcher.acked)
    while sum(watcher.acked) == before:
        driver.step()


def recovery(arguments: argparse.Namespace) -> list[Result]:
    """Seconds from the kill of a process to the commit of the next ack."""
    results = []
    for workers in arguments.workers:
        watcher = Watcher()
        with running.running(word_count(workers, spout="Endless"), watcher) as driver:
            run_for(driver, arguments.warm / 2)
            seconds = []
            for _ in range(3):
                os.kill(_newest("python"), signal.SIGKILL)
                began = time.monotonic()
                _until_acked(driver, watcher)
                seconds.append(round(time.monotonic() - began, 2))
                run_for(driver, 10)
            results.append({"workers": workers, "killed": "python", "seconds": seconds})
        results.append({"workers": workers, "killed": "driver", "seconds": _driver_kills(workers)})
    return results


def _driver_kills(workers: int) -> list[float]:
    """Seconds from the kill of a `fulmen run` until another one has committed an ack."""
    seconds = []
    with tempfile.TemporaryDirectory(prefix="fulmen-benchmark-") as folder:
        file = Path(folder, "topology.yaml")
        file.write_text(yaml.safe_dump(word_count(workers, spout="Endless", maxSpoutPending=5000)))
        fulmen, where = Path(sys.executable).with_name("fulmen"), f"file://{folder}/checkpoint"
        command = [str(fulmen), "run", str(file), "--checkpoint", where]
        command += ["--code-folder", str(running.TOPOLOGIES)]
        for _ in range(4):
            began = time.monotonic()
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            with subprocess.Popen([*command, "--metrics-port", str(port)]) as process:
                while not _acked(port):
                    time.sleep(0.05)
                seconds.append(round(time.monotonic() - began, 1))
                process.kill()
    return seconds[1:]  # the first one had nothing to recover from


def _acked(port: int) -> int:
    """Trees that a running topology has acked; 0 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/topology", timeout=5) as answer:
            return int(json.load(answer)["trees"]["acked"])
    except OSError:
        return 0


def _newest(kind: str) -> int:
    """The process of that kind that was started last: a worker, not the daemon that forks them."""
    return max(pid for pid, found in processes().items() if found == kind)


def overhead(arguments: argparse.Namespace) -> list[Result]:
    """What a worker more costs: memory, and time and CPU of a batch with few tuples."""
    results = []
    for workers in arguments.counts:
        watcher = Watcher()
        config = {"start": time.time() + 20 + 4 * workers, "rate": 100}
        with running.running(word_count(workers, config=config), watcher) as driver:
            run_for(driver, 20 + 4 * workers + arguments.warm)
            watcher.forget()
            before = cpu_seconds()
            run_for(driver, arguments.seconds)
            used = {kind: seconds - before[kind] for kind, seconds in cpu_seconds().items()}
            megabytes = {k: round(v / 1e6) for k, v in memory_bytes().items()}
        batches = len(watcher.seconds)
        results.append(
            {
                "workers": workers,
                "batch_p50_ms": round(float(np.median(watcher.seconds)) * 1000, 1),
                "cpu_ms_a_batch": {k: round(v / batches * 1000, 1) for k, v in used.items()},
                "megabytes": megabytes,
            }
        )
    return results


def keys(arguments: argparse.Namespace) -> list[Result]:
    """Batches that each change 10,000 keys, of a state that has no others, and of a million."""
    results = []
    for count in (10_000, 1_000_000):
        content = document(
            {"name": "sentences", "class": "sentences.Endless"},
            [
                {
                    "name": "touch",
                    "class": "sentences.Touch",
                    "inputs": [{"from": "sentences", "grouping": {"type": "shuffle"}}],
                    "config": {"keys": count},
                }
            ],
            workers=1,
            batchTargetMillis=60_000,
        )
        watcher = Watcher()
        with running.running(content, watcher) as driver:
            _batches_of(driver, 10_000, 50)
            watcher.forget()
            _batches_of(driver, 10_000, 300)
        p50, p99 = np.percentile(np.array(watcher.seconds) * 1000, (50, 99))
        results.append(
            {
                "keys": count,
                "p50_ms": round(float(p50), 1),
                "p99_ms": round(float(p99), 1),
            }
        )
    return results


def _batches_of(driver: RunningTopology, emits: int, batches: int) -> None:
    for _ in range(batches):
        driver.coordinator.size.permit = emits
        driver.step()


def soak(arguments: argparse.Namespace) -> list[Result]:
    """Memory, batch time and files over a long time."""
    results = []
    watcher = Watcher()
    with running.running(word_count(2, spout="Endless", maxSpoutPending=5000), watcher) as driver:
        for _ in range(PERIODS):
            watcher.forget()
            run_for(driver, arguments.minutes * 60 / PERIODS)
            folder = Path(driver.store.uri.removeprefix("file://")).parent
            results.append(
                {
                    "batches": len(watcher.seconds),
                    "batch_p50_ms": round(float(np.median(watcher.seconds)) * 1000, 1),
                    "megabytes": {k: round(v / 1e6) for k, v in memory_bytes().items()},
                    "checkpoint_files": sum(len(files) for _, _, files in os.walk(folder)),
                }
            )
    return results
