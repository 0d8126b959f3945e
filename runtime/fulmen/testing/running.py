"""Runs a topology in this process, with workers that die where a test asks for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from obstore.store import MemoryStore

from fulmen.checkpoint import Store
from fulmen.checkpoint.remote import RemoteBackend
from fulmen.engine.batches.done import Done
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.driver import Driver, RunningTopology, Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.figures.statistics import ERRORS
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.state.committed_state import read_components
from fulmen.engine.totals.derived_waits import waits_of_drain
from fulmen.engine.totals.progress import Progress
from fulmen.engine.totals.totals import Totals
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.engine.worker.worker import Worker
from fulmen.errors import FulmenError, JobFailed, TopologyFailed
from fulmen.testing.components import Killed, Runs
from fulmen.testing.result import Result
from fulmen.testing.transactions import (
    Faults,
    TransactionFault,
    faulty_worker,
)
from fulmen.topology.builder import TopologyBuilder
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.reading import documents
from fulmen.topology.resource.spec import Topology
from fulmen.topology.validation.check import check

Fault = Callable[[int, int, str], None]
_numbers = itertools.count(1)


class NotDrained(FulmenError):
    """A topology goes on and on."""

    def __init__(self, batches: int, pending: int, causes: Sequence[str] = ()) -> None:
        super().__init__(batches, pending, causes)
        self.batches = batches
        self.pending = pending
        self.causes = causes

    def __str__(self) -> str:
        text = (
            f"the topology has not come to its end after {self.batches} batches; {self.pending}"
            " trees are pending."
        )
        if self.causes:
            return text + "".join(f"\n- {cause}" for cause in self.causes)
        return (
            f"{text} A spout ends when is_exhausted() is true, or after 20 batches without an emit."
            " For a spout that never ends, give `batches` or `until`."
        )


class ManualClock:
    """Seconds that pass only when told to.

    Attributes:
        now: How many have passed.
    """

    def __init__(self, now: float = 0.0, *, start: datetime | None = None) -> None:
        """Make one.

        Args:
            now: Seconds that have passed.
            start: The time of day at 0 seconds, with a time zone; None: the present.
        """
        self.now = now
        self._start = Clocks().wall() - self() if start is None else start.timestamp()

    def wall(self) -> float:
        """The time of day, in seconds as of time.time()."""
        return self._start + self()

    def __call__(self) -> float:
        """Read it."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


FAILURES_WITHOUT_TUPLES = 5
"""So often workers may die in a row although there is nothing that they could die of."""


class _Jobs(InProcessJobs):
    """Moves the clock with each attempt, and has workers die at an `ABORT`, or where asked for."""

    def __init__(
        self,
        fault: Fault | None,
        result: Result,
        clock: ManualClock,
        seconds: float,
        faults: Faults,
    ) -> None:
        super().__init__(fault, result.checkpoint, clock)
        self._clock = clock
        self._seconds = seconds
        self._result = result
        self._faults = faults
        self._in_vain = 0

    def _worker(self) -> Worker:
        return faulty_worker(self._faults, super()._worker())

    def check(self, topology: Topology) -> None:
        """See that what is to go wrong can. Raises what `TransactionFault.check` does."""
        self._faults.check(topology)

    def start(self, placed: PlacedTopology) -> Sequence[int]:
        return super().start(replace(placed, shows_emits=self._result.has_emits))

    def run(self, header: Header, timeout_seconds: float) -> list[bytes]:
        self._clock.advance(self._seconds)
        if not header.closes:
            self._result.transactions.begun(header.transactions)
        has_no_tuple = header.is_suspect and not any(header.permits.values())
        Runs.later = 0.0
        try:
            rows = super().run(header, timeout_seconds)
        except Killed as e:
            left = CALLS.take()
            self._left = left if e.is_own else []
            for worker in range(len(self._workers)) if e.worker is None else (e.worker,):
                self._workers[worker] = self._worker()
            self._in_vain += has_no_tuple
            if self._in_vain > FAILURES_WITHOUT_TUPLES:  # a cluster may get better; a test does not
                raise TopologyFailed(
                    f"batch {header.number} failed again and again, at last without any tuple of a"
                    f" spout in it: {e}"
                ) from e
            lost = next((self._placed.plan.worker_of(call.task) for call in self._left), None)
            raise JobFailed(str(e), worker=lost) from e
        self._in_vain = 0 if has_no_tuple else self._in_vain
        self._clock.advance(Runs.later)
        return rows


FRUITLESS_FAILURES, FRUITLESS_BATCHES = 100, 1000
"""With so many failures, or in so many batches with some, and nothing else, it never ends."""


class _RunObserver(Silent):
    """Writes down what happens, and says when to stop."""

    def __init__(
        self, result: Result, enough: Callable[[Result], bool], at_most: int, *, ends: bool
    ) -> None:
        self.stop = Stop()
        self.topology: RunningTopology | None = None
        self.result = result
        self._enough = enough
        self._ends = ends
        self._at_most = at_most
        self._progress: Progress | None = None
        self._told: list[ErrorReport] = []
        self._waited = 0

    def batch(self, totals: Totals, done: Done) -> None:
        assert self.topology is not None
        self._waited = 0
        result, plan = self.result, self.topology.plan
        result.transactions.counted(done)
        for summary in done.summaries:
            result.errors += summary.errors
            for task, stream, rows in summary.extra.get("emits", ()):
                result.emits += [(plan.component_of(task), stream, values) for values in rows]
        self.look(totals)
        if self._enough(result):
            self.stop.now = True
        elif totals.batches >= self._at_most or (self._ends and self._is_fruitless(totals)):
            raise self._not_drained(totals)

    def _not_drained(self, totals: Totals) -> NotDrained:
        resting = self._progress.resting if self._progress else totals.resting
        causes = list(waits_of_drain(totals, resting))
        causes += [
            f"{name}: {totals.sum(ERRORS, name):,} errors, the last: {kept[-1]['message']}"
            for name, kept in totals.errors.items()
        ]
        return NotDrained(totals.batches, totals.trees.pending, causes)

    def _is_fruitless(self, totals: Totals) -> bool:
        """Whether the same failures come again and again, and nothing else."""
        if self._progress is None:
            self._progress = Progress(totals.steady)
        self._progress.look(totals)
        failures, batches = self._progress.failures, self._progress.batches
        return failures >= FRUITLESS_FAILURES or (failures >= 10 and batches >= FRUITLESS_BATCHES)

    def end(self, totals: Totals) -> None:
        """Take over what came after the last batch."""
        known = {id(error) for error in self.result.errors}
        self.result.errors += [error for error in self._told if id(error) not in known]
        self.look(totals)

    def look(self, totals: Totals) -> None:
        """Take over the figures."""
        assert self.topology is not None
        self.result.batches = totals.batches
        self.result.report = totals.report()
        self.result.number = self.topology.log.manifest.number

    def error(self, error: ErrorReport) -> None:
        if not error.is_failure:
            self._told.append(error)

    def attempt_failed(self, number: int, reason: str) -> None:
        self.result.notes.append(f"batch {number} is run again: {reason}")
        assert self.topology is not None
        self._waited = self._waited + 1 if self.topology.totals.waits.away else 0
        if self._ends and self._waited >= FRUITLESS_FAILURES:  # in a test nothing else brings it
            raise self._not_drained(self.topology.totals)

    def note(self, text: str) -> None:
        self.result.notes.append(text)


def run(  # noqa: PLR0913 (all but the first by name)
    topology: Topology | TopologyBuilder | Path | str,
    *,
    until: Literal["drained"] | Callable[[Result], bool] = "drained",
    enough: Callable[[Result], bool] | None = None,
    batches: int | None = None,
    end_of_input: bool = True,
    workers: int | None = None,
    ackers: int | None = None,
    checkpoint: Result | Store | str | None = None,
    emits: bool = False,
    clock: ManualClock | None = None,
    batch_seconds: float = 0.01,
    fault: Fault | None = None,
    failing: Sequence[TransactionFault] = (),
    at_most: int = 10_000,
) -> Result:
    """Run a topology in this process.

    Args:
        topology: What to run, or the file that it is in.
        until: "drained": every spout is exhausted, or nothing happens any more, and no tree is
            pending. Or a condition, looked at after each batch.
        enough: Stop earlier, if this is true after a batch.
        batches: Stop after so many, whatever is pending; `until` does not matter then.
        end_of_input: Whether event time ends when it is drained. False: as `fulmen run
            --until-drained` does, as more may come in another run with the same checkpoint.
        workers: The number of workers, instead of the topology's own.
        ackers: The number of ackers, instead of the topology's own.
        checkpoint: A URI, or an earlier result, to go on from there. Default: one of its own, in
            memory.
        emits: Whether `Result.emitted` is to tell what components emitted.
        clock: Default: one that begins at 0.
        batch_seconds: How long each batch takes by this clock, for timeouts and ticks.
        fault: Called as fault(stage, worker, moment) before a worker's part of a batch ("before"),
            after each of its rows ("row"), and at its end ("after"). If it raises
            `fulmen.engine.worker.in_process.Crash`, that worker's process is lost there.
        failing: What is to go wrong in transactions.
        at_most: Give up after so many batches. With `until="drained"` it gives up much earlier if
            nothing but failures happens.

    Raises:
        ValueError: One of `failing` can't happen in this topology.
        ValidationFailed: The topology has mistakes.
        TopologyFailed: The topology can't continue.
        NotDrained: The topology does not come to an end.
    """
    clock = clock or ManualClock()
    result = Result(_store(checkpoint), has_emits=emits)
    ends = until == "drained" and batches is None
    observer = _RunObserver(result, _condition(until, batches, enough), at_most, ends=ends)
    observer.stop.when_drained = until == "drained" and batches is None
    observer.stop.more_may_come = not end_of_input
    observer.stop.now = batches == 0
    Runs.begin()
    faults = Faults(failing)
    jobs = _Jobs(fault, result, clock, batch_seconds, faults)
    model, base = _model(topology)
    wanted = {"workers": workers, "ackers": ackers}
    spec = model.spec.model_copy(update={k: v for k, v in wanted.items() if v is not None})
    _run(model.model_copy(update={"spec": spec}), base, jobs, observer, clock)
    return result


def _run(
    topology: Topology, base: Path, jobs: _Jobs, observer: _RunObserver, clock: ManualClock
) -> None:
    """Run a topology whose code folder is relative to `base`."""
    store = observer.result.checkpoint
    with CodeFolder.of(topology.spec.code, base) as folder:
        tasks = read_components(store)
        checked = check(topology, folder.path, tasks)
        runnable = checked.runnable(folder.path, tasks)
        jobs.check(runnable.topology)
        driver = Driver(
            runnable,
            jobs,
            store.uri,
            observer=observer,
            store=store,
            clocks=Clocks(clock, clock.advance, clock.wall),
        )
        running = observer.topology = driver.start()
        observer.look(running.totals)
        try:
            running.run(observer.stop)
        finally:
            running.close()
            observer.end(running.totals)


def _model(topology: Topology | TopologyBuilder | Path | str) -> tuple[Topology, Path]:
    """The topology, and what its code folder is relative to."""
    if isinstance(topology, Path | str):
        return documents.load(topology), Path(topology).parent
    return topology.build() if isinstance(topology, TopologyBuilder) else topology, Path()


def _condition(
    until: Literal["drained"] | Callable[[Result], bool],
    batches: int | None,
    enough: Callable[[Result], bool] | None,
) -> Callable[[Result], bool]:
    """Whether that is enough, of a result so far."""
    conditions = [] if enough is None else [enough]
    if batches is not None:
        conditions.append(lambda result: result.batches >= batches)
    elif callable(until):
        conditions.append(until)
    return lambda result: any(is_met(result) for is_met in conditions)


def _store(checkpoint: Result | Store | str | None) -> Store:
    if isinstance(checkpoint, Result):
        checkpoint = checkpoint.checkpoint
    if isinstance(checkpoint, Store):
        return checkpoint
    if checkpoint is not None:
        return Store.open(checkpoint)
    uri = f"memory://fulmen-testing-{next(_numbers)}"  # of its own: forgotten with the result
    return Store(uri, RemoteBackend(uri, MemoryStore()))
