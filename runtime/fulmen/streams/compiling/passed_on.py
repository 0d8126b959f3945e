"""Types of the fields that a component passes on as it gets them. Pure.

A component's class declares what it emits by its options alone, which name no types of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fulmen.api import Stream
from fulmen.connectors.base.lookup.bolt import TableLookup
from fulmen.expressions.sql_types import element_name, list_name
from fulmen.streams.bolts.folds import KeyedFold
from fulmen.streams.graph.nodes import ComponentNode
from fulmen.streams.rows.folding import RowSource
from fulmen.windows import (
    Aggregate,
    Deduplicate,
    IntervalJoin,
    LookupJoin,
    PersistentAggregate,
    RunningAggregate,
    TableJoin,
    TemporalJoin,
    WindowJoin,
)
from fulmen.windows.functions.aggregations import First, Last, Max, MaxBy, Min, MinBy
from fulmen.windows.functions.collected import Listed, Values
from fulmen.windows.functions.greatest_rows import MaxByOfSeveral
from fulmen.windows.functions.wanted import wanted

Types = Mapping[str, str]
JOINS = (IntervalJoin, LookupJoin, TableJoin, TemporalJoin, WindowJoin)
BY_KEY = (Aggregate, KeyedFold, PersistentAggregate, RunningAggregate)
ONE_OF_ALL = (First, Last, Max, MaxBy, Min, MinBy)
"""Aggregations whose result is a value of their field."""
LISTS = (Listed, Values, MaxByOfSeveral)
"""Aggregations whose result is a list of such values."""


def with_passed_types(
    node: ComponentNode, config: Mapping[str, Any], inputs: Sequence[Sequence[RowSource]],
    streams: Mapping[str, Stream],
) -> dict[str, Stream]:  # fmt: skip
    """The streams of a component, with the types that are known of what it gets.

    Args:
        node: The component.
        config: Its options.
        inputs: Where its rows come from: by parent.
        streams: As its class declares them.
    """
    stream = streams.get("default")
    if stream is None:
        return dict(streams)
    known = [_types(sources) for sources in inputs]
    passed = {name: kind for name, kind in _passed(node.cls, config, known) if kind}
    types = {name: kind for name, kind in passed.items() if name in stream.fields}
    return {**streams, "default": replace(stream, types={**types, **stream.types})}


def _passed(
    cls: type, config: Mapping[str, Any], known: Sequence[Types]
) -> Iterator[tuple[str, str | None]]:
    if cls in JOINS:
        for side, types in zip((config["left"], config["right"]), known, strict=True):
            for name, field in side["fields"].items():
                yield name, types.get(field)
    elif cls is Deduplicate or issubclass(cls, TableLookup):
        yield from known[0].items()
    elif cls in BY_KEY:
        for name in config["key"]:
            yield name, known[0].get(name)
        for name, text in config.get("aggregates", {}).items():
            yield name, _type_of_chosen(text, known[0])


def _type_of_chosen(text: str, known: Types) -> str | None:
    """The type of an aggregate whose result is a value of its field, or a list of such values."""
    try:
        found = wanted(text, {})
    except ValueError:  # one of the author's own, or a mistake that is told
        return None
    kind = known.get(found.field or "")
    if isinstance(found.aggregation, LISTS) and kind is not None:
        return None if element_name(kind) else list_name(kind)
    return kind if type(found.aggregation) in ONE_OF_ALL else None


def _types(sources: Sequence[RowSource]) -> Types:
    """The types that all sources of an input have."""
    first, *others = (source.received.types for source in sources)
    return {name: kind for name, kind in first.items() if all(o.get(name) == kind for o in others)}
