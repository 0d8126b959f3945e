"""Kinds of values: those of different kinds never equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from numbers import Number
from typing import Any

_KINDS: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    str: "text",
    bytes: "bytes",
    date: "a date",
}
OF_TYPES: Mapping[str, str] = {
    "string": "text",
    "binary": "bytes",
    "base64": "bytes",
    "bool": "a boolean",
    "int32": "a number",
    "int64": "a number",
    "integer": "a number",
    "float32": "a number",
    "float64": "a number",
    "decimal": "a number",
    "date32": "a date",
}
"""What values of a declared type are, as far as that is sure."""


def kind_of(value: Any) -> str:
    """What a value may equal: values of different kinds never do."""
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    if isinstance(value, datetime):
        return f"a time with{'out' if value.tzinfo is None else ''} an offset"
    if isinstance(value, Number):
        return "a number"
    of = next((kind for base, kind in _KINDS.items() if isinstance(value, base)), None)
    return of or f"a {type(value).__name__}"


def misfit(key: Sequence[Any], kinds: Sequence[Iterable[str]]) -> tuple[int, str] | None:
    """Why a key can never be found in a table.

    Args:
        key: The value of each part.
        kinds: Of each part, the kinds of its values in the table; none: they are not known.

    Returns:
        Which part of the key it is, and what its values are in the table. None: it can be.
    """
    for i, (value, there) in enumerate(zip(key, kinds, strict=True)):
        if value is not None and there and kind_of(value) not in there:
            return i, " or ".join(there)
    return None
