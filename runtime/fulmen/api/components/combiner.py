"""Combines the tuples that leave a worker into few rows: see `BasicBolt.combiner_for`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

ANY_TIME, IN_ORDER = -1, -2
COMBINED = "__combined"
"""The first field of what a bolt receives in place of tuples that were combined."""


class Combiner(ABC):
    """A combiner of one input of a bolt, in one worker that emits to it.

    Only tuples that leave for another stage are combined: those with the same row number go to
    the same task. What a combiner knows is of one batch, as all that leaves is sent at its end.
    """

    @abstractmethod
    def begin(self, watermark: float | None, next_watermark: int | None = None) -> None:
        """A batch begins, and what was known is forgotten.

        Args:
            watermark: The bolt's, as its `context.batch` has it in this batch.
            next_watermark: The same.
        """

    @abstractmethod
    def add(self, columns: Sequence[Sequence[Any]]) -> Sequence[int] | None:
        """Take in tuples.

        Args:
            columns: The values of each field. They must not be changed.

        Returns:
            The number of the row that each has become part of, from 0 on. ANY_TIME: it is sent as
            it is, and may come before the rows. IN_ORDER: it is sent as it is, and the rows so far
            come before it. None: all are, in order.
        """

    @abstractmethod
    def take(self) -> Sequence[Sequence[Any]]:
        """The rows, by their numbers. All have as many values. They are forgotten."""
