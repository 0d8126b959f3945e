"""Aggregations of the rows of a window in which a field is greatest, or least. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fulmen.windows.functions.aggregations import Aggregation, MaxBy, MinBy, whole_number

Ranked = list[tuple[Any, int, Any]]
"""Of each tuple the value of the other field, its event time, and its value; the first one is the
best."""


class MaxByOfSeveral(Aggregation):
    """The values of the tuples in which another field is greatest: `max_by(x, y, 3)`.

    The greatest is the first one. Of equal ones that of the earliest event time is, and of equal
    times the one that came first. So the values of several fields by the same one are those of the
    same tuples, in the same order.
    """

    by = True
    arguments = 1
    splits = True
    has_ties = False
    best: ClassVar[type[MaxBy]] = MaxBy

    def __init__(self, count: str) -> None:
        """`count`: how many."""
        self._count = whole_number(count)
        self._beats = self.best().beats

    def init(self) -> Ranked:  # noqa: D102
        return []

    def add(self, kept: Ranked, value: tuple[Any, Any], time: int) -> Ranked:  # noqa: D102
        found, by = value
        place = len(kept)
        while place and self._comes_before(by, time, kept[place - 1]):
            place -= 1
        if place >= self._count and not (self.has_ties and self._is_like_last(by, kept)):
            return kept
        return self._cut([*kept[:place], (by, time, found), *kept[place:]])

    def _comes_before(self, by: Any, time: int, other: tuple[Any, int, Any]) -> bool:
        best, since, _ = other
        if self._beats(by, best):
            return True
        return time < since and not self._beats(best, by)

    def _is_like_last(self, by: Any, kept: Ranked) -> bool:
        return not self._beats(kept[self._count - 1][0], by)

    def _cut(self, ranked: Ranked) -> Ranked:
        end = self._count
        if self.has_ties:
            while end < len(ranked) and self._is_like_last(ranked[end][0], ranked):
                end += 1
        return ranked[:end]

    def merge(self, kept: Ranked, other: Ranked) -> Ranked:  # noqa: D102
        for by, time, found in other:
            kept = self.add(kept, (found, by), time)
        return kept

    def result(self, kept: Ranked) -> list[Any]:  # noqa: D102
        return [found for _, _, found in kept]


class MaxByWithTies(MaxByOfSeveral):
    """The same with all that are as great as the last one: `max_by(x, y, 3, ties)`."""

    has_ties = True


class MinByOfSeveral(MaxByOfSeveral):
    """The values of the tuples in which another field is least: `min_by(x, y, 3)`."""

    best = MinBy


class MinByWithTies(MinByOfSeveral):
    """The same with all that are as small as the last one: `min_by(x, y, 3, ties)`."""

    has_ties = True


MaxByOfSeveral.variants = {"ties": MaxByWithTies}
MinByOfSeveral.variants = {"ties": MinByWithTies}
SEVERAL: Mapping[type[Aggregation], type[MaxByOfSeveral]] = {
    MaxBy: MaxByOfSeveral,
    MinBy: MinByOfSeveral,
}
"""The aggregation that takes a number after its fields, by the one that does not."""
