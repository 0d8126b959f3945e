"""A task of an ArrowBolt in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from fulmen.api.components.arrow import ArrowBolt
from fulmen.api.components.returned import refuse_result
from fulmen.api.tuples import TICK_COMPONENT
from fulmen.engine.emitting.collectors.arrow_collectors import ArrowCollector
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tuples.chunk import Chunk, Ids
from fulmen.engine.tuples.mixed_columns import fitting
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON, GroupingError, StreamError


class ArrowBoltTask(BoltTask):
    """A task of an ArrowBolt."""

    instance: ArrowBolt

    @override
    def new_collector(self) -> Any:
        return ArrowCollector(self)

    @override
    def execute(self, chunk: Chunk) -> None:
        collector = self.collector
        collector.source, collector.rows = (chunk.component, chunk.stream), 0
        if chunk.component != TICK_COMPONENT:
            self._execute_rows(chunk)
            self.failed += collector.failures.items()
            self.failed.sort()
            return
        try:
            what = "tick" if self.callback == "execute" else self.callback
            turn = getattr(self.instance, what)
            for values in chunk.rows if what == "on_timer" else ((),):
                refuse_result(turn(*values, collector))
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (author's code)
            self.note_failure(0, e)
            self.failed.clear()  # there is no row to fail

    def _execute_rows(self, chunk: Chunk) -> None:
        """Call `execute` with all rows, but those whose values don't fit into a column."""
        collector, rows = self.collector, None
        call: Callable[..., object] = self.instance.execute
        try:
            batch, rows = self._batch(chunk)
            collector.rows = batch.num_rows
            if collector.rows:
                refuse_result(call(batch, collector))
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (author's code)
            self.note_failure(0, e)
            _, reason = self.failed.pop()
            n = len(chunk) if rows is None else len(rows)
            collector.failures = dict.fromkeys(range(n), reason)
        if rows is not None:
            collector.emits = [(stream, b, rows[at]) for stream, b, at in collector.emits]
            failures = collector.failures
            collector.failures = {int(rows[i]): reason for i, reason in failures.items()}

    def _batch(self, chunk: Chunk) -> tuple[pa.RecordBatch, np.ndarray[Any, Any] | None]:
        """The rows that fit together, and their numbers; None: all. The others are failed."""
        try:
            return chunk.rows.record_batch(chunk.fields), None
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's objects may raise anything)
            wrong, batch = fitting(chunk.fields, chunk.rows.columns)
        for row, text in sorted(wrong.items()):
            self.note_failure(row, StreamError(text))
        return batch, np.array([i for i in range(len(chunk)) if i not in wrong], np.int64)

    @override
    def send_emits(self, chunk: Chunk, xors: Ids, outbox: Outbox) -> None:
        for stream, emitted, rows in self.collector.emits:
            batch, at = emitted, rows
            if self.results is not None and self.results.keeps(stream, chunk):
                self.results.send_rows(stream, TupleRows.of_arrow(batch), outbox)
                continue
            self.send_waiting(outbox)
            while batch.num_rows:
                try:
                    self.send_anchored(stream, TupleRows.of_arrow(batch), at, chunk, xors, outbox)
                    break
                except GroupingError as e:
                    self.errors.report_or_crash(e, "emit", fatal=e.emission is None)
                    keep = np.arange(batch.num_rows) != e.emission
                    if self.collector.rows:  # in a tick there is nothing to fail
                        self.fail_origin(int(at[~keep][0]), chunk, str(e))
                    batch, at = batch.filter(pa.array(keep)), at[keep]
            if self.ordered:
                outbox.pack_all()
