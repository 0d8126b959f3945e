"""Results of a bolt: its emits at a tick, by a timer, or at the end of a batch.

No spout can emit them again. So the bolt's task is for its results what a spout's is for messages:
their trees begin at it, it keeps them until these are acked, and emits them again after a pause.
All of it is part of the same commit as what the results were made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any

import pyarrow as pa
from typing_extensions import override

from fulmen.api.declarer import DEAD_LETTERS
from fulmen.api.tuples import TICK_COMPONENT
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.emitting.collectors.spout_emits import Emits
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.emitting.routes import Chosen
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.figures.statistics import DEAD_LETTERED, PENDING_RESULTS
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import Resting, Summary
from fulmen.engine.state.letters.dead_letters import LetterKind, LostMessage
from fulmen.engine.state.messages.kept_results import KeptResults, Result
from fulmen.engine.state.messages.result_rows import ResultRows
from fulmen.engine.state.pickling import noting
from fulmen.engine.tasks.parts.dead_letters import DeadLetters
from fulmen.engine.tasks.parts.message_trees import MessageTrees
from fulmen.engine.tasks.task import Task
from fulmen.engine.tuples.chunk import Chunk, Ranges
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON

LEAST_AGAIN = 1000
"""So many are emitted again in a batch at least, though spouts are asked for fewer tuples."""


class Results(MessageTrees):
    """The results of a bolt task, as messages of its own.

    Attributes:
        kept: Those whose trees have not been acked.
        is_on: Whether new ones are kept.
    """

    def __init__(
        self,
        task: Task,
        origin: int,
        engine: Mapping[str, Any],
        journals: Journals,
        letters: DeadLetters,
    ) -> None:
        super().__init__(task, origin, engine, letters)
        self.kept = KeptResults.restore(journals)
        self.failed = self.kept.failed
        self._waiting: list[TupleRows] = []
        self._stream = ""
        """That of the rows that wait."""
        self.is_on = self.placed.acking and self.placed.keeps_results(task.component)

    @override
    def engine_state(self) -> Mapping[str, Any]:
        return super().engine_state() if self.sequence else {}  # it has never kept any

    @override
    def pending_numbers(self) -> Iterator[int]:
        return self.kept.pending_numbers()

    @override
    def updates(self, number: int) -> Mapping[str, Update]:
        if not self.sequence:
            return {}
        with noting(self.task.classes.shapes):  # the next commit has them
            try:
                return self.kept.updates(number)
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (an author's object may raise anything)
                for what in self.kept.let_go_of_unreadable():
                    text = f"a result can't be kept, and is gone if its tree fails: {what}"
                    self.task.errors.warn(text)
            return self.task.guarded("pickling its results", lambda: self.kept.updates(number))

    @override
    def tell(self, summary: Summary) -> None:
        if self.sequence:
            summary.levels[PENDING_RESULTS, self.task.task] = self.kept.pending
            if self.failed.resting:
                summary.resting[self.task.task] = Resting(*self.failed.described())

    # What is emitted

    def keeps(self, stream: str, chunk: Chunk) -> bool:
        """Whether what was emitted on a stream may have to be kept: no input stands for it.

        What comes of looking ahead need not be: it comes again when the next run does so.
        """
        return (
            self.is_on
            and not self.task.context.batch.looks_ahead
            and (chunk.component == TICK_COMPONENT or self.task.emits_results)
            and bool(self.task.routes[stream].subscriptions)
        )

    def send_rows(
        self, stream: str, rows: TupleRows, outbox: Outbox, chosen: Chosen | None = None
    ) -> None:
        """Send what was emitted on a stream, and keep it until its trees are acked.

        It waits for more of the same stream, until `send_waiting` is called: a task has many small
        chunks where several streams arrive in turn, and what comes after it has one large chunk.
        """
        is_alone = bool(chosen) or rows.arrow is not None or self.task.routes[stream].direct
        if is_alone or stream != self._stream:
            self.send_waiting(outbox)
        if is_alone:
            self._send_rows(stream, rows, outbox, chosen or {})
        else:
            self._stream = stream
            self._waiting.append(rows)

    def send_waiting(self, outbox: Outbox) -> None:
        """Send the rows that wait."""
        if self._waiting:
            rows, self._waiting = TupleRows.concat(self._waiting), []
            self._send_rows(self._stream, rows, outbox, {})

    def _send_rows(self, stream: str, rows: TupleRows, outbox: Outbox, chosen: Chosen) -> None:
        schema = rows.arrow.schema if rows.arrow is not None else None
        rows.share()  # with those who receive them
        routes = self.task.routes[stream]
        results: Sequence[Result]
        if routes.direct:
            keys = [self._key_of(chosen.get(i)) for i in range(len(rows))]
            results = list(zip(repeat(stream), rows, keys, strict=False))
        elif routes.fields:
            results = ResultRows(stream, rows, schema)
        else:
            results = list(zip(repeat(stream), rows, repeat(schema), strict=False))
        self.send(Emits(stream, rows, results, chosen), outbox)
        if self.task.ordered:
            outbox.pack_all()

    def _key_of(self, tasks: Sequence[tuple[int, Sequence[int]]] | None) -> str:
        """The key of the task that a direct emit is for: task ids are other ones tomorrow."""
        return self.placed.known_key_of(tasks[0][1][0]) if tasks else ""

    @override
    def tracked(self, msg_ids: Sequence[Any]) -> Sequence[Any]:
        return msg_ids  # all of them

    @override
    def remember(self, ids: Sequence[Any]) -> None:
        if ids:
            self.kept.emitted(self.sequence, ids)
            self.sequence += len(ids)

    # How their trees ended

    def hear_at_once(self, acked: dict[int, Ranges]) -> None:
        """Take in the trees that were acked in this very batch, and take them out.

        Ackers that run in the task's own stage have seen all messages of the batch before the task
        is written down. So the commit that has what results were made of is the one by which they
        are acked: they need no entry in it. If the batch comes to nothing, they are made again.

        Args:
            acked: Ranges of sequence numbers, by origin.
        """
        if (ranges := acked.pop(self.origin, None)) is not None:
            self.letters.acked(ranges)
            self.kept.deliver(ranges, (), 0.0)

    def hear(self, deliveries: Mapping[int, Deliveries], header: Header, outbox: Outbox) -> None:
        """Take in how trees of results have ended, and emit again those whose pause is over.

        Args:
            deliveries: How trees ended, by origins.
            header: Of the batch; about as many come again as a spout may emit in it.
            outbox: What takes the emits.
        """
        if (ended := self.with_orphans(deliveries.get(self.origin))) is not None:
            ended = self.letters.ended(ended)
            self.kept.deliver(ended.acked, ended.failed, header.clock)
        permit = header.default_permit  # 0: a tuple is suspected, or a bolt can take no more
        self.send_letters(permit, outbox)
        due = list(self.kept.due(header.clock, max(permit, LEAST_AGAIN) if permit else 0))
        if not due:
            return
        self.task.was_called = True
        for (stream, more), some in groupby(due, lambda one: _kind(one[1])):
            numbers, rows = zip(*((n, (values, key)) for n, (_, values, key) in some), strict=True)
            self._emit_again(stream, more, list(numbers), rows, outbox)
            if self.task.ordered:
                outbox.pack_all()
        if not self.placed.acking:  # it was turned off: nobody will tell how they end
            self.kept.acked([number for number, _ in due])

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
        routes = self.task.routes.get(stream)
        if routes is None or {len(row) for row in values} != {len(routes.fields)}:
            self._give_up(stream, numbers, values, outbox)
            return
        chosen = {}
        if routes.direct:
            tasks = self.placed.tasks_by_known_key
            chosen = {i: routes.direct_to(tasks.get(key, -1)) for i, (_, key) in enumerate(rows)}
        emits = Emits(stream, _rows_of(values, schema), numbers, chosen)
        self.send(self.divert(emits, outbox), outbox)

    def _give_up(
        self, stream: str, numbers: list[int], rows: list[Sequence[Any]], outbox: Outbox
    ) -> None:
        """Send results to the dead letters: the class has no such stream any more."""
        text = (
            f"{len(rows)} results of stream {stream!r} are among the dead letters: the class has no"
            " such stream any more, or other fields there"
        )
        self.task.errors.warn(text)
        letters = [
            [stream, list(row), number, *self.failed.tried[number]]
            for number, row in zip(numbers, rows, strict=True)
        ]
        outbox.counts[self.task.component, DEAD_LETTERED, ""] += len(letters)
        lost = [LostMessage(stream, *one) for one in zip(rows, numbers, strict=True)]
        failures = [self.failed.tried[number] for number in numbers]
        self.letters.keep(LetterKind.NO_STREAM, lost, failures)
        self.send(Emits(DEAD_LETTERS, TupleRows(letters), numbers), outbox)


def _kind(result: Result) -> tuple[str, Any]:
    """Results of one kind are emitted again together: one stream, and one schema if it is Arrow."""
    stream, _, more = result
    return stream, more if isinstance(more, pa.Schema) else None


def _rows_of(values: list[Sequence[Any]], schema: pa.Schema | None) -> TupleRows:
    """The rows as they were emitted."""
    if schema is None:
        return TupleRows(values)
    try:
        columns = zip(*values, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return TupleRows.of_arrow(pa.RecordBatch.from_arrays(arrays, schema=schema))
    except Exception:  # noqa: BLE001 (Arrow has no common class; a type may not take its own values)
        return TupleRows(values)
