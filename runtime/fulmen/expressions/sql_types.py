"""The types of expressions, and which of them a value or a declared field has."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from types import NoneType
from typing import Final


class SqlType(enum.Enum):
    """A type of SQL. Every integer is a BIGINT, and every float a DOUBLE.

    `UNKNOWN` is that of a field of which nothing is declared: it is known when a row is there.
    `OTHER` is a value that SQL has no type for here, such as an object: it can be passed on, and so
    can a `LIST`, whatever is in it.
    """

    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    VARCHAR = "VARCHAR"
    BLOB = "BLOB"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    LIST = "LIST"
    OTHER = "OTHER"
    UNKNOWN = "UNKNOWN"


OF_VALUES: Final[Mapping[type, SqlType]] = {
    NoneType: SqlType.NULL,
    bool: SqlType.BOOLEAN,
    int: SqlType.BIGINT,
    float: SqlType.DOUBLE,
    Decimal: SqlType.DECIMAL,
    str: SqlType.VARCHAR,
    bytes: SqlType.BLOB,
    date: SqlType.DATE,
    time: SqlType.TIME,
    datetime: SqlType.TIMESTAMP,
    list: SqlType.LIST,
    tuple: SqlType.LIST,
}
"""The type of a value, by its class. Any other class, one derived from these too, is `OTHER`."""

_DECLARED: Final[Mapping[str, SqlType]] = {
    "bool": SqlType.BOOLEAN,
    "int32": SqlType.BIGINT,
    "int64": SqlType.BIGINT,
    "integer": SqlType.BIGINT,
    "float32": SqlType.DOUBLE,
    "float64": SqlType.DOUBLE,
    "decimal": SqlType.DECIMAL,
    "string": SqlType.VARCHAR,
    "binary": SqlType.BLOB,
    "base64": SqlType.BLOB,
    "date32": SqlType.DATE,
    "time": SqlType.TIME,
    "timestamp": SqlType.TIMESTAMP,
}
_NAMES: Final[Mapping[SqlType, str]] = {
    SqlType.BOOLEAN: "bool",
    SqlType.BIGINT: "int64",
    SqlType.DOUBLE: "float64",
    SqlType.DECIMAL: "decimal",
    SqlType.VARCHAR: "string",
    SqlType.BLOB: "binary",
    SqlType.DATE: "date32",
    SqlType.TIME: "time",
    SqlType.TIMESTAMP: "timestamp",
}

_LIST: Final = "list("

UNCOMPARED: Final = (SqlType.LIST, SqlType.OTHER)
"""The types of values that are not compared, and have no text."""

NUMBERS: Final = (SqlType.BIGINT, SqlType.DECIMAL, SqlType.DOUBLE)
"""The types of numbers. Of two of them, the later one can have both."""


def declared_type(name: str | None) -> SqlType:
    """The type of a field that is declared as `name` in `Stream.types`; None: it is not."""
    if element_name(name) is not None:
        return SqlType.LIST
    return _DECLARED.get(name or "", SqlType.UNKNOWN)


def declared_name(of: SqlType, element: SqlType = SqlType.UNKNOWN) -> str | None:
    """How `Stream.types` names a type; None: it has no name for it.

    Args:
        of: The type.
        element: The type of the values, if it is a list.
    """
    if of is SqlType.LIST and element in _NAMES:
        return list_name(_NAMES[element])
    return _NAMES.get(of)


def list_name(element: str) -> str:
    """How `Stream.types` names a list of values whose type has this name."""
    return f"{_LIST}{element})"


def element_name(name: str | None) -> str | None:
    """The name of the type of a list's values; None: it is no list, or nothing is known of them."""
    is_list = name is not None and name.startswith(_LIST)
    return name[len(_LIST) : -1] if name is not None and is_list else None


def common(types: Iterable[SqlType]) -> SqlType | None:
    """The type that has the values of all these types; None: there is none.

    NULL is of every type.
    """
    left: SqlType = SqlType.NULL
    for right in types:
        if left in (right, SqlType.NULL):
            left = right
        elif right is SqlType.NULL:
            continue
        elif SqlType.UNKNOWN in (left, right):
            left = SqlType.UNKNOWN
        elif left in NUMBERS and right in NUMBERS:
            left = max(left, right, key=NUMBERS.index)
        elif {left, right} == {SqlType.DATE, SqlType.TIMESTAMP}:
            left = SqlType.TIMESTAMP
        else:
            return None
    return left
