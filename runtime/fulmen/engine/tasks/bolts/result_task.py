"""What a bolt emits by itself, at a tick, by a timer, or at the end of a batch: its results.

No spout can emit them again. So the bolt's task is for its results what a spout's is for messages:
their trees begin at it, it keeps them until these are acked, and emits them again after a pause.
All of it is part of the same commit as what the results were made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, repeat
from typing import Any

import pyarrow as pa
from typing_extensions import override

from fulmen.api.declarer import DEAD_LETTERS
from fulmen.api.tuples import TICK_COMPONENT
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.emitting.routes import Chosen
from fulmen.engine.emitting.spout_emits import Emits
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.figures.statistics import DEAD_LETTERED
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import ErrorReport, Resting, Summary
from fulmen.engine.state.messages.kept_results import KeptResults, Result
from fulmen.engine.state.messages.result_rows import ResultRows
from fulmen.engine.state.pickling import noting
from fulmen.engine.tasks.root_task import RootTask
from fulmen.engine.tuples.chunk import Chunk, Columns
from fulmen.engine.tuples.emitted_rows import EmittedRows
from fulmen.errors import PASSED_ON

LEAST_AGAIN = 1000
"""So many are emitted again in a batch at least, though spouts are asked for fewer tuples."""


class ResultTask(RootTask):
    """A task of a bolt whose results may be messages of their own.

    Attributes:
        results: Those whose trees have not been acked. None: it keeps none.
    """

    results: KeptResults | None = None
    sequence = 0
    _keeps = False

    @override
    def restore_engine(self, engine: Mapping[str, Any], journals: Journals) -> None:
        super().restore_engine(engine, journals)
        origin = self.placed.origins.get(self.placed.plan.key_of(self.task))
        if origin is None:
            return
        self.origin, self.sequence = origin, engine.get("sequence", 0)
        self.restore_origin(engine)
        self.results = KeptResults.restore(journals)
        self.failed_messages = self.results.failed
        self._keeps = self.placed.acking and self.placed.keeps_results(self.component)

    @override
    def engine_state(self) -> dict[str, Any]:
        found = super().engine_state()
        if not self.sequence:
            return found
        return {**found, "sequence": self.sequence, "origin": self.origin}

    @override
    def pending_numbers(self) -> Iterator[int]:
        return self.results.pending_numbers() if self.results is not None else iter(())

    @override
    def updates(self, number: int) -> dict[str, Update]:
        found, results = super().updates(number), self.results
        if results is None or not self.sequence:  # it has never kept any
            return found
        with noting(self.classes.shapes):  # the next commit has them
            try:
                return found | results.updates(number)
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (an author's object may raise anything)
                for what in results.let_go_of_unreadable():
                    text = f"a result can't be kept, and is gone if its tree fails: {what}"
                    self.errors.append(
                        ErrorReport(self.component, self.task, text, is_warning=True)
                    )
            again = results
            return found | self.guarded("pickling its results", lambda: again.updates(number))

    @override
    def tell(self, summary: Summary) -> None:
        super().tell(summary)
        if self.results is not None and self.sequence:
            summary.result_pending[self.task] = self.results.pending
            if self.results.failed.resting:
                summary.resting[self.task] = Resting(*self.results.failed.described())

    # What is emitted

    def keeps_results(self, stream: str, chunk: Chunk) -> bool:
        """Whether what was emitted on a stream may have to be kept: no input stands for it.

        What comes of looking ahead need not be: it comes again when the next run does so.
        """
        return (
            self._keeps
            and not self.context.batch.looks_ahead
            and (chunk.component == TICK_COMPONENT or self.emits_results)
            and bool(self.routes[stream].subscriptions)
        )

    @property
    def emits_results(self) -> bool:
        """Whether what its `execute` emits are results as well."""
        return bool(getattr(self.instance, "emits_results", False))

    def send_results(
        self, stream: str, rows: EmittedRows, outbox: Outbox, chosen: Chosen | None = None
    ) -> None:
        """Send what was emitted on a stream, and keep it until its trees are acked."""
        chosen = chosen or {}
        schema = rows.arrow.schema if rows.arrow is not None else None
        more: Iterable[Any] = repeat(schema)
        results: Sequence[Result]
        values = rows.rows
        if self.routes[stream].direct:
            more = [self._key_of(chosen.get(i)) for i in range(len(rows))]
        if isinstance(values, Columns) and isinstance(values.container, str) and not chosen:
            results = ResultRows(stream, values.columns, values.container, schema)
        else:
            results = list(zip(repeat(stream), values, more, strict=False))
        self.send_roots(Emits(stream, rows, results, chosen), outbox)

    def _key_of(self, tasks: Sequence[tuple[int, Sequence[int]]] | None) -> str:
        """The key of the task that a direct emit is for: task ids are other ones tomorrow."""
        return self.placed.plan.key_of(tasks[0][1][0]) if tasks else ""

    @override
    def tracked(self, msg_ids: Sequence[Any]) -> Sequence[Any]:
        return msg_ids  # all of them

    @override
    def remember(self, ids: Sequence[Any]) -> None:
        if self.results is not None and ids:
            self.results.emitted(self.sequence, ids)
            self.sequence += len(ids)

    # How their trees ended

    def deliver(self, deliveries: Deliveries, clock: float) -> None:
        """Take in how trees of results have ended."""
        if self.results is not None:
            self.results.deliver(deliveries.acked, deliveries.failed, clock)

    def emit_again(self, header: Header, outbox: Outbox) -> None:
        """Emit results again whose pause is over, about as many as a spout may emit in a batch."""
        results = self.results
        if results is None or not results.failed.resting:
            return
        permit = header.default_permit  # 0: a tuple is suspected, or a bolt can take no more
        due = list(results.due(header.clock, max(permit, LEAST_AGAIN) if permit else 0))
        if not due:
            return
        self.was_called = True
        for (stream, more), some in groupby(due, lambda one: _kind(one[1])):
            numbers, rows = zip(*((n, (values, key)) for n, (_, values, key) in some), strict=True)
            self._emit_again(stream, more, list(numbers), rows, outbox)
            if self.ordered:
                outbox.pack_all()
        if not self.placed.acking:  # it was turned off: nobody will tell how they end
            results.acked([number for number, _ in due])

    def _emit_again(
        self,
        stream: str,
        schema: pa.Schema | None,
        numbers: list[int],
        rows: Sequence[tuple[Sequence[Any], Any]],
        outbox: Outbox,
    ) -> None:
        """Emit results of one stream again, or send them to the dead letters."""
        values = [row for row, _ in rows]
        routes = self.routes.get(stream)
        if routes is None or {len(row) for row in values} != {len(routes.fields)}:
            self._give_up(stream, numbers, values, outbox)
            return
        chosen = {}
        if routes.direct:
            tasks = self._tasks
            chosen = {i: routes.direct_to(tasks.get(key, -1)) for i, (_, key) in enumerate(rows)}
        emits = Emits(stream, _rows_of(values, schema), numbers, chosen)
        self.send_roots(self.divert(emits, outbox), outbox)

    @cached_property
    def _tasks(self) -> dict[str, int]:
        """The tasks by their keys."""
        plan = self.placed.plan
        return {
            plan.key_of(task): task for tasks in plan.component_tasks.values() for task in tasks
        }

    def _give_up(
        self, stream: str, numbers: list[int], rows: list[Sequence[Any]], outbox: Outbox
    ) -> None:
        """Send results to the dead letters: the class has no such stream any more."""
        text = (
            f"{len(rows)} results of stream {stream!r} are among the dead letters: the class has no"
            " such stream any more, or other fields there"
        )
        self.errors.append(ErrorReport(self.component, self.task, text, is_warning=True))
        letters = [
            [stream, list(row), number, *self.failed_messages.tried[number]]
            for number, row in zip(numbers, rows, strict=True)
        ]
        outbox.counts[self.component, DEAD_LETTERED, ""] += len(letters)
        self.send_roots(Emits(DEAD_LETTERS, EmittedRows(letters), numbers), outbox)


def _kind(result: Result) -> tuple[str, Any]:
    """What is emitted again together: results of one stream, and of one schema if it is Arrow."""
    stream, _, more = result
    return stream, more if isinstance(more, pa.Schema) else None


def _rows_of(values: list[Sequence[Any]], schema: pa.Schema | None) -> EmittedRows:
    """The rows as they were emitted."""
    if schema is None:
        return EmittedRows(values)
    try:
        columns = zip(*values, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return EmittedRows(arrow=pa.RecordBatch.from_arrays(arrays, schema=schema))
    except Exception:  # noqa: BLE001 (Arrow has no common class; a type may not take its own values)
        return EmittedRows(values)
