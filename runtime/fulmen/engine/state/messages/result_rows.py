"""Results that were emitted together, as columns: a window that ends has as many as it has keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from fulmen.engine.tuples.chunk import Columns

Parts = tuple[str, Sequence[Sequence[Any]], str, Any]
"""The stream, the columns, the container (see `Columns`), and what each result needs besides."""


class ResultRows(Sequence[Any]):
    """Results of one stream: as a list of them is, but it can't be changed.

    A list would be two more objects for each result, which are made, pickled, and looked at by the
    garbage collector.

    Attributes:
        parts: What is written in place of the list.
    """

    __slots__ = ("_rows", "parts")

    def __init__(self, stream: str, columns: Sequence[Any], container: str, more: Any) -> None:
        self.parts: Parts = stream, columns, container, more
        self._rows = Columns(columns, container)

    @override
    def __len__(self) -> int:
        return len(self._rows)

    @override
    def __iter__(self) -> Iterator[Any]:
        stream, _, _, more = self.parts
        return ((stream, row, more) for row in self._rows)

    @override
    def __getitem__(self, i: Any) -> Any:
        stream, columns, container, more = self.parts
        if isinstance(i, slice):
            return list(ResultRows(stream, [column[i] for column in columns], container, more))
        return stream, self._rows[i], more
