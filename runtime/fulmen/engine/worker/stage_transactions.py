"""The transactions' part of a stage, besides running its tasks.

It tells tasks which attempts there are, has emitters emit and bolts finish, and sees that a stage
knows which attempts have failed before it: nothing of those is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from fulmen.api.marks import CommitPhase
from fulmen.api.transactions import TransactionAttempt
from fulmen.api.tuples import FINISH_STREAM, TICK_COMPONENT
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.tasks.attempts import FailedAttempts
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.transactional.batch_bolt_task import BatchBoltTask
from fulmen.engine.tasks.transactional.emitter_task import EmitterTask
from fulmen.engine.tuples import wire
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.topology.resource.spec import BoltSpec


class StageTransactions:
    """The transactions of the batch at hand, as one stage of a worker sees them."""

    def __init__(self, placed: PlacedTopology, stage: int) -> None:
        self._placed = placed
        self._is_last = stage == len(placed.plan.stages) - 1
        self._failed = FailedAttempts()

    def begin(self, header: Header, tasks: Iterable[Task]) -> None:
        """Tell the stage's tasks what there is to do."""
        self._failed = FailedAttempts()
        for task in tasks:
            if task.attempts is not None:
                task.attempts.failed = self._failed
                task.context.batch.commits = CommitPhase()
                task.begin_attempts(header.transactions)

    def commit_beside(self, attempt: TransactionAttempt, tasks: Iterable[BoltTask]) -> None:
        """Have `finish_batch` of `blocking` committers called in threads, from now on.

        Only of those that have had all of their input: no committer is in front of them.
        """
        for task in tasks:
            if isinstance(task, BatchBoltTask) and self._can_begin(task.component):
                task.finish_beside(attempt)

    def _can_begin(self, component: str) -> bool:
        spec = self._placed.component(component)
        return (
            isinstance(spec, BoltSpec)
            and spec.blocking
            and component in self._placed.commit_phase
            and not any(i.from_ in self._placed.commit_phase for i in spec.inputs)
        )

    def hear(self, row: bytes) -> bool:
        """Take in which attempts failed in earlier stages. Returns whether later ones are told."""
        self._failed.hear([TransactionAttempt(*pair) for pair in wire.unpack(row)])
        return not self._is_last

    def emit(
        self, header: Header, tasks: Iterable[Task], outbox: Outbox, summary: Summary
    ) -> Iterator[None]:
        """Have the emitters emit what is to be processed. Yields after each part."""
        for task in (task for task in tasks if isinstance(task, EmitterTask)):
            for emitted in task.emit(header.transactions, outbox):
                summary.emitted += emitted
                yield

    def endings(
        self, component: str, header: Header
    ) -> Iterator[Callable[[BoltTask], Chunk | None]]:
        """Yield the calls of a component's tasks when all of a batch's tuples have been there."""
        work = header.transactions
        waits = component in self._placed.commit_phase
        ends = [(attempt, True) for attempt in work.finishing(in_commit_phase=waits)]
        if waits:
            ends += [(opened.attempt, False) for opened in work.processes]
        for attempt, finishes in ends:
            yield partial(_end, attempt, finishes)

    def end(self, summary: Summary) -> Iterator[tuple[int, bytes]]:
        """Tell the driver and the stages behind which attempts failed here."""
        summary.failed_attempts = self._failed.own
        if self._failed.own and not self._is_last:
            pairs = [(failed.attempt.txid, failed.attempt.attempt) for failed in self._failed.own]
            row = wire.pack(wire.FAILED, pairs)
            yield from ((worker, row) for worker in self._placed.workers)


def _end(attempt: TransactionAttempt, finishes: bool, task: BoltTask) -> Chunk | None:
    """The chunk for the end of an attempt's input: it is to be finished, or waits for that."""
    if not task.ends_attempts:
        return None
    fields, rows = ("tx", "finishes"), TupleRows([[attempt, finishes]])
    return Chunk(TICK_COMPONENT, FINISH_STREAM, fields, -1, None, rows)
