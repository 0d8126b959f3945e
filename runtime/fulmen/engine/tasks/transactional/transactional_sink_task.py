"""A task of a sink in a transactional topology: it writes the rows of committed transactions.

The rows of an attempt wait here, in memory, for its commit phase. There they become part of the
batch's commit, as those of any exactly-once sink, with the attempt that they are of. The next batch
knows whether that transaction was committed: then it writes the rows, with the mark of that commit,
and else it forgets them. So the store has the rows of one attempt of each transaction, in the order
of the txids; and it may have other ones in each attempt, as of an opaque source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.components.sinks import ERRORS_STREAM, Rows
from fulmen.api.marks import WHATEVER, Point
from fulmen.api.transactions import TransactionAttempt
from fulmen.api.tuples import END_STREAM, FINISH_STREAM
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.transaction_work import TransactionWork
from fulmen.engine.state.messages.sink_rows import LONGEST_REASON
from fulmen.engine.state.messages.unwritten_rows import Unwritten
from fulmen.engine.state.values.unreadable import why_not
from fulmen.engine.tasks.attempts import LOST, Attempts, attempts_of
from fulmen.engine.tasks.bolts.sink_task import SinkTask
from fulmen.engine.tasks.parts.early_results import Written
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import repr_of
from fulmen.topology.code.sinks import without_attempt

Refused = Sequence[tuple[Any, str]]
"""Rows that were refused, and why."""


class TransactionalSinkTask(SinkTask):
    """A task of a Sink among batch bolts."""

    ends: ClassVar[Sequence[str]] = (END_STREAM, FINISH_STREAM)
    ends_attempts = True
    attempts: Attempts

    @override
    def begin(self, journals: Journals) -> None:
        self.attempts = Attempts(self.component, self.task, self.errors)
        self._waiting: dict[TransactionAttempt, list[Chunk]] = {}
        self._work = TransactionWork()
        self._attempt: TransactionAttempt | None = None  # that whose rows are held
        streams = {
            component: {name: without_attempt(stream) for name, stream in streams.items()}
            for component, streams in self.context.streams.items()
        }
        selected = {at: without_attempt(it) for at, it in self.context.selected.items()}
        self.context = replace(self.context, streams=streams, selected=selected)
        super().begin(journals)

    # What earlier commits left

    @override
    def begin_batch(self, header: Header) -> None:
        unwritten = self.committed.unwritten
        if unwritten is not None and not _is_committed(unwritten, header.transactions):
            self.committed.unwritten = None
            self.was_called = True
        super().begin_batch(header)

    @override
    def emit_refused(self, refused: Refused, transaction: Point | None) -> None:
        attempt = TransactionAttempt(transaction.number if transaction else 0, 0)
        for row, reason in refused:
            values = [attempt, row, reason[:LONGEST_REASON]]
            self.collector.emit(values, ERRORS_STREAM)

    # Attempts

    @override
    def begin_attempts(self, work: TransactionWork) -> None:
        self._work, self._attempt = work, None
        self._processed = {opened.attempt for opened in work.processes}
        kept = {*work.waiting, *self._processed}
        self._waiting = {one: chunks for one, chunks in self._waiting.items() if one in kept}

    @override
    def hold(self, chunk: Chunk) -> None:
        attempts = attempts_of(chunk)
        firsts = [
            i
            for i, attempt in enumerate(attempts)
            if i == 0 or (attempt is not attempts[i - 1] and attempt != attempts[i - 1])
        ]
        for first, end in zip(firsts, [*firsts[1:], len(attempts)], strict=True):
            self._hold_of(attempts[first], _part(chunk, first, end))

    def _hold_of(self, attempt: TransactionAttempt, chunk: Chunk) -> None:
        if attempt.txid <= self._work.committed:  # what another sink has refused since
            self.held.append(chunk)
        elif self._is_here(attempt):
            self._waiting.setdefault(attempt, []).append(chunk)

    def _is_here(self, attempt: TransactionAttempt) -> bool:
        """Whether all of an attempt is here, and it has not failed yet."""
        if attempt in self.attempts.failed:
            return False
        if attempt in self._waiting or attempt in self._processed:
            return True
        self.attempts.fail(attempt, LOST, is_loss=True)
        return False

    @override
    def execute(self, chunk: Chunk) -> None:
        if chunk.stream != FINISH_STREAM:
            super().execute(chunk)
            return
        attempt, finishes = chunk.rows[0]
        if not self._is_here(attempt):
            return
        rows = self._waiting.setdefault(attempt, [])
        if finishes:
            del self._waiting[attempt]
        if finishes and rows:
            self._attempt = attempt
            self.held += rows

    # This batch

    @override
    def unwritten_of(self, rows: Rows, items: Sequence[Any]) -> Unwritten:
        phase = self._work.phase if self._attempt is not None else None
        transaction = None if phase is None else phase.transaction
        return replace(super().unwritten_of(rows, items), transaction=transaction)

    @override
    def write(self, chunks: Sequence[Chunk], deletes: int) -> Written:
        if self._attempt is not None and self._attempt in self.attempts.failed:
            return []
        written = super().write(chunks, deletes)
        refused = [
            (_shown(chunk, i), reason)
            for chunk, failed in written
            for i, reason in sorted(failed.items())
        ]
        if refused:
            self._tell_refused(refused)
        return written

    def _tell_refused(self, refused: Refused) -> None:
        """Have rows that can't be written emitted once their transaction is committed."""
        if self.routes[ERRORS_STREAM].subscriptions:
            unwritten = self.committed.unwritten or self.unwritten_of(Rows((), ()), ())
            self.committed.keep(replace(unwritten, refused=refused))
            return
        row, reason = refused[0]
        text = (
            f"{len(refused)} refused, the first {repr_of(row)[:200]}: {reason}. They would be lost,"
            f" as no bolt reads the stream {ERRORS_STREAM!r}: give it a sink"
        )
        self.report(text, what="encode")
        if self._attempt is not None:
            self.attempts.fail(self._attempt, text)


def _is_committed(unwritten: Unwritten, work: TransactionWork) -> bool:
    its, last = unwritten.transaction, work.written
    if its is None or its == last:
        return True
    return last is not None and last.branch == WHATEVER and last.number >= its.number


def _part(chunk: Chunk, first: int, end: int) -> Chunk:
    """Take some rows, without their attempt."""
    some = chunk.rows[first:end]
    rows = TupleRows.of_columns(some.columns[1:], some.container, len(some))
    return Chunk(chunk.component, chunk.stream, chunk.fields[1:], -1, None, rows)


def _shown(chunk: Chunk, i: int) -> Any:
    row = dict(zip(chunk.fields, chunk.rows[i], strict=True))
    return row if why_not(row) is None else repr_of(row)
