"""Columns of Arrow as Python values, though Python has nothing for some. Pure.

Python's times end with microseconds and with the year 9999, zones may be unknown here, and a text
may be no UTF-8. Each such value is found, so that its row alone is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = tuple[Any, ...]


def python_values(column: pa.Array) -> tuple[list[Any], dict[int, str]]:
    """The values of a column, and why Python has nothing for some, by number: these are None."""
    try:
        return column.to_pylist(), {}
    except Exception:  # noqa: BLE001 (Arrow has no common class for what it raises here)
        return _one_by_one(column)


def _one_by_one(column: pa.Array) -> tuple[list[Any], dict[int, str]]:
    values: list[Any] = [None] * len(column)
    wrong: dict[int, str] = {}
    for i in range(len(column)):
        try:
            values[i] = column[i].as_py()
        except Exception as error:  # noqa: BLE001 (see above)
            said = " ".join(str(error).partition(". Install ")[0].split())
            wrong[i] = f"Python has no value for this one of type {column.type} ({said})"
    return values, wrong


def have_python_values(batch: pa.RecordBatch) -> bool:
    """Whether Python has a value for each one of a batch; False: that is not known at once."""
    return all(map(_have_values, batch.columns))


_ALWAYS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal128,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
_IN_DAYS = -719_162, 2_932_896
"""The first day and the last one that Python has, from 1970 on."""
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def _have_values(column: pa.Array) -> bool:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _have_values(column.dictionary)
    if any(is_one(kind) for is_one in _ALWAYS):
        return True
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True
    if pa.types.is_date32(kind):
        return _are_between(column.cast(pa.int32()), *_IN_DAYS)
    if pa.types.is_timestamp(kind) and kind.unit in _PER_DAY and kind.tz in (None, "UTC"):
        per_day = _PER_DAY[kind.unit]
        last = (_IN_DAYS[1] + 1) * per_day - 1
        return _are_between(column.cast(pa.int64()), _IN_DAYS[0] * per_day, last)
    return False


def _are_between(column: pa.Array, first: int, last: int) -> bool:
    ends = pc.min_max(column)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (first <= least and most <= last)


def python_rows(batch: pa.RecordBatch) -> tuple[list[Row], dict[int, str]]:
    """The rows of a batch, and what is wrong with some, by number, with the name of the field."""
    columns, wrong = [], dict[int, str]()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values, reasons = python_values(column)
        columns.append(values)
        for i, reason in reasons.items():
            wrong.setdefault(i, f"field {name!r}: {reason}")
    return list(zip(*columns, strict=True)), wrong


def shown_row(batch: pa.RecordBatch, i: int) -> Row:
    """Show one row to people and dead letters: texts or bytes for what Python has no value for."""
    return tuple(_shown(column.slice(i, 1)) for column in batch.columns)


def shown_rows(batch: pa.RecordBatch) -> Sequence[Row]:
    """Show all rows in this way."""
    rows, wrong = python_rows(batch)
    for i in wrong:
        rows[i] = shown_row(batch, i)
    return rows


def _shown(one: pa.Array) -> Any:
    values, wrong = python_values(one)
    if not wrong:
        return values[0]
    is_text = pa.types.is_string(one.type) or pa.types.is_large_string(one.type)
    try:
        values, wrong = python_values(one.cast(pa.binary() if is_text else pa.string()))
    except pa.ArrowException:
        wrong = {0: "there is no text for it either"}
    if not wrong:
        return values[0]
    return f"a value of type {one.type} that Python has nothing for"
