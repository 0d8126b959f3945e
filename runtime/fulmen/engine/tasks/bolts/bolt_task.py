"""A bolt task in one batch: it runs over its chunks, then what it emitted and acked is sent.

Running (the author's code) and sending (the engine's) are apart, so that the executors of a
`blocking` bolt can run as threads while all sending is done by one.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fulmen.api.chunks import ChunkBolt
from fulmen.api.components import (
    BasicBolt,
    Bolt,
    FailedException,
    ReportedFailedException,
    overrides,
)
from fulmen.api.returned import refuse_result
from fulmen.api.sinks import ServiceUnavailable
from fulmen.api.tuples import (
    DRAIN_STREAM,
    END_STREAM,
    FINISH_STREAM,
    HELD,
    TICK_COMPONENT,
    TICK_STREAM,
    TIMER_STREAM,
    Held,
    Tuple,
)
from fulmen.engine.emitting.collectors import BasicCollector, BoltCollector, not_a_list
from fulmen.engine.emitting.emit_buffer import Buffer
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.figures.statistics import ACKED, EXECUTED, FAILED, add_chunk, add_task
from fulmen.engine.tasks.bolts.result_task import ResultTask
from fulmen.engine.tasks.bolts.timed_task import TimedTask
from fulmen.engine.tasks.forks import FORKED, end_child
from fulmen.engine.tasks.task_base import ComponentFailed, Unavailable
from fulmen.engine.tasks.traced_tuples import note_executed, note_late
from fulmen.engine.tuples.chunk import Chunk, Columns, Ids
from fulmen.engine.tuples.emitted_rows import EmittedRows
from fulmen.engine.tuples.python_values import shown_rows
from fulmen.errors import PASSED_ON, FulmenError, GroupingError, text_of


def _own_references() -> int:
    tup = object()
    return getrefcount(tup)


OURS = _own_references()
"""References to a tuple that only the loop over its chunk has: a local name, and getrefcount's own
argument. Then the next tuple may be the same object: three times as fast as a new one."""


CALLBACKS = {DRAIN_STREAM: "drain", END_STREAM: "end_batch", TIMER_STREAM: "on_timer"}
"""The author's methods that are called in place of `execute`, by the stream that stands for it."""
NO_TUPLES = frozenset({*CALLBACKS, FINISH_STREAM})
"""Streams whose chunks are no tuples, and not counted."""


class BoltTask(ResultTask, TimedTask):
    """What the three kinds of bolt have in common.

    Attributes:
        executor: The first task of its executor.
        seconds: How long the latest chunk took.
        callback: The author's method that is being called.
    """

    executor = 0
    seconds = 0.0
    callback = "execute"

    @override
    def make_collector(self) -> Any:
        self.collector = self.new_collector()
        self.failed: list[tuple[int, str]] = []
        self.crash: ComponentFailed | None = None
        return self.collector

    @abstractmethod
    def new_collector(self) -> Any:
        """The collector of this kind of bolt."""

    def run(self, chunk: Chunk) -> None:
        """Call `execute` for each tuple of a chunk. Raises nothing."""
        chunk.began = self.now()
        started = time.perf_counter()
        self.was_called = True
        self.calls += len(chunk)
        self.failed = []
        self.callback = CALLBACKS.get(chunk.stream, "execute")
        self.collector.open()
        calling = CALLS.begin(self.task, self.callback)
        self.execute(chunk)
        end_child()
        CALLS.end(calling)
        self.collector.close()
        self.seconds = time.perf_counter() - started
        chunk.pace = self.seconds / max(1, len(chunk))

    @abstractmethod
    def execute(self, chunk: Chunk) -> None:
        """The loop over the tuples of a chunk."""

    def send(self, chunk: Chunk, outbox: Outbox, took: float | None = None) -> None:
        """Send what was emitted, acked and failed while `run` dealt with `chunk`.

        Args:
            chunk: The tuples.
            outbox: What takes all that.
            took: How long they had to wait for it. Default: as long as it took for them alone.

        Raises:
            ComponentFailed: `onError: crash`, and the bolt raised.
        """
        if self.crash is not None:
            raise self.crash
        name = f"{chunk.component}:{chunk.stream}"
        counts = outbox.counts
        xors: Ids = np.zeros(len(chunk), np.uint64)
        self.send_emits(chunk, xors, outbox)
        acked = self.acked(chunk)
        if chunk.stream not in NO_TUPLES:
            counts[self.component, EXECUTED, name] += len(chunk)
            n_acked = len(chunk) if acked is None else len(acked)
            counts[self.component, ACKED, name] += n_acked
            counts[self.component, FAILED, name] += len(self.failed)
            if self.failed:
                outbox.failures.add_all(self.component, self.task, [why for _, why in self.failed])
            add_chunk(outbox.times, self.component, name, chunk.pace, len(chunk), n_acked)
            add_task(
                outbox.tasks,
                self.task,
                executed=len(chunk),
                failed=len(self.failed),
                seconds=self.seconds,
            )
            if outbox.traces is not None:
                took = self.seconds if took is None else took
                note_executed(outbox.traces, self.component, chunk, took, self.failed)
        outbox.busy[self.executor] += self.seconds
        self.send_acks(chunk, xors, acked, outbox)
        self.collector.release()

    def send_emits(self, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        """Send what was emitted.

        Args:
            chunk: The tuples that the bolt had.
            xors: Takes the XOR of the ids of what was anchored to each of them.
            outbox: What takes the emits.
        """
        for buffer in self.collector.runs:
            if len(buffer):
                for i in reversed(buffer.wrong()):
                    self._refuse(not_a_list(self.who, buffer.rows()[i]), i, buffer, chunk)
                if self.keeps_results(buffer.routes.stream, chunk):
                    self.send_own(buffer, chunk, xors, outbox)
                else:
                    self.send_or_fail(buffer, chunk, xors, outbox)
                if self.ordered:
                    outbox.pack_all()

    def send_own(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:  # noqa: ARG002 (for those below)
        """Send emits that no input is the reason of: each is a message of its own."""
        rows = buffer.emitted_rows()
        self.send_results(buffer.routes.stream, rows, outbox, buffer.chosen)

    def send_or_fail(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        """Send the emits on one stream. One without a task to go to fails its input instead."""
        while len(buffer):
            try:
                self.send_buffer(buffer, chunk, xors, outbox)
                return
            except GroupingError as e:
                self._refuse(e, e.emission, buffer, chunk)

    def _refuse(self, error: FulmenError, i: int | None, buffer: Buffer, chunk: Chunk) -> None:
        """Emit `i` can't be sent: report it, and fail what it is anchored to."""
        self.report_emit(error, fatal=i is None)
        if i is not None:
            self.fail_origin(buffer.origins[i], chunk, str(error))
            buffer.remove(i)

    def fail_origin(self, origin: Any, chunk: Chunk, reason: str) -> None:  # noqa: ARG002 (for those below)
        """An emit came to nothing: fail what it is anchored to."""
        if origin not in [i for i, _ in self.failed]:
            self.failed.append((origin, reason))

    def send_buffer(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        """Send the emits on one stream."""
        at = np.fromiter(buffer.origins, np.int64, len(buffer))
        emitted, stream = buffer.emitted_rows(), buffer.routes.stream
        self.send_anchored(stream, emitted, at, chunk, xors, outbox, buffer.chosen)

    def send_anchored(
        self,
        stream: str,
        emitted: EmittedRows,
        positions: npt.NDArray[np.int64],
        chunk: Chunk,
        xors: Ids,
        outbox: Outbox,
        chosen: Any = None,
    ) -> None:
        """Send emits that are anchored to one tuple of the chunk each."""
        lineage = chunk.lineage_columns
        parents = None if lineage is None else lineage.take(positions)
        ids = outbox.send(self.task, self.routes[stream], emitted, parents, chosen)
        if parents is not None:
            np.bitwise_xor.at(xors, positions, ids)

    def acked(self, chunk: Chunk) -> npt.NDArray[np.int64] | None:
        """Positions of the tuples that were acked; None: all."""
        if not self.failed:
            return None
        gone = np.zeros(len(chunk), np.bool_)
        gone[[i for i, _ in self.failed]] = True
        return np.flatnonzero(~gone)

    def send_acks(
        self, chunk: Chunk, xors: Ids, acked: npt.NDArray[np.int64] | None, outbox: Outbox
    ) -> None:
        """Tell the ackers each root of an acked tuple: its edge id XOR what was anchored to it."""
        lineage = chunk.lineage_columns
        if lineage is None:
            return
        if acked is not None:
            xors = xors[acked]
            if lineage.offsets is None:
                roots = lineage.roots[[i for i, _ in self.failed]].tolist()
                outbox.messages.fail_each(roots, (reason for _, reason in self.failed))
            else:
                for i, reason in self.failed:
                    outbox.messages.fail(lineage.of(i)[0], reason)
            lineage = lineage.take(acked)
        if len(lineage.roots):
            if lineage.offsets is not None:
                xors = np.repeat(xors, np.diff(lineage.offsets))
            outbox.messages.acks.append((lineage.roots, lineage.edges ^ xors, None))

    def note_failure(self, position: int, error: BaseException) -> None:
        """An exception of the author's code while it dealt with the tuple at `position`."""
        if (known := self.counted_before(error, self.callback)) is not None:
            self.failed.append((position, known))
            return
        if isinstance(error, FailedException):
            self.failed.append((position, text_of(error) or type(error).__name__))
            if isinstance(error, ReportedFailedException):
                self.report(error, what=self.callback)
            return
        crashes = self.placed.topology.spec.on_error == "crash"
        if crashes or self.needs_service(error):
            report = self.report(error, fatal=crashes, what=self.callback)
            reason = f"bolt {self.component!r}: {report.message}"
            kind = ComponentFailed if crashes else Unavailable
            self.crash = self.crash or kind(report)
        else:
            reason = self.count_error(error, self.callback)
        self.failed.append((position, reason))

    def needs_service(self, error: BaseException) -> bool:
        """Whether `execute` has said that it can't go on: the batch waits instead of its tuples.

        A hook has committed work to do, such as files to write, which waits in other ways.
        """
        return isinstance(error, ServiceUnavailable) and self.callback == "execute"

    def tick(self, period: float) -> Chunk:
        """A tick tuple."""
        return Chunk(TICK_COMPONENT, TICK_STREAM, ("rate_secs",), -1, None, [[period]])

    def end_batch(self) -> Chunk | None:
        """What stands for the end of the batch; None: the author makes no use of it."""
        if not self.calls and not self.context.signals.hold.reason:
            return None
        if not overrides(self.instance, "end_batch"):
            return None
        return Chunk(TICK_COMPONENT, END_STREAM, (), -1, None, [[]])

    def drain(self) -> Chunk | None:
        """What stands for its last turn; None: the author makes no use of it."""
        if not overrides(self.instance, "drain"):
            return None
        return Chunk(TICK_COMPONENT, DRAIN_STREAM, (), -1, None, [[]])


class BasicBoltTask(BoltTask):
    """A task of a BasicBolt."""

    instance: BasicBolt

    @override
    def new_collector(self) -> Any:
        return BasicCollector(self.who, self.routes, self.ordered, self.report)

    @override
    def execute(self, chunk: Chunk) -> None:
        collector = self.collector
        execute: Callable[..., object] = self.instance.execute
        if self.callback != "execute":
            turn = getattr(self.instance, self.callback)
            execute = lambda tup, collector: turn(*tup.values, collector)  # noqa: E731
        kept: list[Tuple] = []
        tup = Tuple((), chunk, 0)
        for collector.position, values in self._singly(chunk):
            if getrefcount(tup) > OURS:
                kept.append(tup)
                tup = Tuple(values, chunk, collector.position)
            else:
                tup.values = values
                tup._i = collector.position
            try:
                if (returned := execute(tup, collector)) is not None:
                    refuse_result(returned)
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (author's code)
                self.note_failure(collector.position, e)
            if FORKED:
                end_child()
            if self.crash is not None:
                break
        kept.append(tup)
        for tup in kept:  # they were acked or failed by the time that this returns
            tup._origin, tup._i = held(chunk, tup._i, 0), ~HELD

    def _singly(self, chunk: Chunk) -> Iterable[tuple[int, Sequence[Any]]]:
        """The tuples that a method is to be called for, with their positions."""
        instance = self.instance
        if isinstance(instance, ChunkBolt) and chunk.is_arrow:
            left = instance.execute_batch(Tuple((), chunk, 0), chunk.batch)
            if left is not None:
                return zip(left, shown_rows(chunk.batch.take(left)), strict=True) if left else ()
        rows = chunk.rows
        if isinstance(instance, ChunkBolt) and isinstance(rows, Columns) and len(rows):
            left = instance.execute_chunk(Tuple((), chunk, 0), rows.columns)
            if left is not None:
                return [(i, rows[i]) for i in left]
        return enumerate(rows)


class AnchoringBoltTask(BoltTask):
    """A task of a Bolt that anchors and acks itself, and may keep tuples for later."""

    instance: Bolt

    @override
    def new_collector(self) -> Any:
        return BoltCollector(self.who, self.routes, self.ordered, self.report)

    @override
    def execute(self, chunk: Chunk) -> None:
        execute: Callable[[Tuple], object] = self.instance.execute
        if self.callback != "execute":
            turn = getattr(self.instance, self.callback)
            execute = lambda tup: turn(*tup.values)  # noqa: E731
        self.collector.chunk = chunk
        self.kept: list[Tuple] = []
        tup = Tuple((), chunk, 0)
        for position, values in enumerate(chunk.rows):
            if getrefcount(tup) > OURS:
                self.kept.append(tup)
                tup = Tuple(values, chunk, position)
            else:
                tup.values = values
                tup._i = position
            try:
                if (returned := execute(tup)) is not None:
                    refuse_result(returned)
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (author's code)
                self.note_failure(position, e)
                if tup._i >= 0:
                    tup._i = ~tup._i
                else:  # it was acked or failed before the exception: that stands
                    self.failed.pop()
            if FORKED:
                end_child()
            if self.crash is not None:
                break
        self.kept.append(tup)

    @override
    def send_own(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        """The same; but what is anchored to tuples that have trees is part of these.

        In `execute`, which gets ticks, an emit without an anchor is not tracked, as in Storm.
        """
        is_tick = chunk.component == TICK_COMPONENT

        def is_result(origin: Any) -> bool:
            if type(origin) is int:  # this tuple
                return is_tick
            if self.emits_results:
                return not any(anchor._origin.lineage(anchor._position)[0] for anchor in origin)
            return self.callback != "execute" and not origin

        for part in buffer.parts(is_result):
            if is_result(part.origins[0]):
                super().send_own(part, chunk, xors, outbox)
            else:
                self.send_or_fail(part, chunk, xors, outbox)

    @override
    def send_buffer(self, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        if set(map(type, buffer.origins)) == {int}:  # each has one anchor, of this chunk
            super().send_buffer(buffer, chunk, xors, outbox)
            return
        anchors = [
            (Tuple((), chunk, origin),) if type(origin) is int else origin
            for origin in buffer.origins
        ]
        if not any(anchors):
            outbox.send(self.task, buffer.routes, buffer.emitted_rows(), None, buffer.chosen)
            return

        def tell(anchor: Tuple, edge: int) -> None:
            if anchor._origin is chunk:
                xors[anchor._position] ^= np.uint64(edge)
            elif isinstance(anchor._origin, Held):
                anchor._origin.xor ^= edge

        outbox.send_joined(
            self.task, buffer.routes, buffer.emitted_rows(), anchors, tell, buffer.chosen
        )

    @override
    def fail_origin(self, origin: Any, chunk: Chunk, reason: str) -> None:
        for anchor in [Tuple((), chunk, origin)] if type(origin) is int else origin:
            self.collector.fail_now(anchor, anchor._origin is chunk, reason)

    @override
    def acked(self, chunk: Chunk) -> npt.NDArray[np.int64] | None:
        self.failed += self.collector.failed
        if len(self.collector.acked) == len(chunk):
            return None
        return np.array(self.collector.acked, np.int64)

    @override
    def send_acks(
        self, chunk: Chunk, xors: Ids, acked: npt.NDArray[np.int64] | None, outbox: Outbox
    ) -> None:
        super().send_acks(chunk, xors, acked, outbox)
        for tup in self.collector.reset:
            outbox.messages.resets += tup._origin.lineage(tup._position)[0]
        self._hold(chunk, xors)
        for tup, reason in self.collector.late:
            name = f"{tup.component}:{tup.stream}"
            roots, edges, xor = tup._origin.lineage(tup._position)
            outbox.counts[self.component, ACKED if reason is None else FAILED, name] += 1
            if reason is not None:
                add_task(outbox.tasks, self.task, failed=1)
                outbox.failures.add(self.component, self.task, reason)
                outbox.messages.fail(roots, reason)
            elif roots:
                ids = np.array(edges, np.uint64) ^ np.uint64(xor)
                outbox.messages.acks.append((np.array(roots, np.uint64), ids, None))
            ended = chunk.began + self.seconds
            if outbox.traces is not None:
                note_late(outbox.traces, self.component, roots, ended, reason)
            if reason is None:
                took = ended - (tup._origin.began_at(0) or ended)
                add_chunk(outbox.times, self.component, name, max(0.0, took), 0, 1)

    def _hold(self, chunk: Chunk, xors: Ids) -> None:
        """Tuples that the bolt keeps are taken out of the chunk, so that it can be forgotten."""
        for tup in self.kept:
            if tup._origin is chunk:
                position = tup._position
                tup._i = HELD if tup._i >= 0 else ~HELD
                tup._origin = held(chunk, position, int(xors[position]))
        self.kept = []


def held(chunk: Chunk, i: int, xor: int) -> Held:
    """The origin of tuple `i` without its chunk."""
    roots, edges, _ = chunk.lineage(i)
    task = chunk.source_task(i)
    began = chunk.began_at(i)
    return Held(chunk.component, chunk.stream, chunk.fields, task, roots, edges, xor, began)
