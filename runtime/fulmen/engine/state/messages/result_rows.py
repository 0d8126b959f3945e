"""Results that were emitted together, by column: a window that ends has as many as it has keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from fulmen.engine.tuples.tuple_rows import Container, TupleRows

Parts = tuple[str, Sequence[Any], Container, Any]
"""The stream, the columns, what each row is, and what each result needs besides."""


class ResultRows(Sequence[Any]):
    """Results of one stream: as a list of them is, but it can't be changed.

    A list would be two more objects for each result, which are made, pickled, and looked at by the
    garbage collector.
    """

    __slots__ = ("_more", "_rows", "_stream")

    def __init__(self, stream: str, rows: TupleRows, more: Any) -> None:
        self._stream, self._rows, self._more = stream, rows, more

    @property
    def parts(self) -> Parts:
        """The columns that are written in place of the list."""
        return self._stream, self._rows.columns, self._rows.container, self._more

    @staticmethod
    def of(stream: str, columns: Sequence[Any], container: Container, more: Any) -> ResultRows:
        """Make it from its parts."""
        return ResultRows(stream, TupleRows.of_columns(columns, container), more)

    @override
    def __len__(self) -> int:
        return len(self._rows)

    @override
    def __iter__(self) -> Iterator[Any]:
        return ((self._stream, row, self._more) for row in self._rows)

    @override
    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return list(ResultRows(self._stream, self._rows[i], self._more))
        return self._stream, self._rows[i], self._more
