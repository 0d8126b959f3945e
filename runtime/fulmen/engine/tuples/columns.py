"""A column of values: a list of Python objects, or what is sent of it.

A column of strings alone is sent as one text (string_column.py). It is sent as Arrow if all its
values are exactly one of str, int (of 64 bits), float, bool or bytes, or None beside them. Anything
else stays a list and is pickled, because Arrow would change it: `[1, 2.5]` into floats, tuples into
lists, str among bytes into bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from fulmen.engine.tuples.salvage import Reasons, deeply, salvaged
from fulmen.engine.tuples.string_column import StringColumn
from fulmen.errors import PASSED_ON

Column: TypeAlias = list[Any] | StringColumn | pa.Array

_PICKLED, _TEXT = "p", "t"
_TYPES: dict[type, pa.DataType] = {
    str: pa.large_string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.large_binary(),
}
_BY_CODE = dict(zip("sifby", _TYPES.values(), strict=True))
_CODES = {kind: code for code, kind in _BY_CODE.items()}


def listed(column: Column) -> list[Any]:
    """The values as Python objects."""
    values: list[Any] = column if isinstance(column, list) else column.to_pylist()
    return values


def encoded(column: Column) -> Column:
    """The column as it is sent."""
    if not isinstance(column, list):
        return column
    if column and type(column[0]) is str:
        text = StringColumn.of(column)
        if text is not None:
            return text
    types = set(map(type, column))
    types.discard(type(None))
    if len(types) == 1 and (known := _TYPES.get(types.pop())) is not None:
        try:
            return pa.array(column, known, from_pandas=False)
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            pass  # an int beyond 64 bits, a str with a lone surrogate
    return column


def joined(columns: Sequence[Column]) -> Column:
    """Join all columns, one after another."""
    if len(columns) == 1:
        return columns[0]
    texts = [column for column in columns if isinstance(column, StringColumn)]
    if len(texts) == len(columns):
        return StringColumn.concat(texts)
    types = {column.type if isinstance(column, pa.Array) else None for column in columns}
    if len(types) == 1 and None not in types:
        return pa.concat_arrays(columns)
    return list(chain.from_iterable(map(listed, columns)))


@cache
def _schema(codes: str) -> pa.Schema:
    """The schema of the columns that are sent as Arrow."""
    return pa.schema([(str(i), _BY_CODE[code]) for i, code in enumerate(codes) if code in _BY_CODE])


def to_bytes(columns: Sequence[Column]) -> tuple[str, list[bytes], bytes]:
    """Encode columns: a code for each, those that are no Arrow, those that are.

    Raises:
        Exception: Whatever an author's `__reduce__` raises.
    """
    codes = ""
    others: list[bytes] = []
    arrays: list[pa.Array] = []
    for column in columns:
        if isinstance(column, list):
            codes += _PICKLED
            others.append(deeply(partial(pickle.dumps, column, 5)))
        elif isinstance(column, StringColumn):
            codes += _TEXT
            others.append(column.text)
        else:
            codes += _CODES[column.type]
            arrays.append(column)
    if not arrays:
        return codes, others, b""
    batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(codes))
    return codes, others, batch.serialize().to_pybytes()


def from_bytes(
    codes: str, others: Sequence[bytes], arrow: pa.Buffer
) -> tuple[list[Column], dict[int, Reasons]]:
    """The columns that `to_bytes` made these bytes of, and what can't be read, by column."""
    schema = _schema(codes)
    arrays = iter(pa.ipc.read_record_batch(arrow, schema).columns if len(schema) else ())
    rest = iter(others)
    columns: list[Column] = []
    unreadable: dict[int, Reasons] = {}
    for k, code in enumerate(codes):
        if code == _TEXT:
            columns.append(StringColumn(text=next(rest)))
        elif code == _PICKLED:
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
    return columns, unreadable
