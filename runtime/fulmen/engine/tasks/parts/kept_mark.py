"""The mark of a bolt that writes rows of its own state to a store, behind the commit that has them.

A `Sink` has its rows kept by the engine: see `committed_rows`. Such a bolt gathers them by itself,
and says what it has written last. Both are kept in the same way: so what people decide about a
store, and what going back and a copy do with marks, holds for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from fulmen.api.marks import EngineMark
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.state.journals import MARK
from fulmen.engine.state.messages.unwritten_rows import new_id, packed_point, unpacked_point
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import TaskPart


class BoltMark(TaskPart):
    """The mark of one task."""

    def __init__(self, task: Task, sink: str, journals: Journals) -> None:
        """Go on with what the checkpoint has. `sink`: its id there; empty: there is none yet."""
        records = journals.get(MARK)
        point = unpacked_point(records[-1]) if records else None
        self.kept = EngineMark(sink or new_id(task.rng), point)
        self._recorded = point

    @override
    def engine_state(self) -> Mapping[str, Any]:
        return {"sink": self.kept.sink}

    @override
    def record(self, number: int) -> Mapping[str, Update]:
        if self.kept.point == self._recorded:
            return {}
        self._recorded = self.kept.point
        return {MARK: (packed_point(self.kept.point), number)}
