"""An author's BatchBolt for one attempt of a transaction: what it emits, how it is finished."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from sys import getrefcount

from typing_extensions import override

from fulmen.api.collector import Values
from fulmen.api.components.returned import refuse_unrun
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.signals import Signals
from fulmen.api.transactions import BatchBolt, BatchOutputCollector, TransactionAttempt
from fulmen.engine.emitting.collectors.emit_buffer import UNSHARED, Buffer
from fulmen.engine.emitting.collectors.emitter import Emitter


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
        if type(values) is not list or len(values) != buffer.width:
            self._append(stream, values, self.attempt, need_task_ids=False)
            return
        buffer.rows.append(values if getrefcount(values) == UNSHARED else [*values])
        buffer.origins.append(self.attempt)

    @override
    def emit_many(self, rows: Sequence[Values], stream: str = DEFAULT_STREAM) -> None:
        buffer = self._buffers.get(stream) if isinstance(stream, str) else None
        is_usual = buffer is not None and set(map(type, rows)) == {list}
        if buffer is None or not is_usual or set(map(len, rows)) != {buffer.width}:
            super().emit_many(rows, stream)
            return
        buffer.rows.extend(rows)
        buffer.origins.extend([self.attempt] * len(rows))

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:  # noqa: D102
        self._append_direct(task, stream, values, self.attempt)


class BatchInstance:
    """One instance, with a collector of its own: two may be at work at the same time.

    Attributes:
        bolt: The author's.
        attempt: What it is for.
        collector: What it was prepared with.
        signals: What it has told by its context.
        is_given_up: Whether the transaction is given up: the attempt has nothing.
    """

    def __init__(
        self,
        bolt: BatchBolt,
        attempt: TransactionAttempt,
        collector: BatchCollector,
        signals: Signals,
        is_given_up: bool,
    ) -> None:
        self.bolt = bolt
        self.attempt = attempt
        self.collector = collector
        self.signals = signals
        self.is_given_up = is_given_up
        self._ended: Future[None] | None = None

    def finish_beside(self) -> None:
        """Have `finish_batch` called in a thread; `finish` waits for it."""
        ended: Future[None] = Future()
        self._ended = ended

        def call() -> None:
            try:
                self._call()
            except BaseException as e:  # noqa: BLE001 (whoever waits for it gets it)
                ended.set_exception(e)
            else:
                ended.set_result(None)

        # not of a pool: one that hangs, of a batch that came to nothing, must not hold up the next
        name = f"fulmen-commit-{self.attempt}"
        threading.Thread(target=call, name=name, daemon=True).start()

    def finish(self) -> None:
        """Call `finish_batch`, or wait for its end. Raises what it raises."""
        if self._ended is None:
            self._call()
        else:
            self._ended.result()

    def _call(self) -> None:
        self.collector.open()
        try:
            refuse_unrun(self.bolt.finish_batch())
        finally:
            self.collector.close()


class InstanceCollectors:
    """The collectors of the instances that are called for one chunk: to the task they are one."""

    def __init__(self) -> None:
        self._called: list[BatchCollector] = []

    def open(self) -> None:
        """Begin a chunk."""
        self._called = []

    def add(self, collector: BatchCollector, *, opens: bool) -> None:
        """Add an instance that is called, or was called in a thread of its own."""
        if collector not in self._called:
            self._called.append(collector)
            if opens:
                collector.open()

    def close(self) -> None:
        """Forbid the instances to emit."""
        for collector in self._called:
            collector.close()

    @property
    def runs(self) -> Iterator[Buffer]:
        """The emits, as they are to be sent."""
        return (buffer for collector in self._called for buffer in collector.runs)

    def release(self) -> None:
        """Let go of what is sent."""
        for collector in self._called:
            collector.release()
        self._called = []
