"""Options of sinks and sources of SQL databases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from fulmen.api.declarer import Stream
from fulmen.connectors.base.retractions import retraction_warnings
from fulmen.connectors.formats import Malformed
from fulmen.connectors.formats.types import Type
from fulmen.connectors.options import Options, SinkOptions

Name = Annotated[str, Field(min_length=1)]
Fields = (
    Annotated[list[Name], Field(min_length=1)] | Annotated[dict[Name, Type], Field(min_length=1)]
)
"""Columns to emit; as a mapping, with the types of their values."""

_FILLED = re.compile(
    r"default|serial|generated|identity|autoincrement|primary\s+key", re.IGNORECASE
)
"""What has the database find a value for a column that gets none."""
_NOT_NULL = re.compile(r"not\s+null", re.IGNORECASE)


class TableSinkOptions(SinkOptions):
    """Options of every sink of a SQL database."""

    table: Name
    """The table, as the database spells it."""
    columns: dict[Name, Name] | None = None
    """Which field goes to which column, as `{field: column}`; other fields are left out. Default:
    every field goes to the column of the same name."""
    mode: str = "insert"
    key: tuple[Name, ...] = ()
    """The columns of the primary key, or of another unique index. `upsert` replaces the row that
    has the same values there."""
    deleted_field: Name | None = None
    """With `upsert`: the field that says, if it is true, that the row of this `key` is deleted."""
    create: dict[Name, Name] | None = None
    """Makes the table if there is none: `{column: type}`, with the types of the database. `key`
    becomes its primary key. Default: the table must be there."""

    @model_validator(mode="after")
    def _key_fits(self) -> Self:
        if self.mode == "upsert" and not self.key:
            raise ValueError("mode 'upsert' needs key: the columns that tell which row to replace")
        if self.key and self.mode != "upsert" and self.create is None:
            raise ValueError(f"mode {self.mode!r} uses no key. Write mode: upsert, or leave it out")
        if self.deleted_field is not None and self.mode != "upsert":
            raise ValueError("deletedField needs mode: upsert, with the key of what is deleted")
        written = [*self.key, *(self.columns or {}).values()]
        for column in written if self.create is not None else ():
            if column not in (self.create or {}):
                raise ValueError(f"column {column!r} is not in create, which has {_listed(self)}")
        if self.columns is not None:
            columns = list(self.columns.values())
            twice = [column for column in columns if columns.count(column) > 1]
            if twice:
                raise ValueError(f"two fields go to column {twice[0]!r}")
            missing = [column for column in self.key if column not in columns]
            if missing:
                raise ValueError(f"no field goes to column {missing[0]!r}, which is in key")
        return self

    def columns_of(self, fields: Sequence[str]) -> dict[str, str]:
        """The columns that are written, by the field that goes there.

        Raises:
            Malformed: A field is missing, or a column that must be written.
        """
        if (deleted := self.deleted_field) is not None and deleted not in fields:
            raise Malformed(
                f"deletedField is {deleted!r}, but there is only {list(fields)}. Name a field that"
                " is received"
            )
        columns = self.columns or {field: field for field in fields if field != deleted}
        if missing := [field for field in columns if field not in fields]:
            raise Malformed(
                f"columns has the field {missing[0]!r}, but there is only {list(fields)}. Name"
                " fields that are received"
            )
        if lost := [column for column in self.key if column not in columns.values()]:
            raise Malformed(
                f"key has the column {lost[0]!r}, but no field goes there: there is"
                f" {list(fields)}. Write columns: {{field: column}}, or another key"
            )
        create = self.create or columns.values()
        if unmade := [column for column in columns.values() if column not in create]:
            raise Malformed(
                f"column {unmade[0]!r} is not in create, which has {_listed(self)}. Add it there,"
                " or write columns: {field: column} without that field"
            )
        return dict(columns)

    def mistakes(self, stream: Stream) -> Iterator[str | Warning]:
        """Yield the mistakes of a stream that is to be written."""
        try:
            written = self.columns_of(stream.fields).values()
        except Malformed as error:
            yield str(error)
            return
        keys = self.key if self.mode == "upsert" else ()
        fields = [name for name, column in self.columns_of(stream.fields).items() if column in keys]
        yield from retraction_warnings(stream, fields, self.deleted_field)
        for name, column in self.columns_of(stream.fields).items():
            if column in keys and (why := stream.no_key.get(name)) is not None:
                yield UserWarning(f"key has {column!r}, by which rows can't be told apart: {why}")
        for name, kind in (self.create or {}).items():
            if name in written or _FILLED.search(kind):
                continue
            if _NOT_NULL.search(kind):
                yield (
                    f"column {name!r} of create is NOT NULL, and no field goes there: there is"
                    f" {list(stream.fields)}. Emit such a field, or give the column a DEFAULT"
                )
            else:
                yield UserWarning(
                    f"column {name!r} of create stays null, as no field goes there: there is"
                    f" {list(stream.fields)}. Emit such a field, or give the column a DEFAULT"
                )


def _listed(options: TableSinkOptions) -> str:
    return ", ".join(map(repr, options.create or ()))


class GrowingOptions(Options):
    """Options of every source of a growing table."""

    table: Name | None = None
    """The table, as the database spells it. Give this or `query`."""
    query: Name | None = None
    """A SELECT whose rows are emitted. It must have `column` and `fields` among its columns."""
    column: Name
    """The column that grows: rows are emitted in its order, and rows that come later must have
    higher values. An index on it makes fetches fast."""
    fields: Fields
    """The columns to emit. They are the fields of the stream. A list, or a mapping to their types,
    such as `{id: int64}`, which are compared with what sinks write."""
    start: int | float | str | None = None
    """Emit rows whose value is higher than this one. Default: all rows. Counts only when the
    topology starts with an empty checkpoint."""
    fetch_size: int = Field(1000, ge=1)
    """How many rows to fetch at once."""
    poll_seconds: float = Field(1.0, ge=0)
    """How long to wait before it looks for new rows when there were none."""
    delay_seconds: float = Field(0.0, ge=0)
    """Rows are emitted when a value at least as high as theirs has been there for so long. A row
    that is committed later than that, with a lower value, is missed. Longer than any transaction
    that writes to the table."""
    follow: bool = True
    """Whether to wait for more rows. False: the source ends where the table does."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("it needs table or query, and not both")
        return self


def stream_of(fields: Fields) -> Stream:
    """The stream of a source."""
    return Stream(tuple(fields), types=fields if isinstance(fields, dict) else {})
