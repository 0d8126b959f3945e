"""Aggregations of one field's values in one window: counts, sums and others. Pure.

An aggregation keeps as little as its result needs. None is no value: it is passed over, as in SQL.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from numbers import Integral, Rational, Real
from typing import Any, ClassVar

from fulmen.errors import repr_of
from fulmen.windows import sketches


class Aggregation(ABC):
    """One aggregate of a window: what it begins with, how a value is added, and the result.

    Derive from it for one of your own, and name the class in `own` of a class derived from
    `Aggregate`. What it keeps must be picklable.

    Attributes:
        arguments: How many arguments it takes after the field.
        by: Whether a second field follows the first one, as in `max_by(name, price)`. Then a value
            is a pair: those of both fields. There is none if that of the second field is None.
        type: Of its result, by the names that `fields` of a format has; "" if it depends.
        numbers: Whether it takes numbers only. A field that is declared as something else is told
            before any data flow.
        in_place: Whether `add` changes what was kept, and can't raise.
        splits: Whether the result is exactly the same if parts of the values are added up apart,
            and then merged: not so for sums of floats. Then it is done where it saves something.
        variants: Other aggregations, by the word after the field: `distinct(x, approximate)`.
    """

    arguments: ClassVar[int] = 0
    by: ClassVar[bool] = False
    type: ClassVar[str] = ""
    numbers: ClassVar[bool] = False
    in_place: ClassVar[bool] = False
    splits: ClassVar[bool] = False
    variants: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, *arguments: str) -> None:
        """Take the arguments that follow the field in the parentheses, as text.

        Raises:
            ValueError: They don't fit this aggregation.
        """

    @abstractmethod
    def init(self) -> Any:
        """The value to keep before the first value."""

    def check(self, value: Any) -> str | None:  # noqa: ARG002 (for those that take some values only)
        """Say what is wrong with a field's value before it is added; None: nothing."""
        return None

    @abstractmethod
    def add(self, kept: Any, value: Any, time: int) -> Any:
        """Add a value that is not None, and return what to keep.

        Args:
            kept: What was kept before. It may be changed in place.
            value: The value.
            time: The event time of its tuple.
        """

    @abstractmethod
    def merge(self, kept: Any, other: Any) -> Any:
        """Merge what is kept of two windows into one."""

    def absorb(self, kept: Any, other: Any) -> Any:
        """Merge as `merge`, but `kept` may be changed in place, as by `add`."""
        return self.merge(kept, other)

    def result(self, kept: Any) -> Any:
        """The value to emit."""
        return kept


class Count(Aggregation):
    """The number of tuples, or of values that are not None."""

    type = "int64"
    splits = True

    def init(self) -> int:  # noqa: D102
        return 0

    def add(self, kept: int, value: Any, time: int) -> int:  # noqa: ARG002, D102
        return kept + 1

    def merge(self, kept: int, other: int) -> int:  # noqa: D102
        return kept + other


class _OrNone(Aggregation):
    """Keeps None until there is a value."""

    splits = True

    def init(self) -> Any:
        return None

    def merge(self, kept: Any, other: Any) -> Any:
        return kept if other is None else self.add(kept, *self._taken(other))

    def _taken(self, kept: Any) -> tuple[Any, int]:
        """The value that is kept, and its time."""
        return kept, 0


class _OfNumbers(Aggregation):
    numbers = True

    def check(self, value: Any) -> str | None:
        if isinstance(value, Real | Decimal) and not isinstance(value, bool):
            return None
        return f"{repr_of(value)[:80]} is no number"


class Sum(_OfNumbers, _OrNone):
    """The sum; None without values."""

    splits = False  # of floats, the last digits may differ

    def add(self, kept: Any, value: Any, time: int) -> Any:  # noqa: ARG002, D102
        number = number_of(value)
        return number if kept is None else _plus(kept, number)


class Mean(_OfNumbers):
    """The arithmetic mean, as a float; None without values."""

    type = "float64"

    def init(self) -> tuple[int, Any]:  # noqa: D102
        return 0, 0

    def add(self, kept: tuple[int, Any], value: Any, time: int) -> tuple[int, Any]:  # noqa: ARG002, D102
        return kept[0] + 1, _plus(kept[1], number_of(value))

    def merge(self, kept: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:  # noqa: D102
        return kept[0] + other[0], _plus(kept[1], other[1])

    def result(self, kept: tuple[int, Any]) -> float | None:  # noqa: D102
        return float(kept[1] / kept[0]) if kept[0] else None


EXACT = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Adds up decimals to the last digit. Python's own context has 28 digits, and Arrow's decimals have
up to 76. Its end keeps `1E+999999` from taking all memory. Infinity less itself is NaN, as it is of
floats."""
_EXACT_TYPES = {int, float, Decimal}


def number_of(value: Any) -> Any:
    """A number that is added up without an overflow, which those of NumPy have."""
    if value.__class__ in _EXACT_TYPES:
        return value
    if isinstance(value, Integral):
        return int(value)
    return value if isinstance(value, Decimal | Rational) else float(value)


def _plus(one: Any, other: Any) -> Any:
    """A sum, of a Decimal and a float as well."""
    if not (isinstance(one, Decimal) or isinstance(other, Decimal)):
        return one + other
    if isinstance(one, float) or isinstance(other, float):
        return float(one) + float(other)
    if isinstance(one, Decimal | int) and isinstance(other, Decimal | int):
        return EXACT.add(one, other)
    return one + other


class Min(_OrNone):
    """The least value; None without values. NaN is above all numbers, as in SQL."""

    def add(self, kept: Any, value: Any, time: int) -> Any:  # noqa: ARG002, D102
        if kept is None or kept != kept:
            return value
        return value if value == value and value < kept else kept


class Max(_OrNone):
    """The greatest value; None without values. NaN is above all numbers, as in SQL."""

    def add(self, kept: Any, value: Any, time: int) -> Any:  # noqa: ARG002, D102
        if kept is None or value != value:
            return value
        return value if kept == kept and value > kept else kept


class MaxBy(_OrNone):
    """The value of the tuple in which another field is greatest, also if that value is None.

    Of several, it is that of the earliest event time, and of equal times the first to come. So the
    values of several fields by the same one are those of the same tuple.
    """

    by = True

    def add(self, kept: Any, value: tuple[Any, Any], time: int) -> tuple[Any, int, Any]:  # noqa: D102
        found, by = value
        if kept is not None:
            best, since, _ = kept
            if not self.beats(by, best) and (time >= since or self.beats(best, by)):
                return kept  # type: ignore[no-any-return]
        return by, time, found

    def beats(self, one: Any, other: Any) -> bool:
        """Whether one value of the other field is preferred. NaN is above all numbers."""
        if one != one or other != other:  # a decimal NaN can't be compared
            return bool(one != one and other == other)
        return bool(one > other)

    def _taken(self, kept: Any) -> tuple[Any, int]:
        return (kept[2], kept[0]), kept[1]

    def result(self, kept: tuple[Any, int, Any] | None) -> Any:  # noqa: D102
        return None if kept is None else kept[2]


class MinBy(MaxBy):
    """The value of the tuple in which another field is least, as `MaxBy`."""

    def beats(self, one: Any, other: Any) -> bool:
        """Whether one value of the other field is preferred: the lesser one."""
        if one != one or other != other:
            return bool(other != other and one == one)
        return bool(one < other)


def whole_number(count: str) -> int:
    """The number that a text is.

    Raises:
        ValueError: It is none from 1 to 999999.
    """
    if not re.fullmatch(r"[1-9][0-9]{0,5}", count):
        raise ValueError(f"{count!r} is no whole number from 1 to 999999")
    return int(count)


class First(_OrNone):
    """The value with the earliest event time; of equal times the one that came first."""

    def add(self, kept: tuple[int, Any] | None, value: Any, time: int) -> tuple[int, Any]:  # noqa: D102
        return (time, value) if kept is None or time < kept[0] else kept

    def _taken(self, kept: tuple[int, Any]) -> tuple[Any, int]:
        return kept[1], kept[0]

    def result(self, kept: tuple[int, Any] | None) -> Any:  # noqa: D102
        return None if kept is None else kept[1]


class Last(First):
    """The value with the latest event time; of equal times the one that came last."""

    def add(self, kept: tuple[int, Any] | None, value: Any, time: int) -> tuple[int, Any]:  # noqa: D102
        return (time, value) if kept is None or time >= kept[0] else kept


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


class Quantile(_Sketched, _OfNumbers):
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
