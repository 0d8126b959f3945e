"""Batches as jobs of Spark's, one at a time: run, cancelled, and tried again after a loss.

What makes a batch cheap: nothing is built for it (see rdds/chains.py; its header travels
as a local property), rows are plain bytes, and driver and JVM exchange a handful of messages.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.util import _load_from_socket

from fulmen.engine.protocol.callbacks.calls import FOLDER, Call, left_in
from fulmen.engine.spark.failures import (
    ended_worker,
    explain,
    is_clusters,
    is_incomplete,
    is_over,
    traceback_in,
)
from fulmen.engine.spark.rdds.chains import Functions, Ring
from fulmen.engine.spark.rdds.placement import Anchors, Lanes
from fulmen.engine.spark.rdds.stage_runner import HEADER, Raw, StageFunction, separated
from fulmen.engine.spark.session import JVM_ERRORS, RunningSpark, text_of
from fulmen.engine.spark.workers import POLL_SECONDS
from fulmen.engine.tuples import wire
from fulmen.errors import FulmenError, JobFailed, JobTimedOut, SparkLost

PATIENCE_SECONDS = 15.0
LEAST_SECONDS = 5.0  # less is too little for a process that starts


class JobRunner:
    """Runs batches, one at a time. One thread runs them; any other may cancel.

    Attributes:
        left_calls: Calls of authors' that were under way in processes that have ended.

    Args:
        session: Spark.
        stage_function: What a stage does. It is sent with every task: keep its pickle small.
        stages: The number of stages.
        workers: Partition p runs on worker workers[p].
        patience_seconds: How long to wait until each of them answers.
    """

    def __init__(
        self,
        session: RunningSpark,
        stage_function: StageFunction,
        stages: int,
        workers: Sequence[int],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._session = session
        self._function = stage_function
        self._jsc = session.sc._jsc
        self._results = _Results(session)
        self._epoch = 0
        self._watch_seconds = 0.0
        self._lock = threading.Lock()  # of the next two, which `cancel` uses as well
        self._future: Any = None
        self._is_cancelled = False
        self._stages = stages
        self._rings: dict[range, Ring] = {}
        self.left_calls: list[Call] = []
        self._workers = tuple(workers)
        self._build()
        self._await_workers(patience_seconds)

    def run(
        self, header: str, timeout_seconds: float | None = None, first: int = 0, end: int = 0
    ) -> list[bytes]:
        """Run one job and return the rows of its last stage.

        After an exception call `recover` before the next run.

        Args:
            header: The text that each call of the stage's function gets.
            timeout_seconds: When to give up.
            first: The first stage to run.
            end: The stage before which the job ends; 0: after the last one.

        Raises:
            JobFailed: It ended without a result.
            JobTimedOut: It was cancelled, as it took too long.
            SparkLost: Spark itself is gone.
        """
        with self._lock:
            self._is_cancelled = False
        try:
            rows = self._run(partial(self._ring, first, end), header, timeout_seconds)
        except JobTimedOut as e:
            self._watch_seconds = e.seconds  # if the next attempt hangs too, the log will say where
            raise
        self._watch_seconds = 0.0
        by_partition = dict(zip(self._lanes.order, rows, strict=True))
        return [row for p in sorted(by_partition) for row in separated(by_partition[p])]

    def expect(self, end: int) -> None:
        """Runs of the stages before `end` will follow: what they need is made during the next run.

        Raises:
            SparkLost: Spark itself is gone.
        """
        try:
            self._ring(0, end)
        except JVM_ERRORS as e:
            raise self._lost(e) from None

    def cancel(self) -> None:
        """End the `run` that goes on, if any, with JobFailed; or have `recover` wait no longer."""
        with self._lock:
            self._is_cancelled = True
        self._end_job()

    def recover(self, patience_seconds: float = PATIENCE_SECONDS) -> tuple[int, ...]:
        """After a run that failed or was void: wait until the next one can succeed.

        A Python process is replaced at once, a pod when another one has started. What is left of
        the failed job ends: a process that does not is killed by Spark after 2 to 4 seconds.

        Returns:
            The numbers of the workers that are there. If one is missing, `rebuild` without it.

        Raises:
            SparkLost: Spark itself is gone.
        """
        self.left_calls = []
        return self._await_workers(patience_seconds)

    def alive(self) -> tuple[int, ...]:
        """The numbers of the workers that are there now. Costs a millisecond for each."""
        try:
            return self._session.workers.alive()
        except JVM_ERRORS as e:
            raise self._lost(e) from None

    def rebuild(
        self,
        stage_function: StageFunction,
        stages: int,
        workers: Sequence[int],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Go on with other stages or workers. What the chains so far have written is deleted.

        Args:
            stage_function: What a stage does.
            stages: The number of stages.
            workers: Partition p runs on worker workers[p].
            patience_seconds: How long to wait until each of them answers.

        Raises:
            SparkLost: Spark itself is gone.
        """
        self._function = stage_function
        self._stages, self._workers = stages, tuple(workers)
        try:
            self._build()
        except JVM_ERRORS as e:
            raise self._lost(e) from None
        self._await_workers(patience_seconds)

    def close(self) -> None:
        """Delete what the chains have written. Does not end the session."""
        with suppress(*JVM_ERRORS):
            self._clean()

    def _locations(self) -> list[str | None]:
        return [self._session.workers.location(worker) for worker in self._workers]

    def _build(self) -> None:
        self._clean()
        session = self._session
        self._placed = self._locations()
        self._lanes = Lanes(self._workers, session.workers.slots)
        self._anchors = Anchors(session.sc, self._placed)
        self._rings = {}
        self._functions = Functions(session, self._lanes)
        self._roll_call = self._new_ring(answer, range(1))

    def _ring(self, first: int, end: int) -> Ring:
        stages = range(first, end or self._stages)
        if stages not in self._rings:
            self._rings[stages] = self._new_ring(self._function, stages)
        return self._rings[stages]

    def _new_ring(self, function: StageFunction, stages: range) -> Ring:
        return Ring(self._session, self._functions, function, stages, self._lanes, self._anchors)

    def _clean(self) -> None:
        for ring in self._rings.values():
            ring.clean(keep=0)

    def _await_workers(self, patience_seconds: float) -> tuple[int, ...]:
        """Wait until every worker is there, and every partition has met a process of its own."""
        deadline = time.monotonic() + patience_seconds
        with self._lock:
            self._is_cancelled = False
        self._epoch += 1
        try:
            while True:
                # jobs that nobody waits for: a signal may come between one's start and its name
                self._jsc.sc().cancelAllJobs()
                workers = self._session.workers
                alive = workers.alive()
                # A stale task would not hold up the roll call: its JVM may have a core free.
                if set(self._workers).issubset(alive) and not workers.are_busy():
                    if self._placed != self._locations():
                        self._build()
                    if self._answer(max(deadline - time.monotonic(), LEAST_SECONDS)):
                        break
                if time.monotonic() > deadline or self._is_cancelled:
                    break
                time.sleep(POLL_SECONDS)
        except JVM_ERRORS as e:
            raise self._lost(e) from None
        return alive

    def _answer(self, seconds: float) -> bool:
        """Whether every partition meets a process of its own, in a job that nothing disturbs.

        It runs when what a failed job has left running is gone.
        """
        self._epoch += 1
        try:
            rows = self._run(lambda: self._roll_call, "", seconds)
            said = [row for joined in rows for row in separated(joined)]
            calls = [row for row in said if row[:1] == wire.CALL]
            self.left_calls += [Call(*wire.unpack(row)) for row in calls]
            return len(calls) == len(said)
        except JobFailed as e:
            settings = self._session.settings
            if reason := is_incomplete(str(e), settings.python):  # it runs no code of authors'
                raise FulmenError(f"{reason} More is in '{settings.log_file}'.") from None
            return False

    def _run(
        self, ring_of: Callable[[], Ring], header: str, timeout_seconds: float | None
    ) -> list[bytes]:
        try:
            ring = ring_of()  # made when it is first needed
            text = f"{self._epoch} {self._watch_seconds} {header}"
            self._jsc.setLocalProperty(HEADER, text)
            future = ring.take().rdd.collectAsync()
            with self._lock:
                self._future = future
                is_cancelled = self._is_cancelled
            if is_cancelled:
                self._end_job()
            ring.clean()  # while the job runs
            self._make_ahead(ring)
            return self._results.fetch(future, len(self._placed), timeout_seconds)
        except (*JVM_ERRORS, PySparkException) as e:
            raise self._failure(e, timeout_seconds) from None
        except BaseException:  # a signal handler's: the JVM's answer is still to come
            self._session.abandon_connection()
            self._end_job()  # if it was started already and this was not told: `recover` ends it
            raise
        finally:
            with self._lock:
                self._future = None

    def _make_ahead(self, used: Ring) -> None:
        """While a job runs, make the chains that the next ones are likely to need."""
        used.make_next()
        for ring in self._rings.values():
            if ring.is_new:
                ring.make_next()

    def _end_job(self) -> None:
        with self._lock:
            future = self._future
        if future is not None:
            with suppress(*JVM_ERRORS):
                future.cancel(True)  # noqa: FBT003 (of the JVM)

    def _failure(self, error: Exception, timeout_seconds: float | None) -> FulmenError:
        """The error for an exception. A job that took too long is cancelled here."""
        if not isinstance(error, Py4JJavaError):
            return self._lost(error)
        text = text_of(error)
        if timeout_seconds is not None and "java.util.concurrent.TimeoutException" in text:
            self._end_job()
            return JobTimedOut(timeout_seconds)
        self._session.log(text)
        if is_over(text) or self._session.has_ended():
            return self._lost(error)
        workers = [self._workers[partition] for partition in self._lanes.order]
        reason = explain(text, workers, self._session.workers.by_executor())
        worker = ended_worker(text, workers)
        return JobFailed(reason, is_clusters(text), traceback_in(text), worker)

    def _lost(self, error: Exception) -> SparkLost:
        self._session.log(text_of(error))
        how = self._session.how_it_ended() or "it does not answer, or takes no more jobs"
        return SparkLost(how, str(self._session.settings.log_file))


def answer(  # what any stage is called with
    stage: int,  # noqa: ARG001
    partition: int,  # noqa: ARG001
    header: str,  # noqa: ARG001
    void: str | None,
    rows: Iterator[bytes],  # noqa: ARG001
) -> Iterator[tuple[int, bytes]]:
    """A stage that only says whether something is wrong with its place.

    And which calls were under way in processes that were there before.
    """
    if void:
        yield 0, void.encode()
    elif folder := os.environ.get(FOLDER):
        for call in left_in(Path(folder)):
            yield 0, wire.pack(wire.CALL, tuple(call))


class _Results:
    """Fetches the rows of jobs, one of each partition.

    Small ones as py4j sends them. It writes a long answer in pieces over TCP, and each row above
    some 6 KB waits 40 ms for a delayed acknowledgement: then they are read from a Unix socket of
    Spark's, which costs 1 to 2 ms. Which way is chosen by the jobs before.
    """

    LARGE_BYTES = 3000
    STAY_LARGE_JOBS = 20

    def __init__(self, session: RunningSpark) -> None:
        jvm: Any = session.sc._jvm
        self._milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self._serve = jvm.PythonRDD.serveIterator
        self._large_jobs_left = self.STAY_LARGE_JOBS

    def fetch(self, future: Any, partitions: int, timeout_seconds: float | None) -> list[bytes]:
        """Wait for a job and return its rows."""
        if timeout_seconds is None:
            results = future.get()
        else:
            results = future.get(max(1, int(timeout_seconds * 1000)), self._milliseconds)
        if self._large_jobs_left > 0:
            self._large_jobs_left -= 1
            served = self._serve(self._as_scala(results.iterator()), "rows")
            with _load_from_socket(served, Raw()) as stream:
                rows = list(stream)
            if len(rows) < partitions:
                raise ConnectionResetError(f"{len(rows)} of {partitions} rows could be read")
        else:
            rows = [bytes(results.get(index)) for index in range(partitions)]
        if any(len(row) > self.LARGE_BYTES for row in rows):
            self._large_jobs_left = self.STAY_LARGE_JOBS
        return rows
