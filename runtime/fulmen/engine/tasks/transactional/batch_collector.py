"""The collector of batch bolts and emitters."""

from __future__ import annotations

from fulmen.api.collector import Values
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.transactions import BatchOutputCollector, TransactionAttempt
from fulmen.engine.emitting.collectors import Emitter


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
