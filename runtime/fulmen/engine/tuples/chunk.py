"""A chunk of tuples: what a task receives at once.

Routing and acking work on the columns; only an author's code sees single tuples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

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


class RangeLineage(ABC):
    """Which trees n tuples belong to, exactly one each, if trees are not told apart.

    A message that does not fail costs no more than its place in a range. As long as tuples stay in
    the worker where their trees began, and in that stage, nothing is noted of single ones: no edge
    ids are drawn, and no acks are sent. At the end of the batch there, all of them have been dealt
    with, so their trees have ended, but for those that have a value by then. A tuple that fails, or
    that leaves, has an edge id, which is in that value as it is in an acker's.
    """

    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n

    @abstractmethod
    def roots_at(self, at: Positions | None) -> Ids:
        """The root ids of the tuples at some positions; None: of all."""

    @abstractmethod
    def root_of(self, i: int) -> int:
        """The root id of tuple `i`."""

    @abstractmethod
    def add_edges(self, at: Positions | None, edges: Ids) -> None:
        """Have trees wait for edges, of the tuples at some positions; None: one of each."""

    def below(self, positions: Sequence[int] | npt.NDArray[Any]) -> RangeLineage:
        """The lineage of tuples that are each anchored to the one here at a position."""
        if type(positions) is range and positions == range(self.n):
            return self
        return AnchoredRange(self, positions)

    def take(self, index: npt.NDArray[Any]) -> RangeLineage:
        """The lineage of the tuples at `index`, in that order."""
        return AnchoredRange(self, index)

    def drawn(self, draw: Callable[[int], Ids]) -> Lineage:
        """The lineage of the tuples told apart, each with an edge.

        Args:
            draw: Draws so many edge ids.
        """
        edges = draw(self.n)
        self.add_edges(None, edges)
        return Lineage(self.roots_at(None), edges)

    def of(self, i: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Root and edge of tuple `i`, as Python ints. It has no edge: 0."""
        return (self.root_of(i),), (0,)


class RootRange(RangeLineage):
    """The messages that a task has emitted on one stream at once, with consecutive root ids.

    Attributes:
        first: The first of the ids.
        born: When they were emitted, in seconds of the wall clock.
        values: What their trees wait for: the XOR of the edges of each; None: for nothing.
    """

    __slots__ = ("born", "first", "values")

    def __init__(self, first: int, n: int) -> None:
        super().__init__(n)
        self.first = first
        self.born = 0.0
        self.values: Ids | None = None

    @override
    def roots_at(self, at: Positions | None) -> Ids:
        places = np.arange(self.n, dtype=np.uint64) if at is None else at.astype(np.uint64)
        return places + np.uint64(self.first)

    @override
    def root_of(self, i: int) -> int:
        return self.first + i

    @override
    def add_edges(self, at: Positions | None, edges: Ids) -> None:
        if self.values is None:
            self.values = np.zeros(self.n, np.uint64)
        if at is None:
            self.values ^= edges
        else:
            np.bitwise_xor.at(self.values, at, edges)


class AnchoredRange(RangeLineage):
    """Tuples that are each anchored to one of some others, or are copies of some."""

    __slots__ = ("_above", "_positions")

    def __init__(self, above: RangeLineage, positions: Sequence[int] | npt.NDArray[Any]) -> None:
        super().__init__(len(positions))
        self._above, self._positions = above, positions

    def _places(self, at: Positions | None) -> Positions:
        if not isinstance(self._positions, np.ndarray):
            self._positions = np.fromiter(self._positions, np.int64, self.n)
        return self._positions if at is None else self._positions[at]

    @override
    def roots_at(self, at: Positions | None) -> Ids:
        return self._above.roots_at(self._places(at))

    @override
    def root_of(self, i: int) -> int:
        return self._above.root_of(int(self._positions[i]))

    @override
    def add_edges(self, at: Positions | None, edges: Ids) -> None:
        self._above.add_edges(self._places(at), edges)


class JoinedRanges(RangeLineage):
    """The tuples of several lineages, one after another."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[RangeLineage]) -> None:
        super().__init__(sum(part.n for part in parts))
        self._parts = parts

    @override
    def roots_at(self, at: Positions | None) -> Ids:
        roots = np.concatenate([part.roots_at(None) for part in self._parts])
        return roots if at is None else roots[at]

    @override
    def root_of(self, i: int) -> int:
        for part in self._parts:
            if i < part.n:
                return part.root_of(i)
            i -= part.n
        raise IndexError(i)

    @override
    def add_edges(self, at: Positions | None, edges: Ids) -> None:
        if at is not None:
            told = np.zeros(self.n, np.uint64)
            np.bitwise_xor.at(told, at, edges)
            edges = told
        first = 0
        for part in self._parts:
            some = edges[first : first + part.n]
            if some.any():
                part.add_edges(None, some)
            first += part.n


def ended(ranges: Sequence[RootRange]) -> tuple[Ids, Ids, npt.NDArray[np.float64]]:
    """The roots of ranges that are over, what each tree still waits for, and when it began."""
    spans: list[list[int]] = []  # first and end of ranges that touch
    for one in ranges:
        if spans and spans[-1][1] == one.first:
            spans[-1][1] += one.n
        else:
            spans.append([one.first, one.first + one.n])
    roots = np.concatenate([np.arange(first, end, dtype=np.uint64) for first, end in spans])
    values, end = np.zeros(len(roots), np.uint64), 0
    for one in ranges:
        if one.values is not None:
            values[end : end + one.n] = one.values
        end += one.n
    born = np.repeat([one.born for one in ranges], [one.n for one in ranges])
    return roots, values, born


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
        lineage: Lineage | RangeLineage | None,
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
    is_range = isinstance(chunk.lineage_columns, RangeLineage)
    schema = None if arrow is None else arrow.schema
    return chunk.component, chunk.stream, chunk.fields, is_range, schema


def _concat(chunks: Sequence[Chunk]) -> Chunk:
    first = chunks[0]
    tasks = np.concatenate(
        [
            np.full(len(c), c.tasks, np.int32) if isinstance(c.tasks, int) else c.tasks
            for c in chunks
        ]
    )
    lineages = [c.lineage_columns for c in chunks]
    ranges = [lineage for lineage in lineages if isinstance(lineage, RangeLineage)]
    lineage: Lineage | RangeLineage | None = JoinedRanges(ranges) if ranges else None
    if not ranges:
        known = [None if isinstance(x, RangeLineage) else x for x in lineages]
        lineage = Lineage.concat([(x, len(c)) for x, c in zip(known, chunks, strict=True)])
    rows = TupleRows.concat([c.rows for c in chunks])
    return Chunk(first.component, first.stream, first.fields, tasks, lineage, rows)
