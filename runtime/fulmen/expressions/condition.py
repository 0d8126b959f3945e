"""A condition of rows that are not those of one input, such as the pairs of a join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fulmen.api import Stream
from fulmen.expressions.mistakes import ExpressionError
from fulmen.expressions.selection import selected, steps_of
from fulmen.expressions.steps import StepsRunner


class RowCondition:
    """An expression that is true for some rows. One that has no value for a row fails it."""

    def __init__(self, text: str, stream: Stream) -> None:
        """`stream`: the fields of the rows, and what is known of their types."""
        steps = steps_of(stream, text, None)
        assert steps is not None
        self._runner = StepsRunner(steps)

    def of(self, rows: Sequence[Sequence[Any]]) -> tuple[Sequence[int], dict[int, str]]:
        """The places of the rows for which it is true; and of those that it fails for, and why."""
        done = self._runner.run(rows)
        taken = range(len(rows)) if done.at is None else done.at
        if done.failed:
            taken = [place for place in taken if place not in done.failed]
        return taken, done.failed


def mistakes_of(text: str, stream: Stream) -> Iterator[ExpressionError]:
    """What is wrong with a condition of rows that have the fields of a stream."""
    for _, error in selected(steps_of(stream, text, None), stream).mistakes:
        yield error
