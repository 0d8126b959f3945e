"""Aggregations from which values can be taken back, for inputs with `is_retraction`. Pure.

A value is a pair: the field's value, and whether it is taken back. What is kept is counted, also
below 0, where a value is taken back before it has come: so the order does not matter, and what is
left of values that were all taken back equals what was there in the beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from math import isfinite, nan
from typing import Any

from fulmen.api.declarer import Stream
from fulmen.api.event_time import RETRACTION
from fulmen.errors import repr_of
from fulmen.topology.problems import there_are
from fulmen.windows import aggregate_functions as functions
from fulmen.windows.aggregate_functions import EXACT, Aggregation, number_of
from fulmen.windows.wanted_aggregates import BUILT_IN, WantedAggregate, wanted

Pair = tuple[Any, bool]
NANS = {("NaN", "a decimal"): Decimal("NaN"), ("NaN", "a float"): nan}
"""What NaN is kept as, which could not be found again, and what it is."""


class _Retractable(Aggregation):
    """Takes pairs, and asks the aggregation that it stands for what is wrong with a value."""

    by = True

    def __init__(self, of: Aggregation) -> None:
        self.of = of
        self.check = of.check  # type: ignore[method-assign]


class _Count(_Retractable):
    def init(self) -> int:
        return 0

    def add(self, kept: int, value: Pair, time: int) -> int:  # noqa: ARG002
        return kept + _change(value)

    def merge(self, kept: int, other: int) -> int:
        return kept + other


class _Total(_Retractable):
    """A sum that is exact, of floats as well: what is added and taken back leaves no rest.

    It keeps how many numbers there are, how many of them are floats, the sum of those that are
    finite, and how often there is each of the others.
    """

    def init(self) -> tuple[int, int, Any, dict[str, int]]:
        return 0, 0, 0, {}

    def add(self, kept: Any, value: Pair, time: int) -> Any:  # noqa: ARG002
        count, floats, total, odd = kept
        if value[0] is None:
            return kept
        change, one = _change(value), number_of(value[0])
        if not isinstance(one, int | float | Decimal):
            one = float(one)
        if isinstance(one, float):
            floats += change
        if (name := _beyond_numbers(one)) is not None:
            odd = dict(odd)
            _count(odd, name, change)
        elif isinstance(one, int) and isinstance(total, int):
            total += change * one
        else:
            total = EXACT.add(total, EXACT.multiply(Decimal(one), change))
        return count + change, floats, total, odd

    def merge(self, kept: Any, other: Any) -> Any:
        odd = dict(kept[3])
        for name, count in other[3].items():
            _count(odd, name, count)
        is_whole = isinstance(kept[2], int) and isinstance(other[2], int)
        total = kept[2] + other[2] if is_whole else EXACT.add(kept[2], other[2])
        return kept[0] + other[0], kept[1] + other[1], total, odd

    def total(self, kept: Any) -> Any:
        _, floats, total, odd = kept
        signs = [name for name, count in odd.items() if count > 0]
        if signs:
            rest = "nan" if len(signs) > 1 else signs[0]
            return float(rest) if floats > 0 else Decimal(rest)
        return float(total) if floats > 0 else total


class _Sum(_Total):
    def result(self, kept: Any) -> Any:
        return self.total(kept) if kept[0] else None


class _Mean(_Total):
    def result(self, kept: Any) -> Any:
        count, _, total, odd = kept
        if not count:
            return None
        return float(self.total(kept)) / count if odd else float(total / count)


class _Counted(_Retractable):
    """Keeps how often there is each value."""

    in_place = True

    def check(self, value: Any) -> str | None:
        if (wrong := self.of.check(value)) is not None:
            return wrong
        try:
            hash(value)
        except TypeError:
            return f"{repr_of(value)[:80]} is not hashable"
        return None

    def __init__(self, of: Aggregation) -> None:
        self.of = of

    def init(self) -> dict[Any, int]:
        return {}

    def add(self, kept: dict[Any, int], value: Pair, time: int) -> dict[Any, int]:  # noqa: ARG002
        if value[0] is not None:
            _count(kept, _found_again(value[0]), _change(value))
        return kept

    def merge(self, kept: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        return self.absorb(dict(kept), other)

    def absorb(self, kept: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        for value, count in other.items():
            _count(kept, value, count)
        return kept

    def result(self, kept: dict[Any, int]) -> Any:
        there = {NANS.get(v, v): count for v, count in kept.items() if count > 0}
        return self.of.result(self.gathered(there))

    def gathered(self, there: Mapping[Any, int]) -> Any:
        """What the aggregation would have kept of the values that are there."""
        found = self.of.init()
        for value in there:
            found = self.of.add(found, value, 0)
        return found


class _Extreme(_Counted):
    def gathered(self, there: Mapping[Any, int]) -> Any:
        try:
            return super().gathered(there)
        except TypeError:  # values of several types; which of them is least can't be told then
            return min(there, key=lambda value: (type(value).__name__, repr_of(value)))


class _Top(_Counted):
    def gathered(self, there: Mapping[Any, int]) -> Any:
        return Counter(there)


_STAND_FOR: Mapping[type[Aggregation], type[_Retractable]] = {
    functions.Count: _Count,
    functions.Sum: _Sum,
    functions.Mean: _Mean,
    functions.Min: _Extreme,
    functions.Max: _Extreme,
    functions.Distinct: _Counted,
    functions.Values: _Counted,
    functions.Top: _Top,
    functions.TopWithTies: _Top,
}


def retractable(
    aggregates: Iterable[tuple[str, WantedAggregate]],
) -> list[tuple[str, WantedAggregate]]:
    """Make aggregates of values that may be taken back; `retracted_inputs` has seen they can be."""
    return [
        (text, WantedAggregate(_of(what), field or RETRACTION, RETRACTION, condition))
        for text, (what, field, _, condition) in aggregates
    ]


def _of(one: Aggregation) -> Aggregation:
    return _STAND_FOR[type(one)](one)


def retracted_inputs(
    aggregates: Mapping[str, str],
    own: Mapping[str, type[Aggregation]],
    inputs: Mapping[tuple[str, str], Stream],
) -> Iterator[str]:
    """Say what is wrong with inputs of aggregates, if rows of one may be taken back.

    Args:
        aggregates: Name -> the aggregate, such as `sum(amount)`.
        own: More aggregations than the built-in ones.
        inputs: The streams, by component and stream.
    """
    places = [place for place, stream in inputs.items() if RETRACTION in stream.fields]
    if not places:
        return
    source, stream = places[0]
    of = f"stream {stream!r} of {source!r}"
    for (component, name), other in inputs.items():
        if RETRACTION not in other.fields:
            yield (
                f"{of} has the field {RETRACTION!r}, and stream {name!r} of {component!r} has not:"
                f' add it there by select, as {RETRACTION}: "false"'
            )
    there = there_are([name for name, kind in BUILT_IN.items() if kind in _STAND_FOR])
    for name, text in aggregates.items():
        if type(wanted(text, own).aggregation) not in _STAND_FOR:
            yield (
                f"aggregates.{name}: rows of {of} may be taken back, by {RETRACTION!r}, but not"
                f" from {text!r}. {there}"
            )


def _change(value: Pair) -> int:
    if value[0] is None:
        return 0
    return -1 if value[1] else 1


def _count(counts: dict[Any, int], value: Any, change: int) -> None:
    now = counts.get(value, 0) + change
    if now:
        counts[value] = now
    else:
        del counts[value]


def _found_again(value: Any) -> Any:
    if value == value:
        return value
    return ("NaN", "a decimal" if isinstance(value, Decimal) else "a float")


def _beyond_numbers(number: Any) -> str | None:
    """The name of NaN or of an infinity."""
    if isinstance(number, Decimal):
        if number.is_nan():
            return "nan"
        if number.is_infinite():
            return "inf" if number > 0 else "-inf"
        return None
    return None if isinstance(number, int) or isfinite(number) else str(number)
