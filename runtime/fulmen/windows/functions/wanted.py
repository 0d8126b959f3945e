"""Reads aggregates in the text of a configuration, such as `sum(amount)`. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from fulmen.topology.problems import did_you_mean, there_are
from fulmen.windows.functions.aggregations import (
    Aggregation,
    Count,
    First,
    Last,
    Max,
    MaxBy,
    Mean,
    Min,
    MinBy,
    Sum,
)
from fulmen.windows.functions.collected import Distinct, Listed, Quantile, Top, Values
from fulmen.windows.functions.greatest_rows import SEVERAL

BUILT_IN: Mapping[str, type[Aggregation]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "min": Min,
    "max": Max,
    "min_by": MinBy,
    "max_by": MaxBy,
    "first": First,
    "last": Last,
    "list": Listed,
    "set": Values,
    "distinct": Distinct,
    "quantile": Quantile,
    "top": Top,
}
COMMON = {
    "avg": "mean", "average": "mean", "median": "quantile", "percentile": "quantile",
    "size": "count", "nunique": "distinct", "arg_min": "min_by", "argmin": "min_by",
    "arg_max": "max_by", "argmax": "max_by", "idxmax": "max_by", "idxmin": "min_by",
    "array_agg": "list", "collect_list": "list", "collect_set": "set", "any_value": "first",
    "mode": "top", "value_counts": "top",
}  # fmt: skip
"""Other names in common use: those of SQL, Spark and pandas."""
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)
"""A field may have any name without a comma, such as that of a column `speed (km/h)`."""
_FILTER = re.compile(r"(.*?)\s*\bfilter\s*\(\s*where\b(.*)\)\s*", re.DOTALL | re.IGNORECASE)


class WantedAggregate(NamedTuple):
    """An aggregate as a configuration names it, such as `sum(amount)`.

    Attributes:
        aggregation: The aggregation.
        field: Its field; None: it is of tuples, which only `count` can be.
        by: The second field, of aggregations that have one.
        condition: The expression that is true for tuples that count; None: all do.
        mark: The field that says whether a value is taken back; None: none ever is. With it, the
            aggregation gets pairs, of what it would get without it and of this.
    """

    aggregation: Aggregation
    field: str | None
    by: str | None = None
    condition: str | None = None
    mark: str | None = None


def result_types(
    aggregates: Mapping[str, str], own: Mapping[str, type[Aggregation]]
) -> dict[str, str]:
    """The types of results, by their names, as far as they are known."""
    kinds = {name: wanted(text, own).aggregation.type for name, text in aggregates.items()}
    return {name: kind for name, kind in kinds.items() if kind}


def is_filtered(text: str) -> bool:
    """Whether an aggregate has a condition."""
    return _FILTER.fullmatch(text) is not None


def no_aggregate(name: str, known: Collection[str] = BUILT_IN.keys()) -> str:
    """That a name is none of an aggregate, and which one may be meant."""
    close = did_you_mean(COMMON.get(name.lower(), name), known)
    meant = f", but {close.removeprefix('Did you mean ').removesuffix('?')}"
    return (
        f"there is no aggregate {name!r}{meant}"
        if close
        else (f"there is no aggregate {name!r}. {there_are(known)}".rstrip("."))
    )


def wanted(text: str, own: Mapping[str, type[Aggregation]]) -> WantedAggregate:
    """Read an aggregate.

    Args:
        text: Such as `count`, `sum(amount)`, `top(page, 10)` or `max_by(bidder, price)`; each
            may have a `filter (where …)` behind it.
        own: More aggregations than the built-in ones, by their names.

    Raises:
        ValueError: The text can't be read; the message says why, and what is right.
    """
    if (filtered := _FILTER.fullmatch(text)) is not None:
        of = wanted(filtered[1], own)
        return WantedAggregate(of.aggregation, of.field, of.by, filtered[2].strip())
    known = {**BUILT_IN, **own}
    match = _CALL.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no aggregate. Write a name and a field, as in sum(amount), and a"
            " condition as in sum(amount) filter (where amount > 0)"
        )
    name, inside = match.groups()
    kind = known.get(name)
    if kind is None:
        raise ValueError(no_aggregate(name, known))
    parts = [part.strip() for part in inside.split(",")] if inside and inside.strip() else []
    if not parts and kind is Count:
        return WantedAggregate(Count(), None)
    if kind in SEVERAL and len(parts) > 1 + kind.by:
        kind = SEVERAL[kind]
    if parts and parts[-1] in kind.variants:
        kind = kind.variants[parts.pop()]
    fields, arguments = parts[: 1 + kind.by], parts[1 + kind.by :]
    if len(fields) != 1 + kind.by or not all(fields) or len(arguments) != kind.arguments:
        more = ", FIELD" * kind.by + ", ..." * kind.arguments
        others = "".join(f" or {name}(FIELD, {word})" for word in kind.variants)
        raise ValueError(f"{text!r} must be {name}(FIELD{more}){others}")
    try:
        return WantedAggregate(kind(*arguments), *fields)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
