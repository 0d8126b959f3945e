"""The task of a Bolt that anchors and acks itself: its tuples may be acked in a later batch."""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fulmen.api.components import Bolt
from fulmen.api.components.returned import refuse_result
from fulmen.api.tuples import HELD, TICK_COMPONENT, Held, Tuple
from fulmen.engine.emitting.collectors.bolt_collectors import BoltCollector
from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.forks import FORKED, end_child
from fulmen.engine.protocol.figures.statistics import ACKED, FAILED, add_chunk, add_task
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.bolts.kept_tuples import OURS, held
from fulmen.engine.tasks.bolts.traced_tuples import note_late
from fulmen.engine.tasks.parts.results import Results
from fulmen.engine.tuples.chunk import Chunk, Ids
from fulmen.errors import PASSED_ON


class AnchoringBoltTask(BoltTask):
    """A task of a Bolt that anchors and acks itself, and may keep tuples for later."""

    instance: Bolt
    tells_apart = True

    @override
    def new_collector(self) -> Any:
        return BoltCollector(self)

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
                self.note_raised(tup, position, e)
            if FORKED:
                end_child()
            if self.crash is not None:
                break
        self.kept.append(tup)

    def note_raised(self, tup: Tuple, position: int, error: BaseException) -> None:
        """The call for a tuple raised: it fails, if it was neither acked nor failed before."""
        self.note_failure(position, error)
        if tup._i >= 0:
            tup._i = ~tup._i
        else:
            self.failed.pop()

    @override
    def send_own(
        self, results: Results, buffer: Buffer, chunk: Chunk, xors: Ids, outbox: Outbox
    ) -> None:
        """Send results; but emits that are anchored to tuples with trees are part of these trees.

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
                super().send_own(results, part, chunk, xors, outbox)
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
            outbox.send(self.task, buffer.routes, buffer.tuple_rows(), None, buffer.chosen)
            return

        def tell(anchor: Tuple, edge: int) -> None:
            if anchor._origin is chunk:
                xors[anchor._position] ^= np.uint64(edge)
            elif isinstance(anchor._origin, Held):
                anchor._origin.xor ^= edge

        outbox.send_joined(
            self.task, buffer.routes, buffer.tuple_rows(), anchors, tell, buffer.chosen
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
