"""The rows that a sink's commit has: they are written behind it, exactly once.

They are a journal of the task, and part of the commit. The next batch writes them, beside
everything else that it does, and its commit clears the journal. A batch that comes to nothing, or a
task that is made anew, finds the journal again and writes the same rows with the same mark: the
store says whether it has them. One commit at a time is unwritten. Each mark names the one before
it, which the store must have: so a store or a checkpoint that was set back is noticed before
anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from typing_extensions import override

from fulmen.api.components.sinks import Mark, Rows
from fulmen.api.marks import Point
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.state.journals import MARK, ROWS
from fulmen.engine.state.messages.unwritten_rows import (
    Unwritten,
    new_id,
    packed_point,
    unpacked_point,
)
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart


class CommittedRows(TaskPart):
    """The rows of the latest commit.

    Attributes:
        unwritten: What is to be written of them, or is to be committed; None: nothing.
        point: What the store has before that.
        is_writing: Whether they are being written.
    """

    def __init__(self, task: Task, engine: Mapping[str, Any], journals: Journals) -> None:
        self._task = task
        self._sink: str = engine.get("sink", "")
        rows, mark = journals.get(ROWS), journals.get(MARK)
        self._is_kept = rows is not None  # what is unwritten is in the checkpoint
        self._has_mark = mark is not None
        unwritten = Unwritten.unpack(rows[-1]) if rows else None
        self.point: Point | None = None
        if mark is not None:  # it is newer than what is unwritten
            self.point = unpacked_point(mark[-1])
        elif unwritten is not None:
            self.point = unwritten.previous
        self.unwritten = None if unwritten is None else replace(unwritten, previous=self.point)
        self._packed = b""  # what is unwritten, until it is in the checkpoint
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[Rows] | None = None

    @property
    def is_writing(self) -> bool:  # noqa: D102
        return self._writing is not None

    @override
    def engine_state(self) -> Mapping[str, Any]:
        return {"sink": self._sink} if self._sink else {}

    def keep(self, unwritten: Unwritten) -> None:
        """Make these a part of the commit. Raises what pickling them does."""
        self._packed = unwritten.pack()
        self.unwritten, self._sink = unwritten, self._sink or new_id(self._task.rng)

    @override
    def record(self, number: int) -> Mapping[str, Update]:
        records: dict[str, Update] = {}
        if self.unwritten is not None and self.unwritten.number == number:
            records[ROWS] = self._packed, number
            self._packed, self._is_kept = b"", True
            if self._has_mark:  # these rows say what is before them
                records[MARK] = None, number
                self._has_mark = False
        elif self.unwritten is None and self._is_kept:
            records[ROWS] = None, number
            records[MARK] = packed_point(self.point), number
            self._is_kept, self._has_mark = False, True
        return records

    def begin_writing(self, write: Callable[[Rows, Mark], object]) -> None:
        """Have what is unwritten written in a thread."""
        unwritten = self.unwritten
        if unwritten is None:
            return
        task, rows = self._task, Rows(unwritten.fields, unwritten.items)
        task.was_called = True
        label = f"{task.context.topology}/{task.component}/{task.context.task_index}"
        mark = Mark(self._sink, *unwritten.point, label, unwritten.previous)

        def call() -> Rows:
            if len(rows):  # else all were refused
                write(rows, mark)
            return rows

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"fulmen-{task.component}")
        self._writing = self._thread.submit(call)

    def written(self) -> tuple[Unwritten, Rows]:
        """Wait for the rows that are being written. Raises what writing them raises."""
        assert self._writing is not None
        writing, self._writing = self._writing, None
        rows = writing.result()
        assert self.unwritten is not None
        unwritten, self.unwritten = self.unwritten, None
        if unwritten.items:
            self.point = unwritten.point
        return unwritten, rows

    def end(self) -> None:
        """Wait for what is being written, and let go of the thread."""
        if self._writing is not None:
            wait([self._writing])
        if self._thread is not None:
            self._thread.shutdown()
