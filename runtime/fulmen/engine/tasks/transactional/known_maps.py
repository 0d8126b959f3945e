"""The maps that a committer's task is known to write to, as the checkpoint has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from fulmen.engine.tasks.task_part import TaskPart

_WRITTEN, _INHERITED = "maps", "inherited_maps"
"""The names in the engine's own state of a task."""


@dataclass(frozen=True)
class KnownMaps:
    """The maps of one task.

    Attributes:
        written: Those that it has written to.
        inherited: Those of another number of tasks that it has not written to since: the task
            whose mark goes on, or None. See `CommitPhase`.
    """

    written: Collection[str] = ()
    inherited: Mapping[str, int | None] = field(default_factory=dict)

    @staticmethod
    def of(engine: Mapping[str, Any]) -> KnownMaps:
        """Read what `engine_state` gave."""
        return KnownMaps(engine.get(_WRITTEN, ()), engine.get(_INHERITED, {}))

    def engine_state(self) -> Mapping[str, Any]:
        """What is kept of it in the engine's own state of the task."""
        state: dict[str, Any] = {}
        if self.written:
            state[_WRITTEN] = sorted(self.written)
        if self.inherited:
            state[_INHERITED] = {name: self.inherited[name] for name in sorted(self.inherited)}
        return state

    def put_into(self, engine: Mapping[str, Any]) -> dict[str, Any]:
        """The engine's own state of a task, with these maps in the place of those it has."""
        others = {name: one for name, one in engine.items() if name not in (_WRITTEN, _INHERITED)}
        return others | dict(self.engine_state())

    @staticmethod
    def dealt(tasks: Sequence[KnownMaps], to: int) -> Sequence[KnownMaps]:
        """The maps of another number of tasks.

        A task that stays goes on with its marks. For all others, one of those stands.
        """
        names = {name for one in tasks for name in (*one.written, *one.inherited)}
        heirs = {
            name: [task for task, one in enumerate(tasks[:to]) if name in one.written]
            for name in sorted(names)
        }
        dealt: list[KnownMaps] = []
        for task in range(to):
            written = {*tasks[task].written} if task < len(tasks) else set()
            inherited = {
                name: known[task % len(known)] if known else None
                for name, known in heirs.items()
                if name not in written
            }
            dealt.append(KnownMaps(written, inherited))
        return dealt


class MapsPart(TaskPart):
    """The maps that the committer is known to write to.

    Attributes:
        names: Those that this task has written to.
        inherited: Those that tasks of another number of them had; see `CommitPhase`.
    """

    def __init__(self, engine: Mapping[str, Any]) -> None:
        known = KnownMaps.of(engine)
        self.names, self.inherited = {*known.written}, {**known.inherited}

    def wrote(self, own: Collection[str]) -> bool:
        """Note that the task has written to maps. Returns whether that is new."""
        before = len(self.names)
        self.names.update(own)
        self.inherited = {name: one for name, one in self.inherited.items() if name not in own}
        return len(self.names) > before

    @override
    def engine_state(self) -> Mapping[str, Any]:
        return KnownMaps(self.names, self.inherited).engine_state()
