"""Transactional topologies in tests: failures where they are asked for, and what became of all."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from typing_extensions import override

from fulmen.api.transactions import TransactionAttempt
from fulmen.api.tuples import FINISH_STREAM
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.batches.done import Done
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.protocol.transaction_work import TransactionWork
from fulmen.engine.tasks.attempts import attempts_of
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.transactional.emitter_task import EmitterTask
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.worker.stage_tasks import StageTasks
from fulmen.engine.worker.worker import Worker
from fulmen.testing.components import Killed
from fulmen.topology.resource.spec import Topology

Phase = Literal["processing", "committing"]
Moment = Literal["before", "after"]


@dataclass(frozen=True)
class TransactionFault:
    """A fault in a transaction, for `run(..., failing=[...])`.

    Attributes:
        txid: The number of the transaction.
        component: The spout or bolt in which it goes wrong.
        phase: "processing", or "committing" in committers and the bolts behind them.
        kills: Whether the worker is lost; else the attempt fails, as by FailedException.
        moment: "before" the component has done its part in that phase: has emitted or finished, or
            has executed a tuple if it is a BasicBolt. Or "after" that, when what it does outside is
            done already.
        times: In how many attempts; None: in each one.
        task: In which of the component's tasks, from 0; None: the first one that comes to it.
    """

    txid: int
    component: str
    phase: Phase = "processing"
    kills: bool = False
    moment: Moment = "after"
    times: int | None = 1
    task: int | None = None

    def check(self, topology: Topology) -> None:
        """See that it can happen.

        Raises:
            ValueError: It can't.
        """
        spec = topology.spec
        names = [component.name for component in spec.components]
        if not spec.transactional:
            raise ValueError(f"{self}: the topology has no transactions")
        if self.component not in names:
            raise ValueError(f"{self}: there is no component {self.component!r}: there are {names}")
        if self.phase == "committing" and self.component not in spec.commit_phase:
            raise ValueError(
                f"{self}: {self.component!r} has no part in commits, which is for committers and"
                f" the bolts behind them: {sorted(spec.commit_phase)}"
            )


@dataclass(frozen=True)
class FailedTransaction:
    """An attempt of a transaction that a component failed.

    Attributes:
        txid: The number of the transaction.
        component: Which component failed it.
        reason: Why.
    """

    txid: int
    component: str
    reason: str


@dataclass(frozen=True)
class GivenUpTransaction:
    """A transaction that was given up after `maxReplays` failures.

    Attributes:
        txid: The number of the transaction.
        metadata: What the coordinator of each source said of it, by the source's name.
        reason: Why its last attempt failed.
    """

    txid: int
    metadata: Mapping[str, Any]
    reason: str


@dataclass
class TransactionResults:
    """The outcome of a topology's transactions in one run.

    Attributes:
        committed: The txids that were committed, in that order.
        attempts: Txid -> how many attempts it had, whatever became of them.
        failed: The attempts that components failed. Those of later transactions, which failed with
            them, are not in it.
        given_up: The transactions that were given up.
    """

    committed: list[int] = field(default_factory=list)
    attempts: Counter[int] = field(default_factory=Counter)
    failed: list[FailedTransaction] = field(default_factory=list)
    given_up: list[GivenUpTransaction] = field(default_factory=list)

    def begun(self, work: TransactionWork) -> None:
        """Count the attempts of a batch that begins."""
        self.attempts.update(one.attempt.txid for one in work.processes if not one.is_dropped)

    def counted(self, done: Done) -> None:
        """Take over what a batch that counts means for transactions."""
        outcome = done.transactions
        if outcome is None:
            return
        self.committed += [one.attempt.txid for one in outcome.committed]
        self.failed += [
            FailedTransaction(one.attempt.txid, one.component, one.reason) for one in outcome.failed
        ]
        if (one := outcome.given_up) is not None:
            metadata = {source: pickle.loads(part) for source, part in one.metadata.items()}
            found = GivenUpTransaction(one.txid, metadata, one.reason)
            self.given_up.append(found)


class Faults:
    """All faults of a run, and in which attempts they were made."""

    def __init__(self, faults: Sequence[TransactionFault]) -> None:
        self._faults = faults
        self._made: Mapping[int, set[TransactionAttempt]] = {i: set() for i in range(len(faults))}

    def check(self, topology: Topology) -> None:
        """See that they can happen. Raises what `TransactionFault.check` does."""
        for fault in self._faults:
            fault.check(topology)

    def of(self, component: str) -> bool:
        """Whether there are any in a component."""
        return any(fault.component == component for fault in self._faults)

    def make(self, task: Task, attempt: TransactionAttempt, phase: Phase, moment: Moment) -> None:
        """Make the fault that a task is to have at this moment, if there is one.

        Raises:
            Killed: Its worker is lost.
        """
        index = task.task - task.placed.plan.tasks(task.component).start
        for number, fault in enumerate(self._faults):
            wanted = (fault.txid, fault.component, fault.phase, fault.moment)
            if wanted != (attempt.txid, task.component, phase, moment):
                continue
            made = self._made[number]
            is_over = fault.times is not None and len(made) >= fault.times
            if attempt in made or is_over or fault.task not in (None, index):
                continue
            made.add(attempt)
            reason = f"asked for: {fault}"
            if fault.kills:
                raise Killed(reason, task.placed.plan.worker_of(task.task))
            assert task.attempts is not None
            task.attempts.fail(attempt, reason)


class FaultyStageTasks(StageTasks):
    """Tasks in which something goes wrong."""

    faults: Faults
    _work = TransactionWork()

    @override
    def run(self, header: Header, rows: Any, summary: Summary) -> Iterator[tuple[int, bytes]]:
        self._work = header.transactions
        return super().run(header, rows, summary)

    @override
    def _make(self, component: str, journals: Mapping[int, Journals], number: int) -> None:
        super()._make(component, journals, number)
        if not self.faults.of(component):
            return
        for task in self._tasks.values():
            if task.component != component:
                continue
            if isinstance(task, EmitterTask):
                vars(task)["emit"] = partial(self._emit, task, task.emit)
            elif isinstance(task, BoltTask) and task.attempts is not None:
                around = self._finish if task.ends_attempts else self._execute
                vars(task)["execute"] = partial(around, task, task.execute)

    def _phase(self, attempt: TransactionAttempt) -> Phase:
        return "committing" if attempt == self._work.commits else "processing"

    def _emit(
        self,
        task: EmitterTask,
        emit: Callable[[TransactionWork, Outbox], Iterator[int]],
        work: TransactionWork,
        outbox: Outbox,
    ) -> Iterator[int]:
        for opened in work.processes:
            self.faults.make(task, opened.attempt, "processing", "before")
            one = TransactionWork([opened], work.commits, work.waiting, work.committed)
            yield from emit(one, outbox)
            self.faults.make(task, opened.attempt, "processing", "after")
        if not work.processes:
            yield from emit(work, outbox)

    def _finish(self, task: BoltTask, execute: Callable[[Chunk], None], chunk: Chunk) -> None:
        if chunk.stream != FINISH_STREAM:
            execute(chunk)
            return
        self._around(task, lambda: execute(chunk), [chunk.rows[0][0]])

    def _execute(self, task: Task, execute: Callable[[Chunk], None], chunk: Chunk) -> None:
        self._around(task, lambda: execute(chunk), dict.fromkeys(attempts_of(chunk)))

    def _around(
        self,
        task: Task,
        call: Callable[[], None],
        attempts: Collection[TransactionAttempt],
    ) -> None:
        for attempt in attempts:
            self.faults.make(task, attempt, self._phase(attempt), "before")
        call()
        for attempt in attempts:
            self.faults.make(task, attempt, self._phase(attempt), "after")


def faulty_worker(faults: Faults, worker: Worker) -> Worker:
    """The worker, with tasks in which these things go wrong."""
    worker.stage_tasks = type("_FaultyStageTasks", (FaultyStageTasks,), {"faults": faults})
    return worker
