"""A task's part in transactions: what goes wrong fails attempts, not tuples."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from fulmen.api.components import FailedException, ReportedFailedException
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.marks import StoreMismatch
from fulmen.api.transactions import TransactionAttempt
from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.protocol.transaction_work import FailedAttempt
from fulmen.engine.tasks.author.errors import ComponentFailed
from fulmen.engine.tasks.task_errors import TaskErrors
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.columns import listed
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON, StreamError, repr_of, text_of, with_causes

LOST = "its instance was lost with its process"


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
        """Note attempts that failed elsewhere."""
        self._first = min([self._first, *(attempt.txid for attempt in attempts)])

    def add(self, failed: FailedAttempt) -> None:
        """Note an attempt that failed here. The first reason counts."""
        if failed.attempt not in self:
            self._first = failed.attempt.txid
            self.own.append(failed)


class Attempts:
    """The attempts of transactions, as one task sees them.

    Attributes:
        failed: Those of the batch at hand; the stage sets it.
    """

    failed: FailedAttempts

    def __init__(self, component: str, task: int, errors: TaskErrors) -> None:
        self._component, self._task, self._errors = component, task, errors

    def fail(
        self,
        attempt: TransactionAttempt,
        reason: str,
        *,
        is_loss: bool = False,
        is_outage: bool = False,
    ) -> None:
        """Fail the attempt: it can't be committed any more. See `FailedAttempt`."""
        failed = FailedAttempt(attempt, self._component, self._task, reason, is_loss, is_outage)
        self.failed.add(failed)

    def raised(
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
                self._errors.report(error, what=what)
            reason = with_causes(error, text_of(error) or type(error).__name__)
            self.fail(attempt, reason, is_outage=is_outage)
            return None
        # other attempts would meet the same store
        fatal = isinstance(error, StoreMismatch) or self._errors.crashes
        report = self._errors.report(error, fatal, what)
        self.fail(attempt, report.message)
        return ComponentFailed(report) if fatal else None

    def without_strays(self, buffer: Buffer, expected: Sequence[Any], who: str) -> None:
        """Take out emits whose first value is not their attempt, and fail those attempts.

        Args:
            buffer: The emits on one stream.
            expected: The attempt of each.
            who: Has emitted, for messages.
        """
        try:
            if _first_values(buffer.tuple_rows(), buffer.routes.fields) == expected:
                return
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's __eq__ may raise anything)
            pass
        for i in reversed(range(len(buffer))):
            values = buffer.values(i)
            first = values[0] if len(values) else None
            if isinstance(first, TransactionAttempt) and first == expected[i]:
                continue
            error = StreamError(
                f"{who}: emit of {repr_of(values)[:80]} on stream"
                f" {buffer.routes.stream!r}: the first value must be the attempt of the"
                f" transaction, here {expected[i]!r}"
            )
            self._errors.report_or_crash(error, "emit")
            self.fail(expected[i], str(error))
            buffer.remove(i)


def attempts_of(chunk: Chunk) -> list[Any]:
    """The first value of each tuple."""
    return _first_values(chunk.rows, chunk.fields)


def _first_values(rows: TupleRows, fields: Sequence[str]) -> list[Any]:
    return listed(rows.column(0)) if fields and rows.n else [None] * rows.n
