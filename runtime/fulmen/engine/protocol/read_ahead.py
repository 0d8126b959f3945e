"""What workers read of a topology that is to come while the one before it still runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fulmen.checkpoint import Ref

Links = Mapping[str, Sequence[Ref]]
"""Journal -> where its payloads are."""


@dataclass(frozen=True)
class AheadOrder:
    """Keyed state that workers are to have on disk, as of a commit.

    Attributes:
        round: Its number, from 1 on: a later one goes on where the one before has ended.
        commit: The number of the commit.
        identity: Of the checkpoint.
        numbers: Component -> how many tasks it will have.
        tasks: Worker -> task key -> what the checkpoint has for that task.
    """

    round: int
    commit: int
    identity: str
    numbers: Mapping[str, int]
    tasks: Mapping[int, Mapping[str, Links]]


@dataclass(frozen=True)
class AheadRequest:
    """Part of a header while workers read ahead.

    Attributes:
        order: What to read; None: what was told before.
    """

    order: AheadOrder | None = None


@dataclass(frozen=True)
class AheadReport:
    """How far a worker is.

    Attributes:
        round: Of the order that it follows.
        is_over: Whether all of it is read, or can't be.
        failure: Why it can't be read; "": nothing went wrong.
        is_outdated: Whether that is because the checkpoint has gone on meanwhile.
    """

    round: int
    is_over: bool
    failure: str = ""
    is_outdated: bool = False
