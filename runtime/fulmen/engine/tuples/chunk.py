"""A chunk of tuples: what a task receives at once.

Routing and acking work on the columns; only an author's code sees single tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fulmen.engine.tuples.tuple_rows import TupleRows

Ids = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]
Tasks = npt.NDArray[np.int32]
Ranges = npt.NDArray[np.int64]
"""Rows of [first, end)."""

EMPTY_IDS: Ids = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which tuple trees each of n tuples belongs to, and its edge id in each.

    What Storm calls a MessageId, as columns.

    Attributes:
        roots: Root ids.
        edges: Edge ids, as many.
        offsets: Tuple i has the roots offsets[i] to offsets[i + 1]. None: each tuple has exactly
            one.
    """

    roots: Ids
    edges: Ids
    offsets: Positions | None = None

    def of(self, i: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Roots and edges of tuple `i`, as Python ints."""
        if self.offsets is None:
            return (int(self.roots[i]),), (int(self.edges[i]),)
        a, b = self.offsets[i], self.offsets[i + 1]
        return tuple(self.roots[a:b].tolist()), tuple(self.edges[a:b].tolist())

    def take(self, index: npt.NDArray[Any]) -> Lineage:
        """The lineage of the tuples at `index`, in that order."""
        if self.offsets is None:
            return Lineage(self.roots[index], self.edges[index])
        counts = np.diff(self.offsets)[index]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        flat = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - self.offsets[:-1][index], counts)
        return Lineage(self.roots[flat], self.edges[flat], offsets)

    @staticmethod
    def concat(parts: Sequence[tuple[Lineage | None, int]]) -> Lineage | None:
        """Join several (lineage, number of tuples) into one. None: these are not tracked."""
        if all(lineage is None for lineage, _ in parts):
            return None
        if len(parts) == 1:
            return parts[0][0]
        if all(lineage is not None and lineage.offsets is None for lineage, _ in parts):
            known = [lineage for lineage, _ in parts if lineage is not None]
            return Lineage(
                np.concatenate([x.roots for x in known]), np.concatenate([x.edges for x in known])
            )
        counts = []
        for lineage, n in parts:
            if lineage is None:
                counts.append(np.zeros(n, np.int64))
            elif lineage.offsets is None:
                counts.append(np.ones(n, np.int64))
            else:
                counts.append(np.diff(lineage.offsets))
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
        tracked = [lineage for lineage, _ in parts if lineage is not None]
        return Lineage(
            np.concatenate([x.roots for x in tracked]),
            np.concatenate([x.edges for x in tracked]),
            offsets,
        )


class Chunk:
    """Tuples of one stream of one component, in the order in which one task receives them.

    Attributes:
        rows: The values of each tuple.
        began: When its task began to run over it: wall clock seconds.
        pace: How long that took for each tuple, in seconds.
    """

    __slots__ = (
        "began",
        "component",
        "fields",
        "lineage_columns",
        "pace",
        "rows",
        "stream",
        "tasks",
    )

    def __init__(
        self,
        component: str,
        stream: str,
        fields: tuple[str, ...],
        tasks: int | Tasks,
        lineage: Lineage | None,
        rows: TupleRows,
    ) -> None:
        self.component = component
        self.stream = stream
        self.fields = fields
        self.tasks = tasks
        self.lineage_columns = lineage
        self.rows = rows
        self.began = self.pace = 0.0

    def __len__(self) -> int:
        return self.rows.n

    def take(self, at: Sequence[int]) -> Chunk:
        """Take some of the tuples, by their numbers."""
        index = np.array(at, np.int64)
        tasks = self.tasks if isinstance(self.tasks, int) else self.tasks[index]
        lineage = None if self.lineage_columns is None else self.lineage_columns.take(index)
        rows = self.rows.take(index)
        taken = Chunk(self.component, self.stream, self.fields, tasks, lineage, rows)
        taken.began = self.began
        return taken

    def source_task(self, i: int) -> int:
        """The id of the task that emitted tuple `i`."""
        return int(self.tasks) if isinstance(self.tasks, int) else int(self.tasks[i])

    def lineage(self, i: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """See `fulmen.api.tuples.Origin`. xor is 0: its task sums up what is anchored meanwhile."""
        if self.lineage_columns is None:
            return (), (), 0
        return (*self.lineage_columns.of(i), 0)

    def began_at(self, i: int) -> float:
        """About when `execute` was called with tuple `i`: wall clock seconds."""
        return self.began + i * self.pace


def merge(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Make one chunk of neighbours on one stream, for less work. The order of tuples stays."""
    merged: list[Chunk] = []
    for _, neighbours in groupby(chunks, _kind):
        run = list(neighbours)
        try:
            merged.append(run[0] if len(run) == 1 else _concat(run))
        except pa.ArrowInvalid:  # their dictionaries have more values than one index type counts
            merged += run
    return merged


def _kind(chunk: Chunk) -> tuple[Any, ...]:
    """The key of chunks that can be one: batches of different types stay as they are."""
    arrow = chunk.rows.arrow  # fields differ if those of some were combined
    return chunk.component, chunk.stream, chunk.fields, None if arrow is None else arrow.schema


def _concat(chunks: Sequence[Chunk]) -> Chunk:
    first = chunks[0]
    tasks = np.concatenate(
        [
            np.full(len(c), c.tasks, np.int32) if isinstance(c.tasks, int) else c.tasks
            for c in chunks
        ]
    )
    lineage = Lineage.concat([(c.lineage_columns, len(c)) for c in chunks])
    rows = TupleRows.concat([c.rows for c in chunks])
    return Chunk(first.component, first.stream, first.fields, tasks, lineage, rows)
