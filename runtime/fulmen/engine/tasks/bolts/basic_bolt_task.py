"""The task of a BasicBolt, whose tuples are acked when `execute` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np
from typing_extensions import override

from fulmen.api.components import BasicBolt
from fulmen.api.components.chunks import ChunkBolt
from fulmen.api.components.many import ManyBolt
from fulmen.api.components.returned import refuse_result
from fulmen.api.tuples import HELD, TICK_COMPONENT, Tuple
from fulmen.engine.emitting.collectors.bolt_collectors import BasicCollector
from fulmen.engine.protocol.callbacks.forks import FORKED, end_child
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.bolts.kept_tuples import OURS, held
from fulmen.engine.tasks.bolts.many_tuples import ChunkCollector, ChunkTuples, positions_of
from fulmen.engine.tuples.chunk import Chunk
from fulmen.errors import PASSED_ON

OURS_IN_COLLECTOR = OURS + 1
"""References to a tuple that only the loop and its collector have."""


class BasicBoltTask(BoltTask):
    """A task of a BasicBolt."""

    instance: BasicBolt

    @override
    def new_collector(self) -> Any:
        return BasicCollector(self)

    @override
    def execute(self, chunk: Chunk) -> None:
        left = self._many(chunk)
        if left is None:
            self._singly(chunk, enumerate(chunk.rows), in_order=True)
        elif len(left) and self.crash is None:
            rows = chunk.rows.take(np.array(left, np.int64))
            self._singly(chunk, zip(left, rows, strict=True), in_order=False)

    def _singly(
        self, chunk: Chunk, tuples: Iterable[tuple[int, Sequence[Any]]], *, in_order: bool
    ) -> None:
        """Call the author's method for tuples, one after another.

        Args:
            chunk: The tuples.
            tuples: The positions and the values of those that it is to be called for.
            in_order: Whether these are all.
        """
        collector = self.collector
        execute = self._callback()
        kept: list[Tuple] = []
        tup = Tuple((), chunk, 0)
        emitted, places = collector.begin(tup, in_order=in_order)
        due, each = (0, 1) if places is None else (len(places), 0)
        for tup._i, tup.values in tuples:
            try:
                if (returned := execute(tup, collector)) is not None:
                    refuse_result(returned)
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (author's code)
                self.note_failure(tup._i, e)
                if self.crash is not None:
                    end_child()
                    break
            if FORKED:
                end_child()
            due += each
            if len(emitted) != due:
                places, each = collector.place() if places is None else places, 0
                # as `place` does, which takes two calls for each tuple
                places.extend([tup._i] * (len(emitted) - len(places)))
                due = len(places)
            if getrefcount(tup) > OURS_IN_COLLECTOR:
                kept.append(tup)
                collector.tup = tup = Tuple((), chunk, tup._i)
        collector.end()
        kept.append(tup)
        for tup in kept:  # they were acked or failed by the time that this returns
            tup._origin, tup._i = held(chunk, tup._i, 0), ~HELD

    def _callback(self) -> Callable[..., object]:
        """The author's method that is to be called for each tuple."""
        if self.callback == "execute":
            return self.instance.execute
        turn = getattr(self.instance, self.callback)
        return lambda tup, collector: turn(*tup.values, collector)

    def _many(self, chunk: Chunk) -> Sequence[int] | None:
        """Have the bolt deal with all tuples at once, if it can.

        Returns:
            The positions of those that are left; None: all.
        """
        instance, rows = self.instance, chunk.rows
        if self.callback != "execute" or chunk.component == TICK_COMPONENT or not rows.n:
            return None
        if isinstance(instance, ChunkBolt) and rows.arrow is not None:
            return instance.execute_batch(Tuple((), chunk, 0), rows.arrow)
        if isinstance(instance, ManyBolt):
            return self._execute_many(instance, chunk)
        if isinstance(instance, ChunkBolt):
            return instance.execute_chunk(Tuple((), chunk, 0), rows)
        return None

    def _execute_many(self, bolt: ManyBolt, chunk: Chunk) -> Sequence[int]:
        n = len(chunk)
        collector = ChunkCollector(self.collector, n, self.note_failure)
        try:
            returned = bolt.execute_many(ChunkTuples(chunk), collector)
            return positions_of(returned, n)
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (author's code)
            self.note_many_failure(n, e)
            return ()
        finally:
            collector.close()

    def note_many_failure(self, n: int, error: BaseException) -> str:
        """The call for all `n` tuples raised: they fail, but for those that have failed already.

        Returns:
            The reason.
        """
        failed = {i for i, _ in self.failed}
        self.note_failure(0, error)
        _, reason = self.failed.pop()
        self.failed += [(i, reason) for i in range(n) if i not in failed]
        return reason
