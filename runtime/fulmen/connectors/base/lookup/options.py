"""Options of lookups in tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fulmen.connectors.base.lookup.table import Matches
from fulmen.connectors.options import Options

Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], Field(max_length=1000)]
Renamed = Annotated[dict[Name, Name], Field(max_length=1000)]


class LookupOptions(Options):
    """The `config` that all lookups in tables share."""

    fields: Names = ()
    """Fields of the input that are passed on, before those of the table."""
    key: (
        Annotated[tuple[Name, ...], Field(min_length=1)]
        | Annotated[dict[Name, Name], Field(min_length=1)]
    )
    """The fields that must equal columns of the table: names that both have, or a mapping
    `{field: column}`. Null and NaN equal nothing."""
    add: Names | Renamed | None = None
    """The columns of the table that are emitted: names, or a mapping `{new field: column}`.
    Default: all but those of the key."""
    type: Literal["inner", "left", "semi", "anti"] = "left"
    """What is emitted: `left`: each tuple, with nulls if the table has no row of its key; `inner`:
    only with a row; `semi`: the tuple alone, once, if there is a row; `anti`: if there is none."""
    where: Annotated[str, Field(min_length=1)] | None = None
    """A condition beside the key, such as `amount <= most`: an expression of `fields` and of what
    `add` names. A row of the table for which it is not true is none."""
    matches: Matches = "all"
    """Which rows of a key count, in the table's order: all, as in SQL, or one of them."""
    reload_seconds: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    """How often it is looked whether the table has changed, at most."""

    @property
    def pairs(self) -> Mapping[str, str]:
        """Which column each field of the key must equal."""
        return self.key if isinstance(self.key, Mapping) else {name: name for name in self.key}

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that the table has."""

    @property
    @abstractmethod
    def types(self) -> Mapping[str, str]:
        """The types of columns, as far as they are known."""

    @property
    def added(self) -> Mapping[str, str]:
        """The name of each new field, and the column that it is."""
        if isinstance(self.add, Mapping):
            return self.add
        keys = self.pairs.values()
        names = [n for n in self.columns if n not in keys] if self.add is None else self.add
        return {name: name for name in names}

    @property
    def is_asked(self) -> bool:
        """Whether the table is asked for keys, and not read as a whole."""
        return False

    @property
    def adds(self) -> bool:
        """Whether what is added is emitted, and not only there for `where`."""
        return self.type in ("inner", "left")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for option, names in (("key", self.pairs.values()), ("add", self.added.values())):
            for name in names:
                if name not in self.columns:
                    raise ValueError(
                        f"{option}: the table has no column {name!r}, only {list(self.columns)}"
                    )
        if self.is_asked and self.matches != "all":
            raise ValueError(
                f"matches is {self.matches!r}, but rows that are asked for by their key have no"
                " order. Leave it out"
            )
        names_of_rows = [*self.fields, *self.added]
        needs_all = self.adds or self.where is not None
        for name in names_of_rows if needs_all else self.fields:
            if names_of_rows.count(name) > 1:
                raise ValueError(
                    f"the field {name!r} is there twice: in `fields` and of the table. Name it"
                    f" anew, as in add: {{table_{name}: {name}}}"
                )
        return self


class WholeTableOptions(LookupOptions):
    """The `config` that lookups share whose tables may be read as a whole."""

    memory_bytes: Annotated[int, Field(ge=0, le=1_000_000_000_000)] = 400_000_000
    """So much memory of each worker the table may take, as estimated from its rows. One that needs
    more is kept on the worker's disk."""
