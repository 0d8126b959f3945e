"""The configuration of bolts of transactional topologies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from fulmen.connectors.options import Duration, Options
from fulmen.transactional.columns import Kind
from fulmen.windows.functions.wanted import wanted
from fulmen.windows.options import (
    FIXED,
    Aggregated,
    CalendarWindow,
    CountWindow,
    Name,
    SlidingWindow,
    TimedOptions,
    Tumbling,
    rejoined,
    several_times,
)

ATTEMPT = "tx"
"""The first field of what is emitted."""


class TransactionWindow(Options):
    """So many transactions, one after another, counted from 1."""

    type: Literal["transactions"]
    size: Annotated[int, Field(ge=1)]
    """How many."""


Window = Annotated[
    TransactionWindow | CountWindow | Tumbling | SlidingWindow | CalendarWindow,
    Field(discriminator="type"),
]


class GroupedOptions(TimedOptions):
    """Options that aggregates share."""

    key: tuple[Name, ...] = ()
    """The fields by which tuples are grouped. The input must be grouped by them. None: all that a
    task receives is one group."""
    aggregates: Annotated[dict[Name, Aggregated], BeforeValidator(rejoined), Field(min_length=1)]
    """The name of each result, and what it is: `count`, `sum(amount)`, `top(page, 10)`."""


class TransactionAggregateOptions(GroupedOptions):
    """The `config` of a `TransactionAggregate`."""

    window: Window | None = None
    """What is aggregated together. Default: what a transaction brings."""
    time: Name | None = None
    """The field with the event time, of windows by time."""
    max_delay: Duration = "0"
    """How much earlier than the newest time a tuple may be and still come in time."""

    @model_validator(mode="after")
    def _is_whole(self) -> TransactionAggregateOptions:
        if self.has_times and self.time is None:
            raise ValueError("time is missing: name the field with the event time")
        if isinstance(self.window, CountWindow) and self.window.every is not None:
            raise ValueError("window.every is for windows of Aggregate. Leave it out")
        names = [ATTEMPT, *self.key, *self.fixed, *self.aggregates]
        if twice := several_times(names):
            raise ValueError(f"several output fields are called {twice}")
        return self

    @property
    def has_times(self) -> bool:
        """Whether windows have a start and an end."""
        return isinstance(self.window, Tumbling | SlidingWindow | CalendarWindow)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The fields of a window."""
        return FIXED if self.has_times else ()


class TransactionDeduplicateOptions(Options):
    """The `config` of a `TransactionDeduplicate`."""

    id: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The fields that are equal in duplicates. The input must be grouped by them."""
    fields: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The fields that are passed on, behind the attempt."""
    transactions: Annotated[int, Field(ge=1)]
    """For so many transactions an id is remembered, that which has brought it included."""


class PersistentAggregateOptions(GroupedOptions):
    """The `config` of a `PersistentAggregate`."""

    store: Literal["sqlite", "postgres", "redis"]
    """The kind of store."""
    at: str
    """The store: the file of SQLite, the DSN of PostgreSQL, or the URL of Redis."""
    map: str
    """The name of the map: a table, or a hash of Redis."""
    rule: Literal["transactional", "opaque"] = "transactional"
    """How rows change: `opaque` behind an opaque source."""
    key_type: Kind | None = None
    """The type of keys. Default: `text` for one field, else `json`: a list."""
    value_type: Kind = "json"
    """The type of values. Of several aggregates a value is an object with the result of each."""

    @model_validator(mode="after")
    def _is_whole(self) -> PersistentAggregateOptions:
        if len(self.aggregates) > 1 and self.value_type != "json":
            raise ValueError("valueType must be json, as there are several aggregates")
        if len(self.key) != 1 and self.key_type not in (None, "json"):
            raise ValueError("keyType must be json, as key is not one field")
        for name, text in self.aggregates.items():
            kind = type(wanted(text, _NONE).aggregation).__name__.lower()
            if kind not in ADDED:
                raise ValueError(
                    f"aggregates.{name}: {text!r} can't be added to what the store has. It may be"
                    f" {', '.join(ADDED)}; others are for each transaction, with"
                    " TransactionAggregate"
                )
        return self

    @property
    def key_kind(self) -> Kind:
        """The type of keys."""
        return self.key_type or ("text" if len(self.key) == 1 else "json")


ADDED = ("count", "sum", "min", "max")
"""Aggregates that keep nothing but their result."""
_NONE: Mapping[str, type] = {}
