"""A batch in this very process: the same stages, routing and ackers, without Spark. For tests."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import numpy as np

from fulmen.checkpoint import Store
from fulmen.engine.protocol.callbacks.calls import CALLS, Call
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.worker.worker import Worker
from fulmen.errors import JobFailed, error_text, text_of


class Crash(Exception):
    """Raised by a fault to stand for a process that was killed."""


class InProcessJobs:
    """Stands for Spark: each worker is an object with tasks of its own.

    Attributes:
        fault: Called as fault(stage, partition, moment) with the moments "before", "row" and
            "after". What it raises stands for the death of that worker's process: its tasks are
            lost, and the attempt fails.
        losses: What stands for the death of a worker's process, whoever raises it.
        store: What the workers read and write instead of the store that the topology's URI names.
        clock: A clock in seconds, which measures how long restoring takes.
        generator: Makes the workers' random generators.
    """

    def __init__(
        self,
        fault: Callable[[int, int, str], None] | None = None,
        store: Store | None = None,
        clock: Callable[[], float] = time.perf_counter,
        generator: Callable[[], np.random.Generator] = np.random.default_rng,
        losses: tuple[type[BaseException], ...] = (Crash,),
    ) -> None:
        self.fault = fault or (lambda _stage, _partition, _moment: None)
        self.store = store
        self.clock = clock
        self.generator = generator
        self.losses = losses
        self._workers: list[Worker] = []
        self._left: list[Call] = []

    def _worker(self) -> Worker:
        stores = {self._placed.checkpoint: self.store} if self.store else None
        return Worker(stores, self.clock, self.generator)

    def start(self, placed: PlacedTopology) -> Sequence[int]:
        """Begin a run, or go on with another plan."""
        for worker in self._workers:
            worker.close()
        self._placed = placed
        self._workers = [self._worker() for _ in range(placed.plan.workers)]
        return placed.workers

    def run(self, header: Header, timeout_seconds: float) -> list[bytes]:  # noqa: ARG002 (nothing is cancelled here)
        """Run one job, one part after another. As in a worker, nothing is collected meanwhile."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return self._run(header)
        finally:
            if was_enabled:
                gc.enable()

    def _run(self, header: Header) -> list[bytes]:
        n = self._placed.plan.workers
        header = Header.decode(header.encode())
        inputs: list[list[bytes]] = [[] for _ in range(n)]
        for stage in range(header.first, header.stop_before or len(self._placed.plan.stages)):
            outputs: list[list[bytes]] = [[] for _ in range(n)]
            for partition in range(n):
                try:
                    self.fault(stage, partition, "before")
                    rows = self._workers[partition].run_stage(
                        self._placed, stage, partition, header, None, inputs[partition]
                    )
                    for destination, row in rows:
                        self.fault(stage, partition, "row")
                        outputs[destination].append(row)
                    self.fault(stage, partition, "after")
                except self.losses as e:
                    self._left = CALLS.take()
                    self._workers[partition] = self._worker()
                    why = text_of(e) if isinstance(e, Crash) else error_text(e)
                    reason = f"worker {partition} was lost in stage {stage}: {why}"
                    raise JobFailed(reason, worker=partition) from e
            inputs = outputs
        return [row for rows in inputs for row in rows]

    def recover(self) -> Sequence[int]:
        """Wait for nothing: all workers are here."""
        return range(self._placed.plan.workers)

    def left_calls(self) -> list[Call]:
        """The call that a worker's death has ended."""
        left, self._left = self._left, []
        return left

    def calls_under_way(self) -> list[Call]:
        """Give none: who would ask is this process itself."""
        return []

    def cancel(self) -> None:
        """Do nothing: there is no process that could be ended."""

    def alive(self) -> tuple[int, ...]:
        """List all workers."""
        return tuple(range(self._placed.plan.workers))

    def close(self) -> None:
        """Let go of all instances."""
        for worker in self._workers:
            worker.close()
