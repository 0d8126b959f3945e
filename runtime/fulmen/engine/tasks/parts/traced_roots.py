"""Which of the trees that begin at a task are traced, and what is noted of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fulmen.engine.acking.root_ids import TRACED
from fulmen.engine.protocol.figures.trace_notes import LONGEST_REASON, Begun, TraceNotes
from fulmen.engine.protocol.sampling import Sampling, TraceContext
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.tuples.chunk import Ids
from fulmen.errors import IGNORED
from fulmen.secrets import masked

MOST_REMEMBERED = 1_000
"""Messages of one task."""


class Came(NamedTuple):
    """The context that a message came with.

    Attributes:
        parent: A place in a trace that goes on with it; None: none.
        failures: How many times it has failed before.
        reason: Why the last time.
        was_traced: Whether its tree was traced then, which `parent` is.
    """

    parent: TraceContext | None = None
    failures: int = 0
    reason: str = ""
    was_traced: bool = False


def marked(roots: Ids, came: Mapping[int, Came], sampling: Sampling, most: int) -> Ids:
    """Root ids that say which of the trees are traced.

    Args:
        roots: Root ids that say of none.
        came: Number of a tree -> what its message came with.
        sampling: Decides.
        most: So many are traced at most: the first ones.
    """
    chosen = sampling.chosen(roots)
    for i, one in came.items():
        if one.parent is not None and (sampling.follows_parents or one.was_traced):
            chosen[i] = one.parent.is_sampled
    at = np.flatnonzero(chosen)[:most]
    if not len(at):
        return roots
    traced = roots.copy()
    traced[at] |= TRACED
    return traced


def note_begun(
    notes: TraceNotes,
    roots: Ids,
    where: tuple[str, int, str],
    born: float,
    came: Mapping[int, Came],
) -> None:
    """Note those of the trees that are traced.

    Args:
        notes: Takes the notes.
        roots: Of all trees that have begun.
        where: Component, task and stream.
        born: When.
        came: Number of a tree -> what its message came with.
    """
    for i in np.flatnonzero(roots & TRACED).tolist():
        one = came.get(i, Came())
        reason = masked(one.reason)[:LONGEST_REASON]
        notes.begun.append(Begun(int(roots[i]), *where, born, one.parent, one.failures, reason))


class TracedMessages:
    """The messages whose trees were traced last. If they come again, their traces go on.

    They are in memory alone. What a process had of them is lost with it.
    """

    def __init__(self) -> None:
        self._contexts: dict[Any, TraceContext] = {}

    def add(self, msg_id: Any, context: TraceContext) -> None:
        """Remember the context of a message that is traced."""
        with IGNORED:  # an author's __hash__ or ==
            self._contexts.pop(msg_id, None)
            self._contexts[msg_id] = context
            if len(self._contexts) > MOST_REMEMBERED:
                del self._contexts[next(iter(self._contexts))]

    def came_with(
        self,
        ids: Sequence[Any],
        failed: FailedMessages,
        traceparents: Mapping[int, str],
    ) -> Iterator[tuple[int, Came]]:
        """Yield the context that messages came with, by their places.

        Args:
            ids: Of all of them.
            failed: Those that have failed before.
            traceparents: Place -> what the message says of a trace, of those that do.
        """
        parents = {i: TraceContext.parsed(text) for i, text in traceparents.items()}
        for i, parent in parents.items():
            if parent is not None and i in range(len(ids)):
                yield i, Came(parent)
        for i in failed.among(ids):
            came = None
            with IGNORED:  # an author's __hash__ or ==
                failures, reason = failed.tried[ids[i]]
                before = self._contexts.get(ids[i])
                came = Came(before or parents.get(i), failures, reason, before is not None)
            if came is not None:
                yield i, came
