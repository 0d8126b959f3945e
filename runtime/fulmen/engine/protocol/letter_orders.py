"""What people want done with dead letters of a running topology, on its way to their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LetterKey = tuple[int, int, int]
"""The number of a letter: see `LetterId`."""


class LetterOrder(NamedTuple):
    """One request. Each header has it for the tasks that have not taken it yet.

    Attributes:
        number: Of the request.
        by: Who wants it, and why.
        drops: Whether the letters are removed. If not, they are sent again.
        letters: Task key -> its letters.
        messages: Task key -> messages that are to be sent and are no letters yet: their entries.
    """

    number: int
    by: str
    drops: bool
    letters: Mapping[str, Sequence[LetterKey]]
    messages: Mapping[str, Sequence[Mapping[str, Any]]]
