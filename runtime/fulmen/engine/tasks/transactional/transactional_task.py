"""What tasks of a transactional topology have in common: attempts that fail, and what they emit."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

from typing_extensions import override

from fulmen.api.collector import Values
from fulmen.api.components import FailedException, ReportedFailedException
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.marks import StoreMismatch
from fulmen.api.sinks import ServiceUnavailable
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSource,
    TransactionalSpout,
)
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.api.tuples import FINISH_STREAM, TICK_COMPONENT
from fulmen.checkpoint.rewriting import Update
from fulmen.engine.emitting.collectors import Emitter
from fulmen.engine.emitting.emit_buffer import Buffer
from fulmen.engine.protocol.transaction_work import FailedAttempt, TransactionWork
from fulmen.engine.tasks.author.errors import ComponentFailed
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.task_base import TaskBase
from fulmen.engine.tuples.chunk import Chunk, Columns
from fulmen.errors import PASSED_ON, StreamError, repr_of, text_of, with_causes


class FailedAttempts:
    """Which attempts have failed in the batch at hand, as far as one stage of a worker knows.

    One that fails fails all later ones.

    Attributes:
        own: Those that failed here by themselves: others are to be told.
    """

    def __init__(self) -> None:
        self.own: list[FailedAttempt] = []
        self._first: float = math.inf

    def __contains__(self, attempt: TransactionAttempt) -> bool:
        return attempt.txid >= self._first

    def hear(self, attempts: Collection[TransactionAttempt]) -> None:
        """These failed elsewhere."""
        self._first = min([self._first, *(attempt.txid for attempt in attempts)])

    def add(self, failed: FailedAttempt) -> None:
        """One failed here. The first reason counts."""
        if failed.attempt not in self:
            self._first = failed.attempt.txid
            self.own.append(failed)


class BatchCollector(Emitter, BatchOutputCollector):
    """The collector of batch bolts and emitters: what is emitted belongs to an attempt.

    Attributes:
        attempt: That which the author's code is called for.
    """

    attempt: TransactionAttempt | None = None

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:  # noqa: D102
        try:
            buffer = self._buffers[stream]
        except (KeyError, TypeError):
            buffer = self._buffer(stream, values)
        if type(values) is not buffer.kind or len(values) != buffer.width:
            self._append(stream, values, self.attempt, need_task_ids=False)
            return
        buffer.flat.extend(values)
        buffer.origins.append(self.attempt)

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:  # noqa: D102
        self._append_direct(task, stream, values, self.attempt)


class TransactionalTask(TaskBase):
    """A task whose failures are those of transactions.

    Attributes:
        failed_attempts: Of the batch at hand; the stage sets it.
    """

    failed_attempts: FailedAttempts

    def updates_with_transaction(self) -> Mapping[str, Update]:
        """What the commit has to write, by journal, if the batch commits its transaction."""
        return {}

    @property
    @override
    def hears_commits(self) -> bool:
        """No: what is committed is a transaction."""
        return False

    def fail_attempt(
        self,
        attempt: TransactionAttempt,
        reason: str,
        *,
        is_loss: bool = False,
        is_outage: bool = False,
    ) -> None:
        """The attempt can't be committed any more. See `FailedAttempt`."""
        failed = FailedAttempt(attempt, self.component, self.task, reason, is_loss, is_outage)
        self.failed_attempts.add(failed)

    def attempt_raised(
        self, attempt: TransactionAttempt, error: BaseException, what: str
    ) -> ComponentFailed | None:
        """An exception of the author's code, which fails the attempt.

        Args:
            attempt: The attempt that it was called for.
            error: What it raised.
            what: The method that raised.

        Returns:
            What is to be raised in place of it, if the topology can't go on.
        """
        is_outage = isinstance(error, ServiceUnavailable)
        if is_outage or isinstance(error, FailedException):
            if is_outage or isinstance(error, ReportedFailedException):
                self.report(error, what=what)
            reason = with_causes(error, text_of(error) or type(error).__name__)
            self.fail_attempt(attempt, reason, is_outage=is_outage)
            return None
        # other attempts would meet the same store
        is_mismatch = isinstance(error, StoreMismatch)
        fatal = is_mismatch or self.placed.topology.spec.on_error == "crash"
        report = self.report(error, fatal=fatal, what=what)
        self.fail_attempt(attempt, report.message)
        return ComponentFailed(report) if fatal else None

    def without_strays(self, buffer: Buffer, expected: Sequence[Any]) -> None:
        """Take out emits whose first value is not their attempt, and fail those attempts.

        Args:
            buffer: The emits on one stream.
            expected: The attempt of each.
        """
        try:
            if first_values(buffer) == expected:
                return
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's __eq__ may raise anything)
            pass
        for i in reversed(range(len(buffer))):
            values = buffer.rows()[i]
            first = values[0] if len(values) else None
            if isinstance(first, TransactionAttempt) and first == expected[i]:
                continue
            error = StreamError(
                f"{self.who}: emit of {repr_of(values)[:80]} on stream"
                f" {buffer.routes.stream!r}: the first value must be the attempt of the"
                f" transaction, here {expected[i]!r}"
            )
            self.report_emit(error)
            self.fail_attempt(expected[i], str(error))
            buffer.remove(i)


class AttemptTask(TransactionalTask, BoltTask):
    """A task of a bolt that is told where the input of an attempt ends.

    What it has of an attempt waits for the attempt's commit, in memory alone. If it is lost, the
    transaction comes again in another attempt.
    """

    @abstractmethod
    def begin_attempts(self, work: TransactionWork) -> None:
        """Let go of what there is of attempts that are no more."""

    def end_chunk(self, attempt: TransactionAttempt, *, finishes: bool) -> Chunk:
        """What stands for the end of an attempt's input.

        Args:
            attempt: Which.
            finishes: Whether it is to be finished; else it waits for its commit.
        """
        return Chunk(
            TICK_COMPONENT, FINISH_STREAM, ("tx", "finishes"), -1, None, [[attempt, finishes]]
        )


def attempts_of(chunk: Chunk) -> list[Any]:
    """The first value of each tuple."""
    rows = chunk.rows
    if isinstance(rows, Columns) and rows.columns:
        return list(rows.columns[0])
    return list(map(itemgetter(0), rows)) if chunk.fields else [None] * len(chunk)


def first_values(buffer: Buffer) -> list[Any]:
    """The first value of each emit; nothing for one without values."""
    width = len(buffer.routes.fields)
    if buffer.kind is not None and width:
        return buffer.flat[::width]
    return [values[0] if len(values) else None for values in buffer.rows()]


def part_of(source: TransactionalSource, name: str) -> type:
    """What the coordinators or the emitters of a transactional spout must be derived from."""
    kinds = (
        TransactionalSpout,
        PartitionedTransactionalSpout,
        OpaquePartitionedTransactionalSpout,
    )
    found: type = getattr(next(kind for kind in kinds if isinstance(source, kind)), name)
    return found


def wrong_part(made: Any, wanted: type) -> TypeError:
    """What is wrong about a coordinator or an emitter that is none."""
    return TypeError(
        f"it returned {repr_of(made)[:80]}, but must return an object of a class derived from"
        f" fulmen.{wanted.__qualname__}"
    )
