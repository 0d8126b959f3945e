"""Early results in a sink's store: those that a batch has written that looked ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.positions import positions
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state.early_rows import EarlyRows, Place
from fulmen.engine.state.early_table import EarlyTable, has_keys_alone
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import EARLY
from fulmen.engine.tasks.parts.home_evidence import grouped_by
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.columns import listed
from fulmen.errors import GroupingError

Written = list[tuple[Chunk, dict[int, str]]]
"""Rows that were written, with those that failed, and why."""


class EarlyResults(TaskPart):
    """The early results that one task has written, which later ones replace."""

    def __init__(self, task: Task, journals: Journals) -> None:
        self._task = task
        self._given = KeyedState.restore(journals, name=EARLY)
        self._grouped_by = grouped_by(task)
        self._known: EarlyRows | EarlyTable | None = None

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
        known = self._known = self._known or self._read(key_fields)
        if isinstance(known, EarlyTable):
            gone, rows = known.ahead(held) if is_early else known.in_time(held)
            written = write([*gone, *rows], sum(map(len, gone)))
            known.wrote(written[: len(gone)], written[len(gone) :], early=is_early)
            return written
        if is_early:
            back, new, _ = known.ahead(held)
            written = write([*back, *new], 0)
            known.gave(written[len(back) :])
            return written
        back, new, old = known.in_time(held, appends=appends)
        return [*write([*back, *new], 0), *((chunk, {}) for chunk in old)]

    def _read(self, key: tuple[str, ...]) -> EarlyRows | EarlyTable:
        """What is known: by key, if the store has keys and no other task writes them."""
        task = self._task
        ways = {
            (of.grouping.type, tuple(of.grouping.fields))
            for of in task.placed.subscriptions
            if of.target == task.component
        }
        if not has_keys_alone(key, ways, len(task.context.tasks(task.component))):
            return EarlyRows(self._given, self._places)
        fields = sorted(sorted(stream.fields) for stream in task.context.inputs.values())
        return EarlyTable(self._given, key, (key, sorted(ways), fields), self._places)

    def _places(self, chunk: Chunk) -> Sequence[Place]:
        by = self._grouped_by.get((chunk.component, chunk.stream), ())
        unknown = [None] * len(chunk)
        if not by or not len(chunk) or not {*by} <= {*chunk.fields}:
            return unknown
        columns = [listed(chunk.rows.column(chunk.fields.index(name))) for name in by]
        try:
            places: list[int] = positions([column_hash(column) for column in columns]).tolist()
        except GroupingError:  # one task needs no hashes
            return unknown
        return places
