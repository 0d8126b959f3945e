"""Aggregations that keep the values themselves, or a sketch of them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from fulmen.errors import repr_of
from fulmen.windows.functions import sketches
from fulmen.windows.functions.aggregations import Aggregation, NumbersOnly, whole_number


class _Collected(Aggregation):
    in_place = True

    def merge(self, kept: Any, other: Any) -> Any:
        return self.absorb(kept.copy(), other)

    def absorb(self, kept: Any, other: Any) -> Any:
        kept.update(other)
        return kept


class Listed(_Collected):
    """All values, in the order of their event times."""

    def init(self) -> list[tuple[int, Any]]:  # noqa: D102
        return []

    def add(self, kept: list[tuple[int, Any]], value: Any, time: int) -> list[tuple[int, Any]]:  # noqa: D102
        kept.append((time, value))
        return kept

    def absorb(self, kept: list[Any], other: list[Any]) -> list[Any]:  # noqa: D102
        kept += other
        return kept

    def result(self, kept: list[tuple[int, Any]]) -> list[Any]:  # noqa: D102
        return [value for _, value in sorted(kept, key=lambda one: one[0])]


class _Sketched(Aggregation):
    in_place = True

    def add(self, kept: Any, value: Any, time: int) -> Any:  # noqa: ARG002
        kept.add(value)
        return kept

    def merge(self, kept: Any, other: Any) -> Any:
        kept.merge(other)
        return kept


class _OfHashable(_Collected):
    def check(self, value: Any) -> str | None:
        try:
            hash(value)
        except TypeError:
            return f"{repr_of(value)[:80]} is not hashable"
        return None


class ApproximateDistinct(_Sketched):
    """About how many different values there are: in two kilobytes, however many there are."""

    type = "int64"

    def __init__(self) -> None:
        sketches.check_installed()

    def init(self) -> sketches.Hll:  # noqa: D102
        return sketches.Hll()

    def result(self, kept: sketches.Hll) -> int:  # noqa: D102
        return kept.estimate()


class Distinct(_OfHashable):
    """The exact number of different values: each of them is kept."""

    type = "int64"
    splits = True
    variants: ClassVar[Mapping[str, Any]] = {"approximate": ApproximateDistinct}

    def init(self) -> set[Any]:  # noqa: D102
        return set()

    def add(self, kept: set[Any], value: Any, time: int) -> set[Any]:  # noqa: ARG002, D102
        kept.add(value)
        return kept

    def result(self, kept: set[Any]) -> Any:  # noqa: D102
        return len(kept)


class Values(Distinct):
    """The different values, as a list without any order."""

    type = ""
    variants: ClassVar[Mapping[str, Any]] = {}

    def result(self, kept: set[Any]) -> list[Any]:  # noqa: D102
        return list(kept)


class Quantile(_Sketched, NumbersOnly):
    """About the value that such a part of all are below: `quantile(millis, 0.95)`."""

    arguments = 1
    type = "float64"

    def __init__(self, rank: str) -> None:
        """`rank`: which part, from 0 to 1."""
        if not re.fullmatch(r"0|1|[01]?\.[0-9]+", rank) or not 0 <= float(rank) <= 1:
            raise ValueError(f"{rank!r} is no number from 0 to 1")
        sketches.check_installed()
        self._rank = float(rank)

    def check(self, value: Any) -> str | None:  # noqa: D102
        if (wrong := super().check(value)) is not None:
            return wrong
        try:
            float(value)
        except (OverflowError, ValueError):  # a number of hundreds of digits, Decimal("sNaN")
            return f"{repr_of(value)[:80]} is no number that a float can be"
        return None

    def init(self) -> sketches.Kll:  # noqa: D102
        return sketches.Kll()

    def result(self, kept: sketches.Kll) -> float | None:  # noqa: D102
        return kept.quantile(self._rank)


class Top(_OfHashable):
    """The most frequent values with how often they occur, exactly: `top(page, 10)`."""

    arguments = 1
    splits = True
    has_ties = False

    def __init__(self, count: str) -> None:
        """`count`: how many."""
        self._count = whole_number(count)

    def init(self) -> Counter[Any]:  # noqa: D102
        return Counter()

    def add(self, kept: Counter[Any], value: Any, time: int) -> Counter[Any]:  # noqa: ARG002, D102
        kept[value] += 1
        return kept

    def result(self, kept: Counter[Any]) -> list[list[Any]]:
        """The most frequent values. Ties go by text, so input order does not matter."""
        ranked = sorted(kept.items(), key=lambda one: (-one[1], repr_of(one[0])))
        end = self._count
        if self.has_ties and end < len(ranked):
            least = ranked[end - 1][1]
            end = sum(count >= least for _, count in ranked)
        return [[value, count] for value, count in ranked[:end]]


class TopWithTies(Top):
    """The same with all values that are as frequent as the last one: `top(page, 10, ties)`."""

    has_ties = True
    variants: ClassVar[Mapping[str, Any]] = {}


Top.variants = {"ties": TopWithTies}
