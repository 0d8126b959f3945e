"""Tasks of bolts whose `execute` is async: many tuples of a chunk wait side by side.

A chunk ends when all its tuples have ended, so nothing is under way when a batch is committed.
"""

from __future__ import annotations

import os
from asyncio import gather
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector, Values
from fulmen.api.components.returned import refuse_result
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.tuples import HELD, Tuple
from fulmen.engine.emitting.collectors.bolt_collectors import BasicCollector
from fulmen.engine.protocol.callbacks.forks import end_child
from fulmen.engine.tasks.author.event_loop import complete
from fulmen.engine.tasks.bolts.anchoring_bolt_task import AnchoringBoltTask
from fulmen.engine.tasks.bolts.basic_bolt_task import BasicBoltTask
from fulmen.engine.tasks.bolts.kept_tuples import held
from fulmen.engine.tuples.chunk import Chunk
from fulmen.errors import PASSED_ON


class TupleCollector(BasicOutputCollector):
    """Keeps what is emitted for one tuple until it is its turn.

    Attributes:
        emits: The calls to make on the task's own collector.
    """

    def __init__(self, collector: BasicCollector) -> None:
        self._collector = collector
        self.emits: list[Callable[[], object]] = []

    @override
    def emit(
        self, values: Values, stream: str = DEFAULT_STREAM, need_task_ids: bool = False
    ) -> list[int] | None:
        if need_task_ids:  # then the values can't wait: they are chosen for now
            raise ValueError("an async bolt can't ask for the tasks that an emit goes to")
        self.emits.append(lambda: self._collector.emit(values, stream))
        return None

    @override
    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        self.emits.append(lambda: self._collector.emit_direct(task, values, stream))

    @override
    def report_error(self, error: BaseException | str) -> None:
        self._collector.report_error(error)


async def _in_lanes(
    tuples: Iterator[Tuple], lanes: int, call: Callable[[Tuple], Awaitable[None]]
) -> None:
    """Call it for all tuples, for so many at a time: one by one if that is less than 1."""
    ends: list[BaseException] = []

    async def lane() -> None:
        try:
            for tup in tuples:
                await call(tup)
                end_child()
        except BaseException as e:  # noqa: BLE001 (SystemExit would end the loop; others are to end first)
            ends.append(e)
        finally:
            end_child()

    await gather(*(lane() for _ in range(max(1, lanes))))
    if ends:
        raise ends[0]


def _leave(left: Iterator[Tuple], *, if_: bool) -> None:
    """Have `execute` called for none of these tuples any more: their batch comes to nothing."""
    if if_:
        deque(left, maxlen=0)


class AsyncBasicBoltTask(BasicBoltTask):
    """A task of a BasicBolt with `async def execute`. Emits leave in the order of the tuples."""

    @override
    def execute(self, chunk: Chunk) -> None:
        instance: Any = self.instance
        if self.callback != "execute":
            super().execute(chunk)
            return
        tuples = [Tuple(values, chunk, i) for i, values in enumerate(chunk.rows)]
        collectors = [TupleCollector(self.collector) for _ in tuples]
        errors: dict[int, BaseException] = {}
        left = iter(tuples)

        async def call(tup: Tuple) -> None:
            i = tup._position
            try:
                refuse_result(await instance.execute(tup, collectors[i]))
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (author's code)
                errors[i] = e
                _leave(left, if_=self.needs_service(e))

        lanes = min(len(tuples), instance.max_concurrency)
        complete(_in_lanes(left, lanes, call), os.getpid())
        for i, tup in enumerate(tuples):
            self.collector.tup = tup
            try:
                for emit in collectors[i].emits:
                    emit()
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (what the author emits may be wrong)
                errors.setdefault(i, e)
            if i in errors:
                self.note_failure(i, errors[i])
            tup._origin, tup._i = held(chunk, i, 0), ~HELD


class AsyncBoltTask(AnchoringBoltTask):
    """A task of a Bolt with `async def execute`, which emits, acks and fails whenever it does."""

    @override
    def execute(self, chunk: Chunk) -> None:
        if self.callback != "execute":
            super().execute(chunk)
            return
        instance: Any = self.instance
        self.collector.chunk = chunk
        self.kept = [Tuple(values, chunk, i) for i, values in enumerate(chunk.rows)]
        left = iter(self.kept)

        async def call(tup: Tuple) -> None:
            position = tup._position
            try:
                refuse_result(await instance.execute(tup))
            except PASSED_ON:
                raise
            except BaseException as e:  # noqa: BLE001 (author's code)
                self.note_raised(tup, position, e)
                _leave(left, if_=self.crash is not None)

        lanes = min(len(self.kept), instance.max_concurrency)
        complete(_in_lanes(left, lanes, call), os.getpid())
