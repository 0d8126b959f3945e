"""Emitted rows as the columns that are sent to other workers.

A column of strings alone is one text (string_column.py). A column is Arrow if all its values are
exactly one of str, int (of 64 bits), float, bool or bytes, or None beside them. Anything else
stays a list and is pickled, because Arrow would change it: `[1, 2.5]` into floats, tuples into
lists, str among bytes into bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from fulmen.engine.tuples.chunk import Columns
from fulmen.engine.tuples.salvage import Reasons, deeply, salvaged
from fulmen.engine.tuples.sizes import rows_bytes
from fulmen.engine.tuples.string_column import StringColumn, split_text
from fulmen.errors import PASSED_ON

PICKLED, STRINGS = "p", "s"
TEXT = "t"
"""Strings alone, as a StringColumn."""

_TYPES: dict[type, tuple[str, pa.DataType]] = {
    str: (STRINGS, pa.large_string()),
    int: ("i", pa.int64()),
    float: ("f", pa.float64()),
    bool: ("b", pa.bool_()),
    bytes: ("y", pa.large_binary()),
}
_BY_CODE = dict(_TYPES.values())
_NONE = type(None)


class EncodedRows:
    """Rows as columns.

    Attributes:
        codes: The type of each column, a letter; `p`: any Python objects.
        columns: Each an Arrow array; a list if its code is `p`, a StringColumn if it is `t`.
        container: What a row is: "l" a list, "t" a tuple, or for each row whether it is a list.
        n: How many rows there are.
    """

    __slots__ = ("codes", "columns", "container", "n")

    def __init__(
        self, codes: str, columns: list[Any], container: str | Sequence[bool], n: int
    ) -> None:
        self.codes = codes
        self.columns = columns
        self.container = container
        self.n = n

    def __len__(self) -> int:
        return self.n

    @property
    def about_bytes(self) -> int:
        """About how many bytes the values take."""
        return sum(
            rows_bytes(column) if code == PICKLED else column.nbytes
            for code, column in zip(self.codes, self.columns, strict=True)
        )

    def take(self, index: npt.NDArray[Any]) -> EncodedRows:
        """The rows at `index`."""
        columns: list[Any] = []
        arrow_index, at = pa.array(index), None
        for code, column in zip(self.codes, self.columns, strict=True):
            if code == PICKLED:
                at = index.tolist() if at is None else at
                columns.append([column[i] for i in at])
            else:
                columns.append(column.take(arrow_index))
        container = self.container
        if not isinstance(container, str):
            container = [container[i] for i in index.tolist()]
        return EncodedRows(self.codes, columns, container, len(index))

    def part(self, a: int, b: int) -> EncodedRows:
        """The rows `a` to `b`."""
        container = self.container if isinstance(self.container, str) else self.container[a:b]
        return EncodedRows(self.codes, [column[a:b] for column in self.columns], container, b - a)

    def rows(self) -> Sequence[Any]:
        """The rows as Python objects."""
        if self.columns:
            return Columns([self.values(k) for k in range(len(self.codes))], self.container)
        return [[] if is_list else () for is_list in _kinds(self)]

    @staticmethod
    def concat(parts: Sequence[EncodedRows]) -> EncodedRows:
        """All rows of the same stream, one after another."""
        first = parts[0]
        if len(parts) == 1:
            return first
        container: str | Sequence[bool] = first.container
        if not isinstance(container, str) or any(p.container != container for p in parts):
            container = [is_list for p in parts for is_list in _kinds(p)]
        codes, columns = "", []
        for k, code in enumerate(first.codes):
            some = [p.columns[k] for p in parts]
            if code == PICKLED or any(p.codes[k] != code for p in parts):
                code, column = encode_column(list(chain.from_iterable(p.values(k) for p in parts)))
            elif code == TEXT:
                column = StringColumn.concat(some)
            else:
                column = pa.concat_arrays(some)
            codes += code
            columns.append(column)
        return EncodedRows(codes, columns, container, sum(p.n for p in parts))

    def values(self, k: int) -> list[Any]:
        """Column number `k` as Python objects."""
        column = self.columns[k]
        values: list[Any] = column if isinstance(column, list) else column.to_pylist()
        return values


def _kinds(encoded: EncodedRows) -> Sequence[bool]:
    container = encoded.container
    return (container == "l",) * encoded.n if isinstance(container, str) else container


def container_of(rows: Sequence[Sequence[Any]]) -> str | list[bool]:
    """Which kind of sequence the rows are; see `EncodedRows`. They arrive as they were emitted."""
    kinds = set(map(type, rows))
    if len(kinds) == 1:
        return "l" if kinds.pop() is list else "t"
    return [type(row) is list for row in rows]


def encode_column(values: list[Any]) -> tuple[str, Any]:
    """A column's code, and the column as `EncodedRows` has it."""
    if values and type(values[0]) is str:
        text = StringColumn.of(values)
        if text is not None:
            return TEXT, text
    types = set(map(type, values))
    types.discard(_NONE)
    if len(types) == 1:
        known = _TYPES.get(types.pop())
        if known is not None:
            try:
                return known[0], pa.array(values, known[1], from_pandas=False)
            except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
                pass  # an int beyond 64 bits, a str with a lone surrogate
    return PICKLED, values


def _listed(column: Sequence[Any]) -> list[Any]:
    return column if type(column) is list else list(column)


def encode(
    rows: Sequence[Sequence[Any]], container: str | Sequence[bool] | None = None
) -> EncodedRows:
    """Rows as columns.

    Args:
        rows: All of one length.
        container: See `EncodedRows`, if it is known.
    """
    if isinstance(rows, Columns):
        found = [encode_column(_listed(column)) for column in rows.columns]
        kind: str | Sequence[bool] = rows.container
    else:
        width = len(rows[0]) if rows else 0
        # zip(*rows) would make an iterator for each row: 3 times slower
        found = [encode_column([row[i] for row in rows]) for i in range(width)]
        kind = container_of(rows) if container is None else container
    return EncodedRows("".join(c for c, _ in found), [x for _, x in found], kind, len(rows))


_schemas: dict[str, pa.Schema] = {}


def _schema(codes: str) -> pa.Schema:
    """The schema of the columns that are sent as Arrow."""
    schema = _schemas.get(codes)
    if schema is None:
        schema = _schemas[codes] = pa.schema(
            [(str(i), _BY_CODE[code]) for i, code in enumerate(codes) if code in _BY_CODE]
        )
    return schema


def to_bytes(encoded: EncodedRows) -> tuple[str, list[bytes], bytes]:
    """What is sent: a code for each column, those that are no Arrow, and those that are.

    Raises:
        Exception: Whatever an author's `__reduce__` raises.
    """
    codes, others, arrays = "", [], []
    for code, column in zip(encoded.codes, encoded.columns, strict=True):
        if code == PICKLED:
            others.append(deeply(partial(pickle.dumps, column, 5)))
        elif code == TEXT:
            others.append(column.text())
        else:
            arrays.append(column)
        codes += code
    if not arrays:
        return codes, others, b""
    batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(codes))
    return codes, others, batch.serialize().to_pybytes()


def from_bytes(
    codes: str, container: str | Sequence[bool], n: int, others: list[bytes], arrow: pa.Buffer
) -> tuple[Sequence[Any], dict[int, Reasons]]:
    """The rows that `to_bytes` made these bytes of, and what can't be read, by column."""
    schema = _schema(codes)
    arrays = iter(pa.ipc.read_record_batch(arrow, schema).columns if len(schema) else ())
    rest = iter(others)
    columns: list[Any] = []
    unreadable: dict[int, Reasons] = {}
    for k, code in enumerate(codes):
        if code == TEXT:
            columns.append(split_text(next(rest)))
        elif code == PICKLED:
            pickled = next(rest)
            try:
                columns.append(pickle.loads(pickled))
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (an author's class may raise anything)
                values, unreadable[k] = salvaged(pickled)
                columns.append(values)
        else:
            columns.append(next(arrays))
    return EncodedRows(codes, columns, container, n).rows(), unreadable
