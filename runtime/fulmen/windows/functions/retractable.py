"""Aggregations from which values can be taken back, for inputs with `is_retraction`. Pure.

A value is a pair: what the aggregation that can't take back would get, and whether it is taken
back. What is kept is counted, also below 0, where a value is taken back before it has come: so the
order does not matter, and what is left of values that were all taken back equals what was there in
the beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from decimal import Decimal
from functools import reduce
from math import isfinite, nan
from operator import itemgetter
from typing import Any

from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import RETRACTION
from fulmen.errors import repr_of
from fulmen.topology.problems import there_are
from fulmen.windows.functions import aggregations, collected
from fulmen.windows.functions.aggregations import EXACT, Aggregation, number_of
from fulmen.windows.functions.greatest_rows import (
    MaxByOfSeveral,
    MaxByWithTies,
    MinByOfSeveral,
    MinByWithTies,
)
from fulmen.windows.functions.wanted import BUILT_IN, WantedAggregate, wanted

Pair = tuple[Any, bool]
NANS = {("NaN", "a decimal"): Decimal("NaN"), ("NaN", "a float"): nan}
"""What NaN is kept as, which could not be found again, and what it is."""


class _Retractable(Aggregation):
    """Takes pairs, and asks the aggregation that it stands for what is wrong with a value."""

    def __init__(self, of: Aggregation, is_timed: bool) -> None:
        self.of = of
        self.is_timed = is_timed
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

    def init(self) -> dict[Any, int]:
        return {}

    def add(self, kept: dict[Any, int], value: Pair, time: int) -> dict[Any, int]:  # noqa: ARG002
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
        return _of_all(self.of, [(value, 0) for value in there])


class _Top(_Counted):
    def gathered(self, there: Mapping[Any, int]) -> Any:
        return Counter(there)


class _Quantile(_Counted):
    def gathered(self, there: Mapping[Any, int]) -> Any:
        return _of_all(self.of, [(value, 0) for value in Counter(there).elements()])


class _Timed(_Retractable):
    """Keeps the times of each value.

    In a window, what is taken back has the time of the row that it takes back. Elsewhere times are
    the order in which rows come, and the newest of equal values is taken back.
    """

    in_place = True

    def init(self) -> dict[Any, list[int] | int]:
        return {}

    def add(self, kept: dict[Any, Any], value: Pair, time: int) -> dict[Any, Any]:
        found = value[0]
        key = tuple(map(_found_again, found)) if self.of.by else _found_again(found)
        if self.is_timed:
            key = (key, time)
        _put(kept, key, -1 if value[1] else [time])
        return kept

    def merge(self, kept: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
        return self.absorb(deepcopy(kept), deepcopy(other))

    def absorb(self, kept: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
        for key, times in other.items():
            _put(kept, key, times)
        return kept

    def result(self, kept: dict[Any, Any]) -> Any:
        rows = []
        for key, times in kept.items():
            if not isinstance(times, int):
                value = key[0] if self.is_timed else key
                parts = [NANS.get(part, part) for part in (value if self.of.by else [value])]
                rows += [(parts if self.of.by else parts[0], time) for time in times]
        return self.of.result(_of_all(self.of, sorted(rows, key=itemgetter(1))))


def _put(kept: dict[Any, Any], key: Any, times: list[int] | int) -> None:
    """Add times of a value to those that are kept; a number below 0: take so many back."""
    now = kept.get(key, 0)
    if not now:
        now = times
    elif isinstance(now, int) is isinstance(times, int):
        now += times
    else:
        there, owed = (now, -times) if isinstance(times, int) else (times, -now)
        now = len(there) - owed
        if now > 0:
            del there[now:]
            now = there
    if now:
        kept[key] = now
    else:
        del kept[key]


_STAND_FOR: Mapping[type[Aggregation], type[_Retractable]] = {
    aggregations.Count: _Count,
    aggregations.Sum: _Sum,
    aggregations.Mean: _Mean,
    aggregations.Min: _Counted,
    aggregations.Max: _Counted,
    collected.Distinct: _Counted,
    collected.Values: _Counted,
    collected.Top: _Top,
    collected.TopWithTies: _Top,
    collected.Quantile: _Quantile,
    **dict.fromkeys((aggregations.First, aggregations.Last, collected.Listed), _Timed),
    **dict.fromkeys((aggregations.MaxBy, MaxByOfSeveral, MaxByWithTies), _Timed),
    **dict.fromkeys((aggregations.MinBy, MinByOfSeveral, MinByWithTies), _Timed),
}


def retractable(
    aggregates: Iterable[tuple[str, WantedAggregate]], is_timed: bool
) -> list[tuple[str, WantedAggregate]]:
    """Make aggregates of values that may be taken back; `retracted_inputs` has seen they can be.

    Args:
        aggregates: Their texts, and what they are.
        is_timed: Whether what is taken back has the time of the row that it takes back.
    """
    return [
        (
            text,
            WantedAggregate(
                _STAND_FOR[type(of)](of, is_timed), field or RETRACTION, by, condition, RETRACTION
            ),
        )
        for text, (of, field, by, condition, _) in aggregates
    ]


def _of_all(of: Aggregation, values: Sequence[tuple[Any, int]]) -> Any:
    """What an aggregation keeps of values with their times.

    Of values that can't be compared with each other, which of them is least can't be told: one of
    them stands for all then, always the same.
    """
    try:
        return reduce(lambda kept, one: of.add(kept, *one), values, of.init())
    except TypeError:
        return of.add(of.init(), *min(values, key=lambda one: _as_text(of, one[0])))


def _as_text(of: Aggregation, value: Any) -> tuple[str, str]:
    by = value[1] if of.by else value
    return type(by).__name__, repr_of(by)


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
