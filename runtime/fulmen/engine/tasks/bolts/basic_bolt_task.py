"""The task of a BasicBolt, whose tuples are acked when `execute` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np
from typing_extensions import override

from fulmen.api.chunks import ChunkBolt
from fulmen.api.components import BasicBolt
from fulmen.api.returned import refuse_result
from fulmen.api.tuples import HELD, Tuple
from fulmen.engine.emitting.collectors import BasicCollector
from fulmen.engine.tasks.author.forks import FORKED, end_child
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.bolts.kept_tuples import OURS, held
from fulmen.engine.tuples.chunk import Chunk
from fulmen.errors import PASSED_ON


class BasicBoltTask(BoltTask):
    """A task of a BasicBolt."""

    instance: BasicBolt

    @override
    def new_collector(self) -> Any:
        return BasicCollector(self)

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
        rows, left = chunk.rows, None
        if isinstance(instance, ChunkBolt):
            if rows.arrow is not None:
                left = instance.execute_batch(Tuple((), chunk, 0), rows.arrow)
            elif rows.is_by_column and rows.n and rows.columns:
                left = instance.execute_chunk(Tuple((), chunk, 0), rows.columns)
        if left is not None:
            return zip(left, rows.take(np.array(left, np.int64)), strict=True)
        return enumerate(rows)
