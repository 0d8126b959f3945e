"""Reads values, also those that Python's types can't hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader, Transformer
from psycopg.types.array import ArrayLoader
from psycopg.types.multirange import MultirangeInfo
from psycopg.types.range import RangeInfo
from psycopg.types.string import TextLoader

from fulmen.connectors.formats import Malformed, unread
from fulmen.connectors.formats.exact import document
from fulmen.connectors.formats.options import types_of
from fulmen.connectors.sql.options import Fields
from fulmen.errors import PASSED_ON
from fulmen.services.errors import StoreRefused

OUT_OF_RANGE = ("date", "timestamp", "timestamptz", "time", "timetz", "interval")
"""Types with values that Python's have not, such as infinity."""
TEXT = psycopg.pq.Format.TEXT
DOCUMENTS = [psycopg.adapters.types[name] for name in ("json", "jsonb")]
OF_DIMENSIONS = (b"{{", b"[")
"""How arrays begin that have several dimensions, or do not begin at 1."""
INTERVAL = psycopg.adapters.types["interval"].oid
OF_NO_LENGTH = (b"mon", b"year")
"""Units of intervals that psycopg would take for 30 and 365 days. Python's have none such."""
TIMES = ("date32", "time", "timestamp", "duration")
"""What a topology's file calls them."""

_KINDS = {
    "string": ("text", "varchar", "bpchar", "name"),
    "binary": ("bytea",),
    "base64": ("bytea",),
    "bool": ("bool",),
    "int32": ("int2", "int4"),
    "int64": ("int2", "int4", "int8"),
    "integer": ("int2", "int4", "int8"),
    "float32": ("float4",),
    "float64": ("float4", "float8"),
    "decimal": ("numeric",),
    "date32": ("date",),
    "time": ("time", "timetz"),
    "timestamp": ("timestamp", "timestamptz"),
    "duration": ("interval",),
    "uuid": ("uuid",),
    "json": ("json", "jsonb"),
}
"""The types of PostgreSQL whose values are of a type that a topology's file names."""


def check_types(db: psycopg.Connection[Any], where: str, select: str, fields: Fields) -> None:
    """See that columns are of the types that a source says, if it says any.

    Raises:
        StoreRefused: One is not.
    """
    if not isinstance(fields, dict):
        return
    columns = db.execute(f"{select} LIMIT 0", []).description or []
    for (name, kind), column in zip(fields.items(), columns, strict=True):
        info = psycopg.adapters.types.get(column.type_code)
        is_array = info is not None and column.type_code == info.array_oid
        if info is None:  # such as an enum, or citext: emitted as text
            is_fit, said = kind == "string", "of a type whose values are text"
        else:
            is_fit = kind == "json" if is_array else info.name in _KINDS[kind]
            said = f"{info.name}[]" if is_array else info.name
        if not is_fit:
            raise StoreRefused(
                where,
                f"column {name!r} is {said}, which is no {kind}",
                "Correct the type in fields, or leave the types out.",
            )


class TimeFields:
    """The fields that are dates or times by what the topology's file says."""

    def __init__(self, fields: Fields) -> None:
        types = types_of(fields)
        named = [(i, name, types.get(name, "")) for i, name in enumerate(fields)]
        self._fields = [field for field in named if field[2] in TIMES]
        self._width = len(named)

    def check(self, values: list[Any]) -> None:
        """See that a row has values of these types. Those of others were compared at the start.

        Args:
            values: Of the row, as `rows_of` has it.

        Raises:
            Malformed: One can't be read, or is text, since Python has no such date or time.
        """
        if len(values) > self._width:
            raise values.pop()
        for i, name, kind in self._fields:
            if type(values[i]) is str:
                raise Malformed(f"field {name!r}: {values[i]!r} is no {kind} that Python can hold")

    def check_each(self, rows: Sequence[list[Any]]) -> Sequence[list[Any]]:
        """See that all rows have, which are not changed. Gives them.

        Raises:
            Malformed: One has not.
        """
        if set(map(len, rows)) != {self._width}:
            raise Malformed("one can't be read")
        if self._fields:
            for values in rows:
                self.check(values)
        return rows


def cursor_of(db: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    """A cursor that gives the text of a value that Python can't hold: no row may stop a source."""
    cursor = db.cursor()
    for oid, loader in _loaders():
        cursor.adapters.register_loader(oid, loader)
    return cursor


@cache
def _loaders() -> Sequence[tuple[int, type[Loader]]]:
    """The loaders of such a cursor, by type: looked for once, as that takes as long as a query."""
    types = psycopg.adapters.types
    # ranges have psycopg's own classes, which nothing else can write
    found: list[tuple[int, type[Loader]]] = [
        (info.oid, TextLoader) for info in types if isinstance(info, RangeInfo | MultirangeInfo)
    ]
    for info in DOCUMENTS:
        found.append((info.oid, _Document))
        found.append((info.array_oid, type("Documents", (_Documents,), {"base_oid": info.oid})))
    for name in OUT_OF_RANGE:
        oid = types[name].oid
        loader = psycopg.adapters.get_loader(oid, TEXT)
        if loader is not None:
            found.append((oid, _lenient(loader)))
    return found


def rows_of(cursor: psycopg.Cursor[Any]) -> list[Sequence[Any]]:
    """The rows that a query has found: none may stop a source.

    What can't be read of a row is text. Behind the values of such a row is a Malformed, which says
    why.
    """
    try:
        return cursor.fetchall()
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (of a loader; a query itself fails when it is sent)
        return [_row(cursor, i) for i in range(cursor.rowcount)]


def _row(cursor: psycopg.Cursor[Any], at: int) -> list[Any]:
    """Read one row of a result, value by value."""
    result, transformer = cursor.pgresult, Transformer.from_context(cursor)
    assert result is not None
    values: list[Any] = []
    wrong: list[Malformed] = []
    for i, column in enumerate(cursor.description or ()):
        data = result.get_value(at, i)
        value: Any = None
        if data is not None:
            try:
                value = transformer.get_loader(column.type_code, TEXT).load(data)
            except BaseException as error:  # noqa: BLE001 (of any loader)
                value = data.decode(errors="backslashreplace")
                wrong.append(Malformed(f"field {column.name!r}: {unread(error)}"))
        values.append(value)
    return values + wrong[:1]


class _Document(Loader):
    def load(self, data: Buffer) -> Any:
        try:
            return document(bytes(data))
        except ValueError as error:
            raise Malformed(f"its JSON can't be read: {error}") from None


class _Documents(ArrayLoader):
    """An array of JSON, whose values may be lists: so there is no telling what is a dimension."""

    def load(self, data: Buffer) -> Any:
        if bytes(data[:2]).startswith(OF_DIMENSIONS):
            raise Malformed("an array of JSON can't have dimensions or bounds")
        return super().load(data)


def _lenient(exact: type[Any]) -> type[Loader]:
    class Lenient(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._has_units = oid == INTERVAL
            self._load = exact(oid, context).load

        def load(self, data: Buffer) -> Any:
            if self._has_units and any(unit in bytes(data) for unit in OF_NO_LENGTH):
                return bytes(data).decode()
            try:
                return self._load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return Lenient
