"""Emitted values as the groupings and the outbox see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fulmen.engine.tuples.chunk import Columns
from fulmen.engine.tuples.encoded_rows import EncodedRows, encode
from fulmen.engine.tuples.python_values import python_rows, shown_row, shown_rows
from fulmen.engine.tuples.string_column import StringColumn


class EmittedRows:
    """Emitted values: rows of Python objects, or Arrow. The other form is made when needed.

    Attributes:
        arrow: The record batch that was emitted, if one was.
    """

    __slots__ = ("_container", "_encoded", "_rows", "arrow")

    def __init__(
        self,
        rows: Sequence[Sequence[Any]] | None = None,
        arrow: pa.RecordBatch | None = None,
        container: str | None = None,
    ) -> None:
        """`container` as in `EncodedRows`, if it is known."""
        self._rows = rows
        self._container = container
        self._encoded: EncodedRows | None = None
        self.arrow = arrow

    def __len__(self) -> int:
        if self._rows is not None:
            return len(self._rows)
        assert self.arrow is not None
        return int(self.arrow.num_rows)

    def encode(self) -> EncodedRows:
        """Rows of Python objects as the columns that are sent."""
        if self._encoded is None:
            self._encoded = encode(self.rows, self._container)
        return self._encoded

    def column(self, i: int) -> list[Any] | StringColumn | pa.Array:
        """The values of field number `i`: encoded if they are that already."""
        if self._encoded is not None:
            return self._encoded.columns[i]
        if isinstance(self._rows, Columns):
            return list(self._rows.columns[i])
        if self._rows is not None:
            return [row[i] for row in self._rows]
        assert self.arrow is not None
        return self.arrow.column(i)

    def row(self, k: int) -> Sequence[Any]:
        """All values of row `k`."""
        if self._rows is None and len(self) > 1:
            return shown_row(self.arrow, k)
        return self.rows[k]

    def without_values(self) -> dict[int, str]:
        """What is wrong with rows that Python has no values for, by number."""
        if self._rows is not None or self.arrow is None:
            return {}
        rows, wrong = python_rows(self.arrow)
        if not wrong:
            self._rows = rows
        return wrong

    @property
    def rows(self) -> Sequence[Sequence[Any]]:
        """All rows as Python objects; see `shown_rows`."""
        if self._rows is None:
            assert self.arrow is not None
            self._rows = shown_rows(self.arrow)
        return self._rows

    def take(self, index: npt.NDArray[np.integer[Any]]) -> EmittedRows:
        """The rows at `index` alone."""
        if self.arrow is not None:
            return EmittedRows(arrow=self.arrow.take(index))
        rows = self.rows
        if isinstance(rows, Columns):
            return EmittedRows(rows.take(index.tolist()))
        return EmittedRows([rows[i] for i in index.tolist()], container=self._container)
