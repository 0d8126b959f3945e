"""What workers cost by how many of them share a JVM, and a model of it for more workers.

On pods `slots` workers share a JVM. Here Spark's `local-cluster` stands for them: it starts JVMs of
their own on this machine, with the same settings, but without a network between them, without
encryption and without an archive of classes. Two cores can't give a hundred workers a core each, so
the model rests on CPU time: what a task, a stage of a JVM and a worker cost, fitted to all layouts
that were measured.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import running
from benchmarks.running import Watcher, cpu_seconds, memory_bytes, run_for, word_count
from fulmen.engine.jvm.class_archive import spark_jars
from fulmen.engine.spark.jobs import SparkJobs
from fulmen.engine.spark.session import SessionSettings
from fulmen.kube.driver.pod_settings import HEAP_SHARE
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.resource.spec.pods import LEAST_MEBIBYTES

Result = dict[str, Any]
LAYOUTS = [(2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2), (8, 4), (8, 8), (16, 8)]
"""Workers, and how many of them share a JVM."""
WANTED = [(w, s) for w in (10, 30, 100) for s in (1, 2, 4, 8)]
"""What the model is asked for."""
DRIVER_CORES = 2
LEAD_SECONDS = 20
LEAD_SECONDS_A_WORKER = 4


def slots(arguments: argparse.Namespace) -> list[Result]:
    """Time, CPU and memory of a small batch by workers and slots; then the model's constants."""
    before = set(_spark_outputs())
    try:
        measured = [_layout(workers, count, arguments) for workers, count in LAYOUTS]
    finally:
        for left in set(_spark_outputs()) - before:
            shutil.rmtree(left, ignore_errors=True)
    model = fit(measured)
    predicted = [predict(model, workers, count) for workers, count in WANTED]
    return [*measured, {"model": {k: round(v, 3) for k, v in model.items()}}, *predicted]


def in_jvms_of_their_own(spec: TopologySpec, log_file: Path) -> SparkJobs:
    """Workers as pods have them: `slots` of them in each JVM."""
    heap = int(LEAST_MEBIBYTES * HEAP_SHARE) * spec.slots
    conf = {
        "spark.master": f"local-cluster[{spec.pods},{spec.slots},{heap}]",
        "spark.executor.memory": f"{heap}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate.secret": secrets.token_hex(32),
    }
    return SparkJobs(
        SessionSettings(
            workers=spec.workers,
            slots=spec.slots,
            conf=conf,
            code_path=str(running.TOPOLOGIES),
            log_file=log_file,
            env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )
    )


def _spark_outputs() -> Iterator[Path]:
    """What JVMs of a `local-cluster` have printed: Spark keeps it beside its own files."""
    folder = spark_jars().parent / "work"
    return folder.iterdir() if folder.is_dir() else iter(())


def _layout(workers: int, count: int, arguments: argparse.Namespace) -> Result:
    watcher = Watcher()
    lead = LEAD_SECONDS + LEAD_SECONDS_A_WORKER * workers
    config = {"start": time.time() + lead, "rate": 100}
    content = word_count(workers, slots=count, config=config)
    with running.running(content, watcher, in_jvms_of_their_own) as driver:
        run_for(driver, lead + arguments.warm)
        watcher.forget()
        before = cpu_seconds()
        run_for(driver, arguments.seconds)
        used = {kind: seconds - before[kind] for kind, seconds in cpu_seconds().items()}
        megabytes = {kind: round(size / 1e6) for kind, size in memory_bytes().items()}
        stages = len(driver.placed.plan.stages) - float(np.mean(watcher.skipped))
    batches = len(watcher.seconds)
    return {
        "workers": workers,
        "slots": count,
        "stages": round(stages, 2),
        "batch_p50_ms": round(float(np.median(watcher.seconds)) * 1000, 1),
        "cpu_ms_a_batch": {kind: round(s / batches * 1000, 1) for kind, s in used.items()},
        "megabytes": megabytes,
    }


# The model: W workers in J JVMs, S stages

DRIVER = ("driver_ms", "driver_ms_a_worker")
DRIVER_JVM = ("driver_jvm_ms", "driver_jvm_ms_a_task", "driver_jvm_ms_a_stage_of_a_jvm")
WORKER_JVM = ("worker_jvm_ms_a_task", "worker_jvm_ms_a_stage_of_a_jvm")
PYTHON = ("python_ms_a_task",)
MEMORY = ("mb", "mb_a_jvm", "mb_a_worker")


def fit(measured: Sequence[Result]) -> dict[str, float]:
    """The constants with which the model is nearest to what was measured, in its relative error.

    Args:
        measured: Results of single layouts; the first one with two workers in one JVM tells what a
            stage takes on a worker.
    """
    workers = np.array([float(row["workers"]) for row in measured])
    jvms = np.array([float(_jvms(row["workers"], row["slots"])) for row in measured])
    stages = np.array([row["stages"] for row in measured])
    one, tasks, of_jvms = np.ones(len(measured)), stages * workers, stages * jvms

    def cpu(kind: str) -> np.ndarray:
        return np.array([row["cpu_ms_a_batch"].get(kind, 0.0) for row in measured])

    memory = np.array([float(sum(row["megabytes"].values())) for row in measured])
    model = {
        **_least_squares(DRIVER, (one, workers), cpu("driver")),
        **_least_squares(DRIVER_JVM, (one, tasks, of_jvms), cpu("driver-jvm")),
        **_least_squares(WORKER_JVM, (tasks, of_jvms), cpu("worker-jvm")),
        **_least_squares(PYTHON, (tasks,), cpu("python")),
        **_least_squares(MEMORY, (one, jvms, workers), memory),
    }
    base = next(row for row in measured if (row["workers"], row["slots"]) == (2, 2))
    on_the_driver = _driver_ms(model, 2, 1, base["stages"])
    return model | {"stage_ms": (base["batch_p50_ms"] - on_the_driver) / base["stages"]}


def _least_squares(
    names: Sequence[str], columns: Sequence[np.ndarray], wanted: np.ndarray
) -> dict[str, float]:
    """Constants that are not negative: whose column would have one less than 0 is left out."""
    kept = list(range(len(names)))
    while True:
        table = np.stack([columns[i] for i in kept], axis=1) / wanted[:, None]
        found = np.linalg.lstsq(table, np.ones(len(wanted)), rcond=None)[0]
        if (found >= 0).all():
            by_name = dict(zip((names[i] for i in kept), found.tolist(), strict=True))
            return {name: by_name.get(name, 0.0) for name in names}
        del kept[int(np.argmin(found))]


def _jvms(workers: int, count: int) -> int:
    return -(-workers // count)


def _driver_ms(model: Mapping[str, float], workers: int, jvms: int, stages: float) -> float:
    """What the driver does in a batch, while workers wait for it."""
    python = model["driver_ms"] + workers * model["driver_ms_a_worker"]
    tasks = workers * stages * model["driver_jvm_ms_a_task"]
    of_jvms = jvms * stages * model["driver_jvm_ms_a_stage_of_a_jvm"]
    # its JVM has a thread for each worker's answers, and as many of them run as it has cores
    return python + (model["driver_jvm_ms"] + tasks + of_jvms) / DRIVER_CORES


def predict(model: Mapping[str, float], workers: int, count: int, stages: float = 3) -> Result:
    """A small batch where each worker has a core of its own."""
    jvms = _jvms(workers, count)
    batch = stages * model["stage_ms"] + _driver_ms(model, workers, jvms, stages)
    megabytes = model["mb"] + jvms * model["mb_a_jvm"] + workers * model["mb_a_worker"]
    return {
        "by_the_model": {
            "workers": workers,
            "slots": count,
            "batch_ms": round(batch),
            "megabytes": round(megabytes),
        }
    }
