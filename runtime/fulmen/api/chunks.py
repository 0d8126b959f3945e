"""Bolts that may deal with all tuples of a chunk at once: those of Fulmen itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from fulmen.api.components import BasicBolt
from fulmen.api.tuples import Tuple


class ChunkBolt(BasicBolt):
    """A BasicBolt that is asked before `execute` is called for each tuple."""

    @abstractmethod
    def execute_chunk(self, tup: Tuple, columns: Sequence[Sequence[Any]]) -> Sequence[int] | None:
        """Process tuples without emitting anything. Raises nothing.

        Args:
            tup: Says where all of them come from, and has no values.
            columns: The values of each field. They must not be changed.

        Returns:
            The positions of those that `execute` is to be called for, ascending; None: all.
        """
