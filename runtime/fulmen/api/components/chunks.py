"""Bolts that may deal with all tuples of a chunk at once: those of Fulmen itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fulmen.api.components.bolts import BasicBolt
from fulmen.api.tuples import Tuple

if TYPE_CHECKING:  # as in `api.arrow`
    import pyarrow as pa


class ChunkValues(Protocol):
    """The values of the tuples of a chunk, whichever way they came."""

    def __len__(self) -> int:
        """How many tuples there are."""

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """The values of each tuple. They must not be changed."""

    def values(self, i: int) -> Sequence[Any]:
        """The values of field number `i`. They must not be changed."""


class ChunkBolt(BasicBolt):
    """A BasicBolt that is asked before `execute` is called for each tuple.

    Both methods process tuples without emitting anything, and raise nothing. They return the
    positions of those that `execute` is to be called for, ascending; None: all.
    """

    def execute_chunk(self, tup: Tuple, rows: ChunkValues) -> Sequence[int] | None:  # noqa: ARG002 (for those below)
        """Process tuples whose values are Python's.

        Args:
            tup: Says where all of them come from, and has no values.
            rows: Their values.
        """
        return None

    def execute_batch(self, tup: Tuple, batch: pa.RecordBatch) -> Sequence[int] | None:  # noqa: ARG002 (for those below)
        """Process tuples that came as Arrow. Python has a value for each of theirs.

        Args:
            tup: Says where all of them come from, and has no values.
            batch: Their values.
        """
        return None
