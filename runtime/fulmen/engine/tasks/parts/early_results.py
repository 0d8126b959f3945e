"""Early results in a sink's store: those that a batch has written that looked ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state.early_rows import EarlyRows
from fulmen.engine.state.early_table import EarlyTable, has_keys_alone
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import EARLY
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart
from fulmen.engine.tuples.chunk import Chunk

Written = list[tuple[Chunk, dict[int, str]]]
"""Rows that were written, with those that failed, and why."""


class EarlyResults(TaskPart):
    """The early results that one task has written, which later ones replace."""

    def __init__(self, task: Task, journals: Journals) -> None:
        self._task = task
        self._given = KeyedState.restore(journals, name=EARLY)

    def __bool__(self) -> bool:
        return bool(self._given)

    @override
    def record(self, number: int) -> Mapping[str, Update]:
        return self._given.updates(number)

    @override
    def tell(self, summary: Summary) -> None:
        summary.has_early_rows |= bool(self)

    def write(
        self,
        held: list[Chunk],
        write: Callable[[Sequence[Chunk], int], Written],
        key_fields: tuple[str, ...],
        appends: bool,
    ) -> Written:
        """Write the rows of a batch that the store does not have yet.

        Args:
            held: The rows.
            write: Writes rows, and deletes what the first of them have written: of so many.
            key_fields: What the sink says of itself.
            appends: Whether each row is one more for the sink.
        """
        is_early = self._task.context.batch.looks_ahead
        if not is_early and not (self and held):
            return write(held, 0)
        if (table := self._table(key_fields)) is not None:
            gone, rows = table.ahead(held) if is_early else table.in_time(held)
            written = write([*gone, *rows], sum(map(len, gone)))
            table.wrote(written[: len(gone)], written[len(gone) :], early=is_early)
            return written
        early = EarlyRows(self._given)
        if is_early:
            back, new, _ = early.ahead(held)
            written = write([*back, *new], 0)
            early.gave(written[len(back) :])
            return written
        back, new, known = early.in_time(held, appends=appends)
        return [*write([*back, *new], 0), *((chunk, {}) for chunk in known)]

    def _table(self, key: tuple[str, ...]) -> EarlyTable | None:
        """The table of the store, if it has keys and no other task writes them."""
        task = self._task
        ways = {
            (of.grouping.type, tuple(of.grouping.fields))
            for of in task.placed.subscriptions
            if of.target == task.component
        }
        tasks = len(task.context.tasks(task.component))
        if not has_keys_alone(key, ways, tasks):
            return None
        fields = sorted(sorted(stream.fields) for stream in task.context.inputs.values())
        return EarlyTable(self._given, key, (key, sorted(ways), tasks, fields))
