"""Batches as jobs of Spark's, one at a time: run, cancelled, and tried again after a loss.

What makes a batch cheap: nothing is built for it (see rdds/chains.py; its header travels
as a local property), rows are plain bytes, and driver and JVM exchange a handful of messages. On
this machine a single stage needs no job of its own: see rdds/long_task.py.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from fulmen.engine.protocol.callbacks.calls import FOLDER, Call, left_in
from fulmen.engine.spark.failures import (
    ended_worker,
    explain,
    is_clusters,
    is_incomplete,
    is_over,
    traceback_in,
)
from fulmen.engine.spark.job_rows import JobRows
from fulmen.engine.spark.rdds.chains import Functions, Ring
from fulmen.engine.spark.rdds.long_task import LONG, LongTasks, TasksEnded
from fulmen.engine.spark.rdds.placement import Anchors, Lanes
from fulmen.engine.spark.rdds.stage_runner import HEADER, StageFunction, separated
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
        self._results = JobRows(session)
        self._epoch = 0
        self._watch_seconds = 0.0
        self._lock = threading.Lock()  # of the next two, which `cancel` uses as well
        self._future: Any = None
        self._is_cancelled = False
        self._stages = stages
        self._rings: dict[range, Ring] = {}
        self._long: tuple[LongTasks, Any] | None = None  # tasks that last, and their job
        self._long_jobs = 0
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
        is_single = (end or self._stages) == first + 1
        try:
            if is_single and self._session.is_local:
                by_partition = self._ask(first, header, timeout_seconds)
            else:
                self._end_long_tasks()
                rows = self._run(partial(self._ring, first, end), header, timeout_seconds)
                by_partition = dict(zip(self._lanes.order, rows, strict=True))
        except JobTimedOut as e:
            self._watch_seconds = e.seconds  # if the next attempt hangs too, the log will say where
            raise
        self._watch_seconds = 0.0
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
    ) -> None:
        """Go on with other stages or workers. What the chains so far have written is deleted.

        Args:
            stage_function: What a stage does.
            stages: The number of stages.
            workers: Partition p runs on worker workers[p].

        Raises:
            SparkLost: Spark itself is gone.
        """
        self._function = stage_function
        self._stages, self._workers = stages, tuple(workers)
        try:
            self._build()
        except JVM_ERRORS as e:
            raise self._lost(e) from None
        self._await_workers(PATIENCE_SECONDS)

    def close(self) -> None:
        """Delete what the chains have written. Does not end the session."""
        self._end_long_tasks()
        with suppress(*JVM_ERRORS):
            self._clean()

    def _locations(self) -> list[str | None]:
        return [self._session.workers.location(worker) for worker in self._workers]

    def _build(self) -> None:
        self._end_long_tasks()
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
        self._end_long_tasks()
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
        with self._failures_told(timeout_seconds):
            future = self._start(ring_of, header)
            return self._results.fetch(future, len(self._placed), timeout_seconds)

    def _start(self, ring_of: Callable[[], Ring], header: str) -> Any:
        """Start a job, and use the time in which it runs."""
        ring = ring_of()  # made when it is first needed
        text = f"{self._epoch} {self._watch_seconds} {header}"
        self._jsc.setLocalProperty(HEADER, text)
        future = ring.take().rdd.collectAsync()
        self._goes_on(future)
        ring.clean()  # while the job runs
        self._make_ahead(ring)
        return future

    def _goes_on(self, future: Any) -> None:
        """Let `cancel` know the job that is waited for."""
        with self._lock:
            self._future = future
            is_cancelled = self._is_cancelled
        if is_cancelled:
            self._end_job()

    @contextmanager
    def _failures_told(self, timeout_seconds: float | None) -> Iterator[None]:
        """Raise our errors for those of the JVM, from what waits for a job."""
        try:
            yield
        except (*JVM_ERRORS, PySparkException) as e:
            raise self._failure(e, timeout_seconds) from None
        except FulmenError:
            raise
        except BaseException:  # a signal handler's: the JVM's answer is still to come
            self._session.abandon_connection()
            self._end_job()  # if it was started already and this was not told: `recover` ends it
            raise
        finally:
            with self._lock:
                self._future = None

    # Tasks that last

    def _ask(self, stage: int, header: str, timeout_seconds: float | None) -> Mapping[int, bytes]:
        """Have tasks that last run a stage. They are started if they are not there."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        if self._long is not None and not self._long[0].are_there:
            self._end_long_tasks()  # a process has ended since the last batch, which harms no other
        with self._failures_told(timeout_seconds):
            tasks, job = self._long or self._start_long_tasks()
            self._goes_on(job)
            try:
                if not tasks.have_begun:
                    tasks.await_all(len(self._placed), deadline, job.isDone)
                answers = tasks.ask(stage, self._watch_seconds, header, deadline, job.isDone)
            except BaseException as e:
                self._long = None
                tasks.close()
                if isinstance(e, TimeoutError):
                    self._end_job()
                    raise JobTimedOut(timeout_seconds or 0.0) from None
                if not isinstance(e, TasksEnded):
                    raise
                self._wait_for(job)  # raises why
                raise JobFailed("the tasks of the workers have ended") from None
        if self._is_cancelled:  # too late for these answers, but their job has ended
            self._end_long_tasks()
        return answers

    def _start_long_tasks(self) -> tuple[LongTasks, Any]:
        self._long_jobs += 1
        path = self._session.work_dir / f"tasks-{self._long_jobs}"
        tasks = LongTasks(path)
        try:
            self._long = tasks, self._start(partial(self._ring, 0, 1), f"{LONG}{path}")
        except BaseException:
            tasks.close()
            raise
        return self._long

    def _end_long_tasks(self) -> None:
        """Let them end, so that other jobs find the workers idle."""
        if self._long is None:
            return
        tasks, job = self._long
        self._long = None
        tasks.close()
        with suppress(*JVM_ERRORS):  # if it failed, there was nothing to do in it
            self._wait_for(job)

    def _wait_for(self, job: Any) -> None:
        """Wait until a job that is about to end has ended. Raises what it does."""
        job.get(int(LEAST_SECONDS * 1000), self._results.milliseconds)

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
