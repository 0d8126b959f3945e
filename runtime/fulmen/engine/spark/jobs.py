"""Batches as Spark jobs, on workers of this machine or somewhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fulmen.checkpoint import Store
from fulmen.engine.protocol.callbacks.calls import Call, under_way_in
from fulmen.engine.protocol.callbacks.told_calls import ToldCalls
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.spark.job_runner import JobRunner
from fulmen.engine.spark.session import RunningSpark, SessionSettings
from fulmen.engine.worker.worker import stage_function
from fulmen.errors import FulmenError, JobTimedOut
from fulmen.topology.resource.spec import ACKER

MAKING = "making the components' instances"


class SparkJobs:
    """Spark, started for the first batch. One thread runs batches; any other may cancel or look.

    Attributes:
        making_seconds: While instances are made: how long that may take. 0: they are not.

    Args:
        settings: What to start it with.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._session: RunningSpark | None = None
        self._starting: RunningSpark | None = None
        self._jobs: JobRunner | None = None
        self.making_seconds = 0.0
        self._placed: PlacedTopology | None = None
        self._told: ToldCalls | None = None
        self._began: float | None = None  # while a job runs
        self._made_without: tuple[int, ...] | None = None  # None: instances have to be made

    def start(self, placed: PlacedTopology) -> Sequence[int]:
        """Begin a run, or go on with another plan. The first time it starts Spark: some seconds."""
        self._placed, self._made_without = placed, None
        self._told = ToldCalls(Store.open(placed.checkpoint), placed.run)
        function, stages = stage_function(placed), len(placed.plan.stages)
        if self._jobs is not None:
            assert self._session is not None
            self._session.resize(placed.plan.workers)
            self._jobs.rebuild(function, stages, placed.workers)
            return placed.workers
        if self._session is None:
            self._starting = RunningSpark(
                self._settings
            )  # `close` knows it before it starts anything
            self._starting.start()
            self._session = self._starting
        present = self._session.workers.alive()
        workers = [worker for worker in placed.workers if worker in present]
        if not workers:
            raise FulmenError("the workers that had started are gone again")
        self._jobs = JobRunner(self._session, function, stages, workers)
        return workers

    def run(self, header: Header, timeout_seconds: float) -> list[bytes]:
        """Run one job. Errors as for `JobRunner.run`.

        If instances have to be made, another job before it does that, and has more time.
        """
        assert self._jobs is not None
        self._began = time.monotonic()
        try:
            if header.left_out != self._made_without and not header.closes:
                rows = self._make(header, timeout_seconds)
                if rows:
                    return rows
            first, end = header.first, header.stop_before
            return self._jobs.run(header.encode(), timeout_seconds, first, end)
        finally:
            self._began = None

    def _make(self, header: Header, batch_seconds: float) -> list[bytes]:
        """Have instances made. Returns why that failed, if it did."""
        assert self._jobs is not None
        assert self._placed is not None
        seconds = self._placed.limits.making_share * batch_seconds
        self.making_seconds = seconds
        try:
            stages = self._placed.plan.stages
            self._jobs.expect(len(stages))
            if stages[-1] == (ACKER,):  # light batches do without
                self._jobs.expect(len(stages) - 1)
            opening = header.opening()
            rows = self._jobs.run(opening.encode(), seconds, opening.first, opening.stop_before)
        except JobTimedOut as e:
            raise JobTimedOut(e.seconds, MAKING) from None
        finally:
            self.making_seconds = 0.0
        self._made_without = None if rows else header.left_out
        return rows

    def recover(self) -> tuple[int, ...]:
        """Wait until another attempt can be made. Errors as for `JobRunner.recover`."""
        assert self._jobs is not None
        self._made_without = None
        return self._of_plan(self._jobs.recover())

    def left_calls(self) -> list[Call]:
        """Calls that were under way in processes that the failure has ended."""
        if self._jobs is None:
            return []
        left, self._jobs.left_calls = self._jobs.left_calls, []
        return left

    def calls_under_way(self) -> list[Call]:
        """Calls that have not ended. Of workers elsewhere: those that have lasted for seconds."""
        session, told, began = self._session, self._told, self._began
        if session is None or told is None or self._placed is None:
            return []
        if session.is_local:
            return under_way_in(session.calls_folder)
        if began is None or time.monotonic() - began < self._placed.limits.hang_seconds:
            told.forget()
            return []
        return told.read()

    def alive(self) -> tuple[int, ...]:
        """Numbers of the workers that are there now."""
        return () if self._jobs is None else self._of_plan(self._jobs.alive())

    def _of_plan(self, workers: Sequence[int]) -> tuple[int, ...]:
        """Drop slots that no worker of the plan has."""
        assert self._placed is not None
        return tuple(worker for worker in workers if worker < self._placed.plan.workers)

    @property
    def hosts(self) -> tuple[str | None, ...]:
        """Where each worker is, or was last. None: it has not been there yet."""
        return () if self._session is None else tuple(self._session.workers.hosts)

    def cancel(self) -> None:
        """End the attempt that goes on, if any, and waiting for lost workers."""
        if self._jobs is not None:
            self._jobs.cancel()

    def close(self) -> None:
        """End Spark."""
        if self._jobs is not None:
            self._jobs.close()
        if self._starting is not None:
            self._starting.close()
        self._jobs = self._session = self._starting = None


class LocalSparkJobs(SparkJobs):
    """Spark on this machine: all workers have slots in the driver's JVM. See `SessionSettings`."""

    def __init__(
        self,
        workers: int,
        conf: Mapping[str, str],
        code_folder: Path | None,
        log_file: Path,
        env: Mapping[str, str] | None = None,
        start_timeout_seconds: float = 300.0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        path = str(code_folder) if code_folder else None
        super().__init__(
            SessionSettings(
                workers=workers,
                log_file=log_file,
                conf=conf,
                code_path=path,
                env=env,
                start_timeout_seconds=start_timeout_seconds,
                tell=tell,
            )
        )
