"""The values of some tuples, in whichever form they have; another is made where it is needed.

Emitted rows become columns when they leave their worker, and rows again when a bolt looks at each.
In between they are chosen, divided and joined as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from typing_extensions import override

from fulmen.engine.tuples.columns import Column, encoded, joined, listed
from fulmen.engine.tuples.python_values import python_rows, shown_row, shown_rows
from fulmen.engine.tuples.sizes import rows_bytes

Container = str | Sequence[bool]
"""The type of rows: "l" a list, "t" a tuple, or for each row whether it is a list."""


class TupleRows(Sequence[Any]):
    """A sequence of rows, each the values of one tuple.

    It has one of three forms: rows as they were emitted; a column for each field; an Arrow record
    batch. Of columns, a row is made when it is its turn. One that is not kept then leaves its
    memory to the next: twice as fast as a list of all rows.

    Attributes:
        n: How many rows there are.
        arrow: The record batch; None: the values are Python objects, or encoded ones.
        kept_columns: The column of each field in the form that it has; None: there is none yet.
    """

    __slots__ = (
        "_container",
        "_encoded",
        "_is_encoded",
        "_is_shared",
        "_rows",
        "arrow",
        "kept_columns",
        "n",
    )

    def __init__(self, rows: Sequence[Any]) -> None:
        """Rows as they were emitted, all of one length."""
        self.n = len(rows)
        self.arrow: pa.RecordBatch | None = None
        self._rows: Sequence[Any] | None = rows
        self.kept_columns: Sequence[Column] | None = None
        self._container: Container | None = None
        self._encoded: TupleRows | None = None
        self._is_encoded = self._is_shared = False

    @staticmethod
    def of_columns(
        columns: Sequence[Column],
        container: Container,
        n: int | None = None,
        *,
        is_encoded: bool = False,
    ) -> TupleRows:
        """The rows of these columns.

        Args:
            columns: One for each field.
            container: What each row is to be.
            n: How many rows there are; needed only if there may be no column.
            is_encoded: Whether the columns are as they are sent.
        """
        rows = TupleRows(())
        rows.n = len(columns[0]) if n is None else n
        rows._rows, rows.kept_columns, rows._container = None, columns, container
        rows._is_encoded = is_encoded
        return rows

    @staticmethod
    def of_arrow(batch: pa.RecordBatch) -> TupleRows:
        """The rows of a record batch."""
        rows = TupleRows(())
        rows.n, rows.arrow, rows._rows = batch.num_rows, batch, None
        return rows

    # As rows

    def share(self) -> None:
        """Have each who goes through the rows get lists of his own: there are several."""
        self._is_shared = True

    @override
    def __len__(self) -> int:
        return self.n

    @override
    def __iter__(self) -> Iterator[Any]:
        if self.kept_columns is None or self._rows is not None:
            kept = self._as_rows()
            if self._is_shared and self.arrow is None and self.container != "t":
                return iter([row[:] if type(row) is list else row for row in kept])
            return iter(kept)
        columns, container = self.columns, self.container
        if not columns:
            return iter([[] if is_list else () for is_list in self.kinds()])
        if container == "l" and len(columns) == 1:
            return ([value] for value in columns[0])  # a third quicker than by tuples
        rows = zip(*columns, strict=True)
        if container == "l":
            return map(list, rows)
        if container == "t":
            return rows
        pairs = zip(rows, container, strict=True)
        return (list(row) if is_list else row for row, is_list in pairs)

    @override
    def __getitem__(self, i: Any) -> Any:
        """One row; or the rows of a slice."""
        if isinstance(i, slice):
            return self.take(i)
        if self._rows is not None:
            return self._rows[i]
        if self.arrow is not None:
            return shown_row(self.arrow, range(self.n)[i])
        row = [column[i] for column in self.columns]
        container = self.container
        is_list = container == "l" if isinstance(container, str) else container[i]
        return row if is_list else tuple(row)

    def to_look_at(self) -> Sequence[Any]:
        """The rows for someone who neither keeps nor changes them: not copied, if there are any."""
        return self._rows if self._rows is not None else [*self]

    def _as_rows(self) -> Sequence[Any]:
        """See `shown_rows` for what Python has no value for."""
        if self._rows is None:
            self._rows = shown_rows(self.arrow)
        return self._rows

    def without_values(self) -> dict[int, str]:
        """Errors of rows that Python has no values for, by number."""
        if self.arrow is None or self._rows is not None:
            return {}
        rows, wrong = python_rows(self.arrow)
        if not wrong:
            self._rows = rows
        return wrong

    @property
    def container(self) -> Container:
        """The type of each row. They arrive as they were emitted."""
        if self._container is None:
            kinds = set(map(type, self._as_rows()))
            if len(kinds) == 1:
                self._container = "l" if kinds.pop() is list else "t"
            else:
                self._container = [type(row) is list for row in self._as_rows()]
        return self._container

    def kinds(self) -> Sequence[bool]:
        """Whether each row is a list."""
        container = self.container
        return (container == "l",) * self.n if isinstance(container, str) else container

    # As columns

    @property
    def is_by_column(self) -> bool:
        """Whether the values are kept by column, and are no Arrow."""
        return self._rows is None and self.arrow is None

    @property
    def columns(self) -> Sequence[list[Any]]:
        """The values of each field as Python objects."""
        if self.kept_columns is None:
            rows = self._as_rows()
            width = len(rows[0]) if self.n else 0
            # zip(*rows) would make an iterator for each row: 3 times slower
            self.kept_columns = [[row[i] for row in rows] for i in range(width)]
        elif any(type(column) is not list for column in self.kept_columns):
            self._is_encoded = False
            self.kept_columns = [listed(column) for column in self.kept_columns]
        return cast("Sequence[list[Any]]", self.kept_columns)

    def values(self, i: int) -> list[Any]:
        """The values of field number `i` as Python objects."""
        if self.kept_columns is None:
            return [row[i] for row in self._as_rows()]
        return self.columns[i]

    def column(self, i: int) -> Column:
        """The values of field number `i`: as they are sent, if they are that already."""
        if self._encoded is not None:
            return self._encoded.column(i)
        if self.kept_columns is not None:
            return self.kept_columns[i]
        if self.arrow is not None:
            return self.arrow.column(i)
        return [row[i] for row in self._as_rows()]

    def encoded(self) -> TupleRows:
        """The values as they are sent: each column, or the record batch."""
        if self._is_encoded or self.arrow is not None:
            return self
        if self._encoded is None:
            columns = self.kept_columns if self.kept_columns is not None else self.columns
            self._encoded = TupleRows.of_columns(
                [encoded(column) for column in columns],
                self.container,
                self.n,
                is_encoded=True,
            )
        return self._encoded

    def record_batch(self, fields: Sequence[str]) -> pa.RecordBatch:
        """The values as an Arrow record batch, with these names if they are no batch yet.

        Raises:
            pyarrow.ArrowException: The values of a column are not of one type.
        """
        if self.arrow is not None:
            return self.arrow
        columns = self.columns if self.n else [[]] * len(fields)
        return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names=list(fields))

    @property
    def about_bytes(self) -> int:
        """About how many bytes the values take."""
        if self.arrow is not None:
            return int(self.arrow.nbytes)
        if self.kept_columns is None:
            return rows_bytes(self._as_rows())
        columns = self.kept_columns
        return sum(rows_bytes(c) if isinstance(c, list) else int(c.nbytes) for c in columns)

    # Some of them, and several together

    def take(self, at: Any) -> TupleRows:
        """Take some of the rows, in the form that they have.

        Args:
            at: Their numbers, as an array of NumPy; or a slice of them.
        """
        is_slice = isinstance(at, slice)
        if self.arrow is not None:
            return TupleRows.of_arrow(self.arrow[at] if is_slice else self.arrow.take(at))
        numbers = range(self.n)[at] if is_slice else at.tolist()
        if self._rows is not None:
            rows = self._rows
            taken = TupleRows(rows[at] if is_slice else [rows[i] for i in numbers])
            taken._is_shared = self._is_shared
            if isinstance(self._container, str):
                taken._container = self._container
            return taken
        index = at if is_slice else None
        columns: list[Column] = []
        for column in self.kept_columns or ():
            if isinstance(column, list):
                columns.append(column[at] if is_slice else [column[i] for i in numbers])
            elif is_slice:
                columns.append(column[at])
            else:
                index = pa.array(at) if index is None else index
                columns.append(column.take(index))
        container = self.container
        if not isinstance(container, str):
            container = [container[i] for i in numbers]
        return TupleRows.of_columns(columns, container, len(numbers), is_encoded=self._is_encoded)

    @staticmethod
    def concat(parts: Sequence[TupleRows]) -> TupleRows:
        """Join the parts: in the form that they have, if all have the same.

        Args:
            parts: At least one. If they are record batches, they have one schema.

        Raises:
            pyarrow.ArrowInvalid: Dictionaries have more values than one index type counts.
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        if all(part.arrow is not None for part in parts):
            table = pa.Table.from_batches([part.arrow for part in parts]).combine_chunks()
            return TupleRows.of_arrow(table.to_batches()[0])
        if not all(part.is_by_column for part in parts):
            return TupleRows([row for part in parts for row in part])
        container: Container = first.container
        if not isinstance(container, str) or any(p.container != container for p in parts):
            container = [is_list for part in parts for is_list in part.kinds()]
        by_field = zip(*(part.kept_columns or () for part in parts), strict=True)
        columns = [joined(some) for some in by_field]
        n = sum(part.n for part in parts)
        is_encoded = all(not isinstance(column, list) for column in columns)
        return TupleRows.of_columns(columns, container, n, is_encoded=is_encoded)
