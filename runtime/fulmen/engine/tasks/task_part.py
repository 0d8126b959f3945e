"""Parts of a task: each restores, writes down and tells one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from fulmen.checkpoint.rewriting import Update
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.tasks.author.instance import Guard


class TaskPart:
    """A part of a task. Making it restores it.

    A task asks its parts in the order in which it has got them. A part does nothing where it has
    nothing to do.
    """

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
