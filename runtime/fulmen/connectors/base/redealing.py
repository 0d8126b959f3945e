"""Another number of tasks of a source whose service hands out messages to each of them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from fulmen.api.components.kept import Kept
from fulmen.connectors.base.source import Source


def heir_of(task: int, tasks: int) -> int:
    """The task that has what a task had: itself, or another one if there are no more so many."""
    return task if task < tasks else task % tasks


def refuse_own_fields(cls: type[Source], kept: Sequence[Kept], durable: Sequence[str]) -> None:
    """Refuse fields that a derived class has added: nobody knows what to do with them.

    Raises:
        ValueError: There are some.
    """
    if own := {name for one in kept for name in one.fields} - {*durable}:
        raise ValueError(
            f"{cls.__qualname__} has the field {min(own)!r} of its own. Have it say what becomes of"
            " it: def redistribute(cls, kept, tasks)"
        )


def waiting(kept: Kept) -> Mapping[str, Any]:
    """The messages of `EmittedBlocks` that wait in a task, each by itself. All trees have ended.

    So those of a block that wait are those that have failed.
    """
    alone = {key: value for key, value in kept.state.items() if type(key) is str}
    failed = {*kept.failed}
    for block in kept.fields.get("in_blocks", ()):
        ids, values = pickle.loads(kept.state[block])
        given = values if values is not None else [None] * len(ids)
        alone |= {i: v for i, v in zip(ids, given, strict=True) if i in failed and i not in alone}
    return alone
