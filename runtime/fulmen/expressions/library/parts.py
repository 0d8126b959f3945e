"""What expressions call for parts of lists and objects, and for rows of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from fulmen.errors import repr_of
from fulmen.expressions.library.arithmetic import Failed

Steps = tuple[int | str, ...]
"""The way to a part: places in lists, from 1, and names of members."""


class NoPart:
    """Stands for a part of what is neither a list nor an object: whoever asks for it fails."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __repr__(self) -> str:
        return "no part"

    def fail(self) -> NoReturn:
        """Raise.

        Raises:
            Failed: Always.
        """
        raise Failed(self._reason)


def part_of(value: Any, steps: Steps) -> Any:
    """A part of a value; None: it lacks it, or is None."""
    for step in steps:
        if value is None:
            return None
        if isinstance(step, str):
            if not isinstance(value, dict):
                return NoPart(f"{_shown(value)} is no object with a {step!r}")
            value = value.get(step)
        else:
            if not isinstance(value, list | tuple):
                return NoPart(f"{_shown(value)} is no list")
            at = step - 1 if step > 0 else len(value) + step
            value = value[at] if step and 0 <= at < len(value) else None
    return value


def rows_of_lists(row: Sequence[Any], count: int) -> list[list[Any]]:
    """Rows with the values of the last lists of a row, those that are shorter filled with None.

    Raises:
        Failed: One of them is no list.
    """
    plain, lists = row[:-count], row[-count:]
    for one in lists:
        if one is not None and not isinstance(one, list | tuple):
            raise Failed(f"unnest takes a list, and {_shown(one)} is none")
    lengths = [0 if one is None else len(one) for one in lists]
    return [
        [*plain, *(one[i] if i < n else None for one, n in zip(lists, lengths, strict=True))]
        for i in range(max(lengths))
    ]


def _shown(value: Any) -> str:
    text = repr_of(value)
    return text if len(text) <= 60 else text[:60] + "…"
