"""A chunk of tuples, column by column: what a task receives at once.

Routing and acking work on the columns; only an author's code sees single tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from fulmen.engine.tuples.python_values import python_rows, shown_row, shown_rows

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
        """One lineage of several (lineage, number of tuples). None: these are not tracked."""
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

    The values are rows of Python objects or an Arrow record batch; the other form is made when it
    is asked for.

    Attributes:
        began: When its task began to run over it: wall clock seconds.
        pace: How long that took for each tuple, in seconds.
    """

    __slots__ = (
        "_batch",
        "_rows",
        "began",
        "component",
        "fields",
        "lineage_columns",
        "n",
        "pace",
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
        rows: Sequence[Sequence[Any]] | None = None,
        batch: pa.RecordBatch | None = None,
    ) -> None:
        self.component = component
        self.stream = stream
        self.fields = fields
        self.tasks = tasks
        self.lineage_columns = lineage
        self._rows = rows
        self._batch = batch
        self.began = self.pace = 0.0
        self.n = len(rows) if rows is not None else (batch.num_rows if batch is not None else 0)

    def __len__(self) -> int:
        return self.n

    @property
    def is_arrow(self) -> bool:
        """Whether the values came as Arrow."""
        return self._rows is None

    @property
    def rows(self) -> Sequence[Sequence[Any]]:
        """The values of each tuple; of what came as Arrow, see `as_rows`."""
        if self._rows is None:
            assert self._batch is not None
            self._rows = shown_rows(self._batch)
        return self._rows

    def as_rows(self) -> tuple[Chunk, dict[int, str]]:
        """The tuples that Python has values for, and what is wrong with the others, by number."""
        if self._rows is not None:
            return self, {}
        assert self._batch is not None
        rows, wrong = python_rows(self._batch)
        if not wrong:
            self._rows = rows
            return self, {}
        kept = np.array([i for i in range(self.n) if i not in wrong], np.int64)
        return self._taken(kept, [rows[i] for i in kept.tolist()]), wrong

    def take(self, at: Sequence[int]) -> Chunk:
        """Some of the tuples, by their numbers."""
        taken = self._taken(np.array(at, np.int64), [self.rows[i] for i in at])
        taken.began = self.began
        return taken

    def _taken(self, at: Positions, rows: list[Any]) -> Chunk:
        tasks = self.tasks if isinstance(self.tasks, int) else self.tasks[at]
        lineage = None if self.lineage_columns is None else self.lineage_columns.take(at)
        return Chunk(self.component, self.stream, self.fields, tasks, lineage, rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """The values as an Arrow record batch.

        Raises:
            pyarrow.ArrowException: The values of a column are not of one type.
        """
        if self._batch is None:
            rows = self.rows
            columns: Any = [()] * len(self.fields)
            if isinstance(rows, Columns):
                columns = rows.columns
            elif self.n:
                columns = list(zip(*rows, strict=True))
            self._batch = pa.RecordBatch.from_arrays(
                [pa.array(c) for c in columns], names=list(self.fields)
            )
        return self._batch

    def shown(self, i: int) -> Sequence[Any]:
        """The values of one tuple, for people; see `shown_row`."""
        if self._rows is not None:
            return self._rows[i]
        assert self._batch is not None
        return shown_row(self._batch, i)

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


class Columns(Sequence[Any]):
    """Rows that are kept as columns.

    A row is made when it is its turn. One that is not kept then leaves its memory to the next:
    twice as fast as a list of all rows.

    Attributes:
        columns: The values of each field; at least one.
        container: What a row is: "l" a list, "t" a tuple, or for each row whether it is a list.
    """

    __slots__ = ("columns", "container")

    def __init__(self, columns: Sequence[Sequence[Any]], container: str | Sequence[bool]) -> None:
        self.columns = columns
        self.container = container

    @override
    def __len__(self) -> int:
        return len(self.columns[0])

    @override
    def __iter__(self) -> Iterator[Any]:
        if self.container == "l" and len(self.columns) == 1:
            return ([value] for value in self.columns[0])  # a third quicker than by tuples
        rows = zip(*self.columns, strict=True)
        if self.container == "l":
            return map(list, rows)
        if self.container == "t":
            return rows
        pairs = zip(rows, self.container, strict=True)
        return (list(row) if is_list else row for row, is_list in pairs)

    @override
    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return list(self)[i]
        row = [column[i] for column in self.columns]
        is_list = self.container == "l" if isinstance(self.container, str) else self.container[i]
        return row if is_list else tuple(row)

    def take(self, index: Sequence[int]) -> Columns:
        """The rows at `index`."""
        container = self.container
        if not isinstance(container, str):
            container = [container[i] for i in index]
        return Columns([[column[i] for i in index] for column in self.columns], container)

    @staticmethod
    def concat(parts: Sequence[Columns]) -> Columns | None:
        """All rows, one after another; None if they are not of one kind."""
        container = parts[0].container
        if not isinstance(container, str) or any(p.container != container for p in parts):
            return None
        columns = zip(*(p.columns for p in parts), strict=True)
        return Columns([list(chain.from_iterable(c)) for c in columns], container)


def merge(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Make one chunk of neighbours on one stream, for less work. The order of tuples stays."""
    merged: list[Chunk] = []
    run: list[Chunk] = []
    for chunk in chunks:
        if run and not _alike(run[0], chunk):
            merged += _merged(run)
            run = []
        run.append(chunk)
    return merged + _merged(run)


def _merged(chunks: list[Chunk]) -> list[Chunk]:
    try:
        return [_concat(chunks)] if chunks else []
    except pa.ArrowInvalid:  # their dictionaries have more values than one index type counts
        return chunks


def _alike(one: Chunk, other: Chunk) -> bool:
    """Whether they can be one chunk. Batches of different types stay as they were sent."""
    if (one.component, one.stream, one.is_arrow) != (other.component, other.stream, other.is_arrow):
        return False
    if one.fields != other.fields:  # those of the one were combined
        return False
    return not one.is_arrow or one.batch.schema.equals(other.batch.schema)


def _concat(chunks: Sequence[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    first = chunks[0]
    tasks = np.concatenate(
        [
            np.full(len(c), c.tasks, np.int32) if isinstance(c.tasks, int) else c.tasks
            for c in chunks
        ]
    )
    lineage = Lineage.concat([(c.lineage_columns, len(c)) for c in chunks])
    if first.is_arrow:
        table = pa.Table.from_batches([c.batch for c in chunks]).combine_chunks()
        batch = table.to_batches()[0]
        return Chunk(first.component, first.stream, first.fields, tasks, lineage, batch=batch)
    parts = [chunk.rows for chunk in chunks]
    known = [rows for rows in parts if isinstance(rows, Columns)]
    rows = Columns.concat(known) if len(known) == len(parts) else None
    if rows is None:
        rows = [row for some in parts for row in some]  # type: ignore[assignment]
    return Chunk(first.component, first.stream, first.fields, tasks, lineage, rows=rows)
