"""Lookups in tables of PostgreSQL, which are asked for the keys that tuples have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field, model_validator
from typing_extensions import override

from fulmen.connectors.base.lookup.bolt import TableLookup
from fulmen.connectors.base.lookup.table import AskedTable, UnreadRow
from fulmen.connectors.formats import Malformed
from fulmen.connectors.postgres.database import PostgresDatabase, escaped
from fulmen.connectors.postgres.loading import TimeFields, check_types, cursor_of, rows_of
from fulmen.connectors.postgres.options import Dsn
from fulmen.connectors.sql.lookup import SqlLookupOptions
from fulmen.services.sql.names import listed, qualified, quoted
from fulmen.visible import is_text

_LARGEST = (1 << 63) - 1


class PostgresLookupOptions(SqlLookupOptions):
    """Options of a PostgresLookup."""

    dsn: Dsn
    """How to connect, as libpq takes it: `postgresql://user:password@host/database`."""
    reload_seconds: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    """For how long the rows of a key are remembered, so old they may be at most."""

    @property
    @override
    def is_asked(self) -> bool:
        return True

    @model_validator(mode="after")
    def _can_be_asked(self) -> PostgresLookupOptions:
        for name in self.pairs.values():
            if (kind := self.types.get(name)) not in _ASKABLE:
                what = "has no type" if kind is None else f"is {kind}"
                raise ValueError(
                    f"key: column {name!r} {what}. Write columns as a mapping in which it is one"
                    f" of {', '.join(_ASKABLE)}"
                )
        return self


class PostgresLookup(TableLookup):
    """Completes tuples with the rows of a table or query, which is asked for their keys."""

    config_model = PostgresLookupOptions

    @override
    def table(self, options: PostgresLookupOptions) -> AskedTable:
        return PostgresAskedTable(options)


class PostgresAskedTable(AskedTable):
    """A table or query."""

    tells_changes = False

    def __init__(self, options: PostgresLookupOptions) -> None:
        what = f"table {options.table!r}" if options.table else "the query"
        self._database = PostgresDatabase(what, options.dsn, reads=True, writes=False)
        self._columns, names = options.columns_, options.columns
        source = qualified(options.table) if options.table else f"({options.query})"
        self._source = escaped(f"SELECT {listed(names)} FROM {source} AS t")
        key = [*options.pairs.values()]
        self._key_at = [names.index(name) for name in key]
        kinds = [_ASKABLE[options.types[name]] for name in key]
        self._asked: list[Callable[[Any], Any]] = [asked for _, asked in kinds]
        parts = ", ".join(f"k{i}" for i in range(len(key)))
        lists = ", ".join(f"%s::{of}[]" for of, _ in kinds)
        equal = " AND ".join(f"t.{quoted(name)} = k{i}" for i, name in enumerate(key))
        joined = f"JOIN unnest({lists}) AS asked ({parts}) ON {escaped(equal)}"
        columns = ", ".join(f"t.{quoted(name)}" for name in names)
        self._select = f"SELECT {escaped(columns)} FROM {escaped(source)} AS t {joined}"
        self._times = TimeFields(self._columns)

    @override
    def check(self) -> None:
        with self._database.opening() as db:
            check_types(db, self._database.where, self._source, self._columns)
            db.execute(f"EXPLAIN {self._select}", [[] for _ in self._asked])

    @override
    def version(self) -> None:
        """Nothing: it does not tell."""

    @override
    def rows_of(self, keys: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any] | UnreadRow]:
        asked = [
            values
            for key in keys
            if None not in (values := [of(v) for of, v in zip(self._asked, key, strict=True)])
        ]
        if asked:
            with self._database.transaction() as db:
                lists = [list(column) for column in zip(*asked, strict=True)]
                rows = rows_of(cursor_of(db).execute(self._select, lists))
            yield from map(self._read, rows)

    def _read(self, row: Sequence[Any]) -> Sequence[Any] | UnreadRow:
        values = list(row)
        try:
            self._times.check(values)
        except Malformed as error:
            return UnreadRow([values[i] for i in self._key_at], f"a row of the table: {error}")
        return values


def _whole(value: Any) -> int | None:
    if isinstance(value, int | float | Decimal) and -_LARGEST <= value <= _LARGEST:
        return int(value) if int(value) == value else None
    return None


def _decimal(value: Any) -> Decimal | None:
    return Decimal(value) if isinstance(value, int | float | Decimal) else None


def _float(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float | Decimal) else None
    except OverflowError:
        return None
    return number if number == value else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and is_text(value) and "\0" not in value else None


def _boolean(value: Any) -> bool | None:
    return bool(value) if value in (True, False) else None


def _date(value: Any) -> date | None:
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


_ASKABLE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "string": ("text", _text),
    "int32": ("bigint", _whole),
    "int64": ("bigint", _whole),
    "integer": ("bigint", _whole),
    "float64": ("double precision", _float),
    "decimal": ("numeric", _decimal),
    "bool": ("boolean", _boolean),
    "date32": ("date", _date),
}
"""Types of keys: what PostgreSQL calls them, and the value there that equals one; None: none."""
