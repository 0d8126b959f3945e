"""Aggregations of one field's values in one window: counts, sums and others. Pure.

An aggregation keeps as little as its result needs. None is no value: it is passed over, as in SQL.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from numbers import Integral, Rational, Real
from typing import Any, ClassVar

from fulmen.errors import repr_of


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


class NumbersOnly(Aggregation):
    """Takes numbers only."""

    numbers = True

    def check(self, value: Any) -> str | None:  # noqa: D102
        if isinstance(value, Real | Decimal) and not isinstance(value, bool):
            return None
        return f"{repr_of(value)[:80]} is no number"


class Sum(NumbersOnly, _OrNone):
    """The sum; None without values."""

    splits = False  # of floats, the last digits may differ

    def add(self, kept: Any, value: Any, time: int) -> Any:  # noqa: ARG002, D102
        number = number_of(value)
        return number if kept is None else _plus(kept, number)


class Mean(NumbersOnly):
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
