"""Runs a topology in this process, and tells what became of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from obstore.store import MemoryStore

from fulmen.checkpoint import Store, load, read_manifest
from fulmen.checkpoint.remote import RemoteBackend
from fulmen.engine.batches.done import Done
from fulmen.engine.driver.driver import Driver, RunningTopology, Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.state.committed_state import read_components
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.fields import fields_of
from fulmen.engine.totals.progress import Progress, waits_for
from fulmen.engine.totals.totals import Totals
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.engine.worker.worker import Worker
from fulmen.errors import FulmenError, JobFailed, TopologyFailed
from fulmen.plan import task_key
from fulmen.testing.components import Killed, Runs
from fulmen.testing.transactions import (
    Faults,
    TransactionFault,
    TransactionResults,
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
    """Seconds that pass only when told to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Read it."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass
class Result:
    """What became of a topology: what was committed, and nothing else.

    Attributes:
        report: The report that `fulmen run` prints.
        errors: What components reported, and the exceptions they raised.
        notes: What a person who runs the topology would be told, such as batches run again.
        checkpoint: Give it to another `run`, to go on from here.
        batches: How many batches counted.
        emits: The component, stream and values of each emitted tuple, if they were asked for.
        has_emits: Whether they were asked for.
        number: The number of the last commit.
        transactions: What became of a transactional topology's transactions.
    """

    checkpoint: Store
    report: dict[str, Any] = field(default_factory=dict)
    errors: list[ErrorReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    batches: int = 0
    emits: list[tuple[str, str, Sequence[Any]]] = field(default_factory=list, repr=False)
    has_emits: bool = False
    number: int = 0
    transactions: TransactionResults = field(default_factory=TransactionResults)

    @property
    def trees(self) -> dict[str, int]:
        """How many tuple trees were acked, failed, timed out, are pending, and so on."""
        trees: dict[str, int] = self.report["trees"]
        return trees

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Metrics of one's own: component -> name -> value, over all its tasks.

        A counter and a gauge are a number, the sum of all tasks. A histogram has `count`, `sum` and
        `buckets`. With labels the name is written as Prometheus does: `rows{table="a"}`.
        """
        return {name: of["metrics"] for name, of in self.report["components"].items()}

    def emitted(self, component: str, stream: str | None = None) -> list[Sequence[Any]]:
        """The values of what a component emitted: the tuples of each task in their order.

        Args:
            component: A spout or bolt.
            stream: One of its streams. Default: all of them.

        Raises:
            ValueError: `run` was not called with `emits=True`.
        """
        if not self.has_emits:
            raise ValueError("what components emit is not known: call run(..., emits=True)")
        return [
            values for name, on, values in self.emits if name == component and stream in (None, on)
        ]

    def state(self, component: str, task: int | None = None) -> dict[Any, Any]:
        """`self.state` of a component, as committed.

        Args:
            component: A spout or bolt.
            task: The number of one task, from 0; None: all tasks' together.

        Raises:
            ValueError: There is no such component or task, or several tasks have the same key.
        """
        found: dict[Any, Any] = {}
        for key in self._keys(component, task):
            of_task = KeyedState.restore(self._load(key))
            if both := found.keys() & of_task.keys():
                raise ValueError(
                    f"several tasks of {component!r} have the key {min(both, key=repr)!r}: give"
                    " `task`, the number of one of them"
                )
            found |= of_task
        return found

    def fields(self, component: str, task: int = 0) -> dict[str, Any]:
        """The durable fields of one task's instance, as committed."""
        (key,) = self._keys(component, task)
        return fields_of(self._load(key))

    def collected(self, component: str) -> list[Any]:
        """The values that a `CollectBolt` received, task by task, in their order."""
        return [
            state[i]
            for key in self._keys(component, None)
            for state in [KeyedState.restore(self._load(key))]
            for i in range(len(state))
        ]

    def acked(self, component: str) -> list[Hashable]:
        """The message ids that a `ListSpout`'s `ack` was called with, task by task."""
        return self._heard(component, "acked")

    def failed(self, component: str) -> list[tuple[Hashable, str]]:
        """The message ids and reasons that a `ListSpout`'s `fail` was called with."""
        return self._heard(component, "failed")

    def _heard(self, component: str, what: str) -> list[Any]:
        heard: list[Any] = []
        for key in self._keys(component, None):
            state = KeyedState.restore(self._load(key))
            heard += [state[kind, n] for kind, n in sorted(state) if kind == what]
        return heard

    def _keys(self, component: str, task: int | None) -> list[str]:
        components = self.report["components"]
        if component not in components:
            raise ValueError(f"there is no component {component!r}: there are {[*components]}")
        tasks = range(components[component]["tasks"])
        if task is not None and task not in tasks:
            raise ValueError(f"{component!r} has {len(tasks)} tasks, from 0, and no task {task}")
        return [task_key(component, i) for i in tasks if task in (None, i)]

    def _load(self, key: str) -> dict[str, list[bytes]]:
        return load(self.checkpoint, read_manifest(self.checkpoint, self.number), key)


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

    def batch(self, totals: Totals, done: Done) -> None:
        assert self.topology is not None
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
            causes = list(waits_for(totals))
            causes += [
                f"{name}: {totals.error_counts[name]:,} errors, the last: {kept[-1]['message']}"
                for name, kept in totals.errors.items()
            ]
            raise NotDrained(totals.batches, totals.trees.pending, causes)

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

    def note(self, text: str) -> None:
        self.result.notes.append(text)


def run(  # noqa: PLR0913 (all but the first by name)
    topology: Topology | TopologyBuilder | Path | str,
    *,
    until: Literal["drained"] | Callable[[Result], bool] = "drained",
    batches: int | None = None,
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
        batches: Stop after so many, whatever is pending; `until` does not matter then.
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
    observer = _RunObserver(result, _condition(until, batches), at_most, ends=ends)
    observer.stop.when_drained = until == "drained" and batches is None
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
            steady=clock,
            sleep=clock.advance,
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
    until: Literal["drained"] | Callable[[Result], bool], batches: int | None
) -> Callable[[Result], bool]:
    """Whether that is enough, of a result so far."""
    if batches is not None:
        return lambda result: result.batches >= batches
    return until if callable(until) else lambda _result: False


def _store(checkpoint: Result | Store | str | None) -> Store:
    if isinstance(checkpoint, Result):
        checkpoint = checkpoint.checkpoint
    if isinstance(checkpoint, Store):
        return checkpoint
    if checkpoint is not None:
        return Store.open(checkpoint)
    uri = f"memory://fulmen-testing-{next(_numbers)}"  # of its own: forgotten with the result
    return Store(uri, RemoteBackend(uri, MemoryStore()))
