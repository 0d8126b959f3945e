"""Parts of a task: each restores, writes down and tells one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from fulmen.checkpoint.rewriting import Update
from fulmen.engine.protocol.figures.statistics import STATE_BYTES, STATE_KEYS
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state.entries.disk_journals import TaskState
from fulmen.engine.tasks.author.instance import Guard


class TaskPart:
    """A part of a task. Making it restores it.

    A task asks its parts in the order in which it has got them. A part does nothing where it has
    nothing to do.
    """

    @property
    def wants_batch(self) -> bool:
        """Whether it has something to do in another batch, whatever spouts have."""
        return False

    def confirm(self, tag: str) -> None:
        """What was committed last is durable, and the attempt of this tag begins."""

    def engine_state(self) -> Mapping[str, Any]:
        """The engine's own state for it; small."""
        return {}

    def record(self, number: int) -> Mapping[str, Update]:  # noqa: ARG002 (for those below)
        """The records for commit `number`, by journal: asked if the author's code was called."""
        return {}

    def updates(self, number: int) -> Mapping[str, Update]:  # noqa: ARG002 (for those below)
        """More records for commit `number`, by journal: asked in each batch."""
        return {}

    def tell(self, summary: Summary) -> None:
        """Put into a summary what the driver is to know of it."""


class StateSize(TaskPart):
    """Tells how large `self.state` is, from when there is something in it."""

    def __init__(self, task: int, state: TaskState) -> None:
        """`state` is that of this task."""
        self._task, self._state = task, state
        self._is_used = any(state.size)

    @override
    def tell(self, summary: Summary) -> None:
        keys, size = self._state.size
        self._is_used = self._is_used or bool(keys or size)
        if self._is_used:
            summary.levels[STATE_KEYS, self._task] = keys
            summary.levels[STATE_BYTES, self._task] = size


class Journaled(TaskPart):
    """A part that is written whenever it has changed, and that knows by itself what has."""

    def __init__(
        self, guarded: Guard, what: str, updates: Callable[[int], Mapping[str, Update]]
    ) -> None:
        """`updates` is called as `updates` is, guarded: `what` it is, for messages."""
        self._guarded, self._what, self._updates = guarded, what, updates

    @override
    def updates(self, number: int) -> Mapping[str, Update]:
        return self._guarded(f"pickling {self._what}", lambda: self._updates(number))
