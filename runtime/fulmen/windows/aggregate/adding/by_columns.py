"""Adds the values of many rows to windows at once: exactly what `Aggregation.add` makes of each.

Numbers are counted, summed and compared by NumPy; of the first and last values only those that
count become Python's, and of different ones each once: see `by_values`. Other aggregates get value
after value, but only they. Sums of floats are added up in the order of the rows, onto what is kept:
so their last digits are the same as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from operator import add, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from fulmen.api.times.arrow_times import Mask, Numbers
from fulmen.windows.aggregate.adding.adder import Adder, OfNumbers
from fulmen.windows.aggregate.adding.by_values import DifferentValues, Frequencies, Quantiles
from fulmen.windows.columns import Positions, WindowRows
from fulmen.windows.functions.aggregations import Aggregation, Last, Max, Mean
from fulmen.windows.functions.collected import ApproximateDistinct

_LARGEST = np.iinfo(np.int64).max
_WHOLE: tuple[Any, Any] = (-_LARGEST - 1, _LARGEST)
_INFINITE: tuple[Any, Any] = (-np.inf, np.inf)
_LIMIT = 2**1000
"""Smaller whole numbers fit into a float, and can be added to decimals."""
_SECOND = itemgetter(1)


class OfOneType(Adder):
    """Compares values, which must be of the type of what is kept."""

    def __init__(
        self, aggregation: Aggregation, column: pa.Array, times: Numbers, kind: type
    ) -> None:
        super().__init__(aggregation, column, times)
        self._kind = kind

    @override
    def fits(self, kept: Sequence[Any]) -> bool:
        return all(map(self._fits, kept))

    def _fits(self, kept: Any) -> bool:
        return kept is None or (type(kept) is self._kind and _is_comparable(kept))


class ExactSums(OfOneType):
    """Adds up decimals, or whole numbers that are too large for NumPy, one by one."""

    @override
    def _fits(self, kept: Any) -> bool:
        total = kept[1] if type(kept) is tuple else kept  # of a mean
        if total is None or type(total) not in (int, self._kind):
            return total is None
        return self._kind is int or (_is_comparable(total) and abs(total) < _LIMIT)


def _is_comparable(value: Any) -> bool:
    """Whether a value is not NaN."""
    return bool(value.is_finite() if isinstance(value, Decimal) else value == value)


class Pairs(OfOneType):
    """Chooses by the values of a second field."""

    def __init__(
        self, aggregation: Aggregation, column: pa.Array, times: Numbers, bys: pa.Array, kind: type
    ) -> None:
        super().__init__(aggregation, column, times, kind)
        self._bys = bys

    @override
    def _fits(self, kept: Any) -> bool:
        return kept is None or super()._fits(kept[0])

    @override
    def _values(self, rows: Positions | None) -> Sequence[Any]:
        some = self._bys if rows is None else self._bys.take(pa.array(rows))
        pairs = zip(super()._values(rows), some.to_pylist(), strict=True)
        return [None if pair[1] is None else pair for pair in pairs]


class Counts(Adder):
    """Counts rows, or those that have a value."""

    column = np.int64

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        return list(map(add, kept, self._counts(part, len(kept)).tolist()))

    @override
    def add_to(self, values: Any, there: Any, places: Any, part: WindowRows) -> None:
        values[places] += self._counts(part, len(places))
        there[places] = True

    def _counts(self, part: WindowRows, n: int) -> Any:
        codes = part.keys.codes
        if self._column is not None and self._column.null_count:
            codes = codes[self._some(part.rows).is_valid().to_numpy(zero_copy_only=False)]
        return np.bincount(codes, minlength=n)


class Ends(Adder):
    """The first or the last values."""

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        codes, rows = part.keys.codes, part.rows
        assert self._column is not None
        positions = np.arange(len(codes)) if rows is None else rows
        if self._column.null_count:
            valid = self._some(rows).is_valid().to_numpy(zero_copy_only=False)
            codes, positions = codes[valid], positions[valid]
        times = self._times[positions]
        is_last = isinstance(self._aggregation, Last)
        best = np.full(len(kept), -_LARGEST if is_last else _LARGEST, np.int64)
        (np.maximum if is_last else np.minimum).at(best, codes, times)
        hits = np.flatnonzero(times == best[codes])
        if not is_last:
            hits = hits[::-1]
        place = np.full(len(kept), -1, np.int64)
        place[codes[hits]] = hits  # of several the last one stays
        some = np.flatnonzero(place >= 0)
        values = self._some(positions[place[some]]).to_pylist()
        others: list[Any] = [None] * len(kept)
        for key, time, value in zip(some.tolist(), best[some].tolist(), values, strict=True):
            others[key] = time, value
        return self._merged(kept, others)


class Extremes(OfNumbers):
    """The least or the greatest numbers."""

    @override
    def fits(self, kept: Sequence[Any]) -> bool:
        return set(map(type, kept)) <= {type(None), int, float, bool}

    @property
    def column(self) -> Any:
        """See `Adder`."""
        return self._all_numbers.dtype.type

    @override
    def add_to(self, values: Any, there: Any, places: Any, part: WindowRows) -> None:
        codes, numbers = self._numbers(part)
        best = np.where(there[places], values[places], self._worst)
        self._better.at(best, codes, numbers)
        values[places] = best
        there[places[codes]] = True

    @property
    def _better(self) -> np.ufunc:
        return np.maximum if isinstance(self._aggregation, Max) else np.minimum

    @property
    def _worst(self) -> Any:
        """The number that all others are better than."""
        ends = _INFINITE if self._all_numbers.dtype == np.float64 else _WHOLE
        return self._all_numbers.dtype.type(ends[not isinstance(self._aggregation, Max)])

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        codes, numbers = self._numbers(part)
        is_max = isinstance(self._aggregation, Max)
        best = np.full(len(kept), self._worst, numbers.dtype)  # it is not asked for without one
        self._better.at(best, codes, numbers)
        has_some = np.bincount(codes, minlength=len(kept)).tolist()
        rows = zip(kept, best.tolist(), has_some, strict=True)
        if is_max:  # as `merge` has it, without two calls for each; no new one is NaN
            return [new if some and (old is None or new > old) else old for old, new, some in rows]
        return [
            new if some and (old is None or new < old or old != old) else old
            for old, new, some in rows
        ]


class ColumnTotals(OfNumbers):
    """Sums and means of whole numbers whose sum fits NumPy's integers."""

    @property
    def column(self) -> Any:
        """See `Adder`."""
        return None if isinstance(self._aggregation, Mean) else np.int64

    @override
    def has_room(self, values: Any) -> bool:
        numbers = self._all_numbers
        most = len(numbers) * max(map(abs, _ends(numbers)), default=0)
        return most + max(map(abs, _ends(values)), default=0) <= _LARGEST

    @override
    def add_to(self, values: Any, there: Any, places: Any, part: WindowRows) -> None:
        codes, numbers = self._numbers(part)
        np.add.at(values, places[codes], numbers)
        there[places[codes]] = True

    @override
    def fits(self, kept: Sequence[Any]) -> bool:
        totals = map(_SECOND, kept) if isinstance(self._aggregation, Mean) else kept
        return set(map(type, totals)) <= {type(None), int}

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        codes, numbers = self._numbers(part)
        sums = np.zeros(len(kept), np.int64)
        np.add.at(sums, codes, numbers)
        counts = np.bincount(codes, minlength=len(kept)).tolist()
        rows = zip(kept, counts, sums.tolist(), strict=True)
        if isinstance(self._aggregation, Mean):
            return [(old[0] + count, old[1] + total) for old, count, total in rows]
        return [(old or 0) + total if count else old for old, count, total in rows]


def _ends(numbers: Any) -> Sequence[int]:
    """The least and the greatest of whole numbers, as Python has them."""
    return (int(numbers.min()), int(numbers.max())) if len(numbers) else ()


class FloatTotals(OfNumbers):
    """Sums and means of floats, added in the order of the rows."""

    @property
    def column(self) -> Any:
        """See `Adder`."""
        return None if isinstance(self._aggregation, Mean) else np.float64

    @override
    def add_to(self, values: Any, there: Any, places: Any, part: WindowRows) -> None:
        codes, numbers = self._numbers(part)
        values[places] = np.where(there[places], values[places], -0.0)  # as in `add`
        with np.errstate(all="ignore"):
            np.add.at(values, places[codes], numbers)
        there[places[codes]] = True

    @override
    def fits(self, kept: Sequence[Any]) -> bool:
        totals = map(_SECOND, kept) if isinstance(self._aggregation, Mean) else kept
        return all(
            one is None or type(one) is float or (type(one) is int and abs(one) < _LIMIT)
            for one in totals
        )

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        codes, numbers = self._numbers(part)
        is_mean = isinstance(self._aggregation, Mean)
        before = [one[1] for one in kept] if is_mean else kept
        # -0.0 changes no float that is added to it
        sums = np.array([-0.0 if total is None else float(total) for total in before])
        with np.errstate(all="ignore"):  # as Python says nothing of infinite sums
            np.add.at(sums, codes, numbers)
        counts = np.bincount(codes, minlength=len(kept)).tolist()
        found: list[Any] = []
        for old, count, total in zip(kept, counts, sums.tolist(), strict=True):
            if not count:
                found.append(old)
            else:
                found.append((old[0] + count, total) if is_mean else total)
        return found


def frequencies(aggregation: Aggregation, column: pa.Array, times: Numbers) -> Adder | None:
    """The adder for values whose frequencies count."""
    if pa.types.is_nested(column.type):  # has no hash
        return None
    return Frequencies.of(aggregation, column, times) or Adder(aggregation, column, times)


def different(aggregation: Aggregation, column: pa.Array, times: Numbers) -> Adder | None:
    """The adder for values that count once each."""
    if pa.types.is_nested(column.type) and not isinstance(aggregation, ApproximateDistinct):
        return None
    return DifferentValues.of(aggregation, column, times) or Adder(aggregation, column, times)


def _is_number(kind: pa.DataType) -> bool:
    is_float = pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return bool(is_float or pa.types.is_integer(kind) or pa.types.is_decimal128(kind))


def quantiles(aggregation: Aggregation, column: pa.Array, times: Numbers) -> Adder | None:
    """The adder for numbers of a sketch."""
    if not _is_number(column.type):
        return None
    if (in_numpy := _in_numpy(column)) is None:
        return Adder(aggregation, column, times)
    return Quantiles(aggregation, column, times, *in_numpy)


def sums(aggregation: Aggregation, column: pa.Array, times: Numbers) -> Adder | None:
    """The adder for sums and means."""
    if not _is_number(column.type):
        return None
    if (in_numpy := _in_numpy(column)) is None:
        kind = Decimal if pa.types.is_decimal(column.type) else int
        return ExactSums(aggregation, column, times, kind)
    numbers, _ = in_numpy
    if numbers.dtype != np.int64:
        return FloatTotals(aggregation, column, times, *in_numpy)
    if len(numbers) and len(numbers) * max(int(numbers.max()), -int(numbers.min())) > _LARGEST:
        return ExactSums(aggregation, column, times, int)
    return ColumnTotals(aggregation, column, times, *in_numpy)


_TYPES: Sequence[tuple[Callable[[pa.DataType], bool], type]] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_float32, float),
    (pa.types.is_float64, float),
    (pa.types.is_decimal128, Decimal),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
    (pa.types.is_date32, date),
)
"""Values that can always be compared with each other, and what Python makes of them."""


def extremes(aggregation: Aggregation, column: pa.Array, times: Numbers) -> Adder | None:
    """The adder for the least or the greatest value."""
    in_numpy = _in_numpy(column)
    if in_numpy is not None and not _has_special(in_numpy[0]):
        return Extremes(aggregation, column, times, *in_numpy)
    kind = _kind_of(column)
    return None if kind is None else OfOneType(aggregation, column, times, kind)


def pairs(
    aggregation: Aggregation, column: pa.Array, times: Numbers, bys: pa.Array
) -> Adder | None:
    """The adder for an aggregation with a second field; None: rows must be added one by one."""
    kind = _kind_of(bys)
    return None if kind is None else Pairs(aggregation, column, times, bys, kind)


def _kind_of(column: pa.Array) -> type | None:
    """The type of the values of a column, if they can always be compared with each other."""
    return next((kind for is_one, kind in _TYPES if is_one(column.type)), None)


def _has_special(numbers: Any) -> bool:
    """Whether there is a NaN, or a -0.0: then the order of values matters."""
    if numbers.dtype == np.int64:
        return False
    is_special = np.isnan(numbers) | ((numbers == 0) & np.signbit(numbers))
    return bool(is_special.any())


def _in_numpy(column: pa.Array) -> tuple[Any, Mask | None] | None:
    """The numbers of a column, and which are no nulls; None: NumPy has none for them."""
    kind = column.type
    is_float = pa.types.is_float32(kind) or pa.types.is_float64(kind)
    if not is_float and not (pa.types.is_integer(kind) and kind != pa.uint64()):
        return None
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        column = pc.fill_null(column, 0)
    as_kind = pa.float64() if is_float else pa.int64()
    return column.cast(as_kind).to_numpy(zero_copy_only=False), valid
