"""Rows whose values don't fit into an Arrow column with those of the others. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fulmen.errors import PASSED_ON

_SHOWN = (str, bytes, int, float, bool)
"""Types whose repr is known to do no harm."""
_CHARACTERS = 40

Values = Sequence[Any]


def fitting(
    fields: Sequence[str], columns: Sequence[Values]
) -> tuple[dict[int, str], pa.RecordBatch]:
    """A record batch of as many rows as fit together.

    Returns:
        What is wrong with each row that is left out, by its number, and the batch of the others.
    """
    wrong: dict[int, str] = {}
    kinds: list[pa.DataType | None] = []
    for name, values in zip(fields, columns, strict=True):
        misfits, kind = _misfits(values)
        kinds.append(kind)
        held = f"that of the other rows is {kind}" if kind is not None else "no other row has one"
        for row in misfits:
            wrong.setdefault(
                row,
                f"field {name!r} of row {row} is {_shown(values[row])}, but {held}. A batch that an"
                " ArrowBolt receives has one type for each column",
            )
    good = [row for row in range(len(columns[0]) if columns else 0) if row not in wrong]
    arrays = [
        pa.array([values[row] for row in good], kind or pa.null())
        for values, kind in zip(columns, kinds, strict=True)
    ]
    return wrong, pa.RecordBatch.from_arrays(arrays, names=list(fields))


def _misfits(values: Values) -> tuple[list[int], pa.DataType | None]:
    """Rows that are not of the type of most, and that type; None: no row has one."""
    by_type: defaultdict[type, list[int]] = defaultdict(list)
    for row, value in enumerate(values):
        if value is not None:
            by_type[type(value)].append(row)
    kind: pa.DataType | None = None
    kept: list[int] = []
    misfits: list[int] = []
    for rows in sorted(by_type.values(), key=len, reverse=True):
        both = kept + rows  # integers and floating-point numbers fit together, for example
        if (wider := _type_of([values[row] for row in both])) is not None:
            kept, kind = both, wider
            continue
        for row in rows:
            found = _type_of([values[row]], kind)
            if found is None:
                misfits.append(row)
            else:
                kept.append(row)
                kind = found
    return misfits, kind


def _type_of(values: Values, kind: pa.DataType | None = None) -> pa.DataType | None:
    """The type of a column of these values; None: there can't be one."""
    try:
        return pa.array(values, kind).type
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's objects may raise anything)
        return None


def _shown(value: Any) -> str:
    kind = type(value).__name__
    if type(value) not in _SHOWN:
        return f"of the type {kind}"
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a very large {kind}"
    return f"{text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + '…'} ({kind})"
