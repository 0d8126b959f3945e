"""Options of lookups in SQL databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator
from typing_extensions import override

from fulmen.connectors.base.lookup.options import LookupOptions
from fulmen.connectors.formats.options import types_of
from fulmen.connectors.sql.options import Fields, Name


class SqlLookupOptions(LookupOptions):
    """The `config` that lookups in SQL databases share."""

    table: Name | None = None
    """The table, as the database spells it. Give this or `query`."""
    query: Name | None = None
    """A SELECT whose rows are the table. It must have `columns` among its columns."""
    columns_: Annotated[Fields, Field(alias="columns")]
    """The columns that are read: a list, or a mapping to their types, such as `{id: int64}`."""

    @property
    @override
    def columns(self) -> tuple[str, ...]:
        return tuple(self.columns_)

    @property
    @override
    def types(self) -> Mapping[str, str]:
        return types_of(self.columns_)

    @model_validator(mode="after")
    def _has_a_table(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("name table or query, and not both")
        return self
