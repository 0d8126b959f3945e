"""Adds the rows of a chunk to a window at once: exactly what `Aggregation.add` makes of each.

Values are lists of Python's. What Python does with a whole list in C costs a tenth of what it
costs for each value, and nothing has to be converted first: so a chunk of 20 rows is no dearer for
each of them than one of 20,000. Rows that come as Arrow have columns already: see `by_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from fulmen.windows.aggregate.adding.chunk_rows import FieldValues, Groups
from fulmen.windows.functions.aggregations import Aggregation, Sum
from fulmen.windows.inputs import MAY_HAVE_NO_HASH, PLAIN

Add = Callable[[Any, Sequence[Any], Groups, int, int], Sequence[Any]]
"""Adds the rows of some keys, and returns what to keep of each. It takes the aggregation, what is
kept of each key, the rows, the place of the field, and that of the second field. If it raises,
nothing is changed."""
NUMBERS: Set[type] = {int, float, Decimal}
_WITH_FLOATS: Set[type] = {int, float, type(None)}
_FEW = 4
"""Fewer numbers are added to a sketch one by one: a call with an array costs more than with one."""


def one_by_one(
    aggregation: Aggregation, kept: Sequence[Any], groups: Groups, place: int, by: int
) -> Sequence[Any]:
    """What is kept of each key after its rows were added one by one."""
    add_one, columns, times = aggregation.add, groups.rows.columns, groups.rows.times
    values: Sequence[Any] = columns[place].values
    if by >= 0:
        values = list(zip(values, columns[by].values, strict=True))
        place = by
    found = []
    for old, at in zip(kept, groups.with_value(place), strict=True):
        for i in at:
            old = add_one(old, values[i], times[i])  # type: ignore[arg-type]
        found.append(old)
    return found


def counts(
    aggregation: Aggregation,  # noqa: ARG001 (as all others)
    kept: Sequence[int],
    groups: Groups,
    place: int,
    by: int,  # noqa: ARG001
) -> Sequence[int]:
    """How many rows, or values."""
    rows: Sequence[Sequence[Any]] = groups.ats if place < 0 else groups.values(place)
    return [old + len(some) for old, some in zip(kept, rows, strict=True)]


def sums(
    aggregation: Aggregation, kept: Sequence[Any], groups: Groups, place: int, by: int
) -> Sequence[Any]:
    """Sums of numbers."""
    kinds, kept_kinds = groups.rows.columns[place].kinds, set(map(type, kept))
    if kinds is None or not (kinds <= _WITH_FLOATS and kept_kinds <= _WITH_FLOATS):
        return one_by_one(aggregation, kept, groups, place, by)
    rows = zip(kept, groups.values(place), strict=True)
    if float in kinds or float in kept_kinds:  # `sum` rounds in another way from Python 3.12 on
        return [
            reduce(add, values, old) if old is not None else reduce(add, values or (None,))
            for old, values in rows
        ]
    return [sum(values, old or 0) if values else old for old, values in rows]


_SUM = Sum()


def means(
    aggregation: Aggregation,  # noqa: ARG001
    kept: Sequence[Any],
    groups: Groups,
    place: int,
    by: int,
) -> Sequence[Any]:
    """Counts and sums of numbers."""
    totals = sums(_SUM, [total for _, total in kept], groups, place, by)
    more = map(len, groups.values(place))
    return [
        (before + count, total)
        for (before, _), count, total in zip(kept, more, totals, strict=True)
    ]


def greatest(
    aggregation: Aggregation, kept: Sequence[Any], groups: Groups, place: int, by: int
) -> Sequence[Any]:
    """The greatest values."""
    if not groups.rows.columns[place].is_ordered:
        return one_by_one(aggregation, kept, groups, place, by)
    found = [max(values) if values else None for values in groups.values(place)]
    return [  # as `Max.add` has it, without a call for each
        new if old is None or (new is not None and new > old) else old
        for old, new in zip(kept, found, strict=True)
    ]


def least(
    aggregation: Aggregation, kept: Sequence[Any], groups: Groups, place: int, by: int
) -> Sequence[Any]:
    """The least values."""
    if not groups.rows.columns[place].is_ordered:
        return one_by_one(aggregation, kept, groups, place, by)
    found = [min(values) if values else None for values in groups.values(place)]
    return [
        new if old is None or (new is not None and (new < old or old != old)) else old
        for old, new in zip(kept, found, strict=True)
    ]


def best_by(choose: Any) -> Add:
    """The values of the rows in which a second field is least or greatest."""

    def add_best(
        aggregation: Aggregation, kept: Sequence[Any], groups: Groups, place: int, by: int
    ) -> Sequence[Any]:
        columns, times = groups.rows.columns, groups.rows.times
        if not columns[by].is_ordered:
            return one_by_one(aggregation, kept, groups, place, by)
        values, bys, add_one = columns[place].values, columns[by].values, aggregation.add
        return [
            old if i < 0 else add_one(old, (values[i], bys[i]), times[i])  # type: ignore[arg-type]
            for old, i in zip(kept, groups.best(by, choose), strict=True)
        ]

    return add_best


def _end_by(choose: Callable[[Sequence[int], Callable[[int], Any]], int]) -> Add:
    def add_end(
        aggregation: Aggregation,
        kept: Sequence[Any],
        groups: Groups,
        place: int,
        by: int,  # noqa: ARG001
    ) -> Sequence[Any]:
        values, times = groups.rows.columns[place].values, groups.rows.times
        time_of: Callable[[int], Any] = times.__getitem__
        ends = [choose(at, time_of) if at else -1 for at in groups.with_value(place)]
        return [
            old if i < 0 else aggregation.add(old, values[i], times[i])  # type: ignore[arg-type]
            for old, i in zip(kept, ends, strict=True)
        ]

    return add_end


firsts = _end_by(lambda at, time_of: min(at, key=time_of))
lasts = _end_by(lambda at, time_of: max(at[::-1], key=time_of))


def lists(
    aggregation: Aggregation,  # noqa: ARG001
    kept: Sequence[Any],
    groups: Groups,
    place: int,
    by: int,  # noqa: ARG001
) -> Sequence[Any]:
    """All values, with their times."""
    times = groups.rows.times
    rows = zip(kept, groups.with_value(place), groups.values(place), strict=True)
    for old, at, values in rows:
        old.extend(zip([times[i] for i in at], values, strict=True))
    return kept


def sets(
    aggregation: Aggregation,  # noqa: ARG001
    kept: Sequence[Any],
    groups: Groups,
    place: int,
    by: int,  # noqa: ARG001
) -> Sequence[Any]:
    """The different values, or how often each came."""
    for old, values in zip(kept, groups.values(place), strict=True):
        if values:
            old.update(values)
    return kept


def sketches(
    aggregation: Aggregation,  # noqa: ARG001
    kept: Sequence[Any],
    groups: Groups,
    place: int,
    by: int,  # noqa: ARG001
) -> Sequence[Any]:
    """About how many different values there are."""
    for old, values in zip(kept, groups.values(place), strict=True):
        for value in dict.fromkeys(values):
            old.add(value)
    return kept


def quantiles(
    aggregation: Aggregation,  # noqa: ARG001
    kept: Sequence[Any],
    groups: Groups,
    place: int,
    by: int,  # noqa: ARG001
) -> Sequence[Any]:
    """Sketches of numbers."""
    for old, values in zip(kept, groups.values(place), strict=True):
        if len(values) < _FEW:
            for value in values:
                old.add(value)
        else:
            old.add_all(np.array(values, np.float64))
    return kept


class Usual(NamedTuple):
    """What an aggregation takes without a look at each value.

    Attributes:
        is_column: Whether `check` refuses none of a column's values, as their types tell.
        kinds: The types of single values of which that is always so.
    """

    is_column: Callable[[FieldValues], bool]
    kinds: Set[type]


def _are_floats(column: FieldValues) -> bool:
    """Whether floats can be all numbers of a column."""
    if column.kinds is None or not column.kinds <= {int, float}:
        return False
    try:
        return all(float(value) is not None for value in column.values if value is not None)
    except OverflowError:
        return False


HASHABLE = Usual(lambda column: column.kinds is not None, PLAIN - MAY_HAVE_NO_HASH)
ARE_NUMBERS = Usual(
    lambda column: column.kinds is not None and column.kinds <= NUMBERS, NUMBERS | {type(None)}
)
ARE_FLOATS = Usual(_are_floats, {float, type(None)})
