"""Adds each different value of a key once, and many numbers at once to sketches.

The result is that of `Aggregation.add` for each value: values come to a key in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from fulmen.api.times.arrow_times import Numbers
from fulmen.windows.aggregate.adding.adder import Adder, OfNumbers
from fulmen.windows.columns import WindowRows
from fulmen.windows.functions.aggregations import Aggregation

FEW = 4
"""Fewer numbers of a key are added one by one: a call with an array costs more than one with a
number."""


class _OfValues(Adder):
    """Counts the different values of each key.

    Attributes:
        values: The different values of the whole column.
        codes: The number of each row's value; for null it means nothing.
    """

    values: Sequence[Any]
    codes: Numbers

    @classmethod
    def of(cls, aggregation: Aggregation, column: pa.Array, times: Numbers) -> Self | None:
        """Make one; None: values that Arrow finds equal may differ."""
        if isinstance(column, pa.ExtensionArray):
            return None
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            return None  # a NaN is in a set once for each object
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            return None
        found = cls(aggregation, column, times)
        found.values = encoded.dictionary.to_pylist()
        indices = encoded.indices.fill_null(0) if encoded.null_count else encoded.indices
        found.codes = indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return found

    def _pairs(self, part: WindowRows) -> Iterator[tuple[int, Any, int]]:
        """Key, value and how often, of each different pair, in the order in which they come."""
        keys, codes = part.keys.codes, self._of(self.codes, part.rows)
        assert self._column is not None
        if self._column.null_count:
            valid = self._some(part.rows).is_valid().to_numpy(zero_copy_only=False)
            keys, codes = keys[valid], codes[valid]
        n = max(len(self.values), 1)
        found = pa.array(keys * n + codes).dictionary_encode()
        pairs = found.dictionary.to_numpy()
        counts = np.bincount(found.indices.to_numpy(), minlength=len(pairs))
        values = map(self.values.__getitem__, (pairs % n).tolist())
        return zip((pairs // n).tolist(), values, counts.tolist(), strict=True)


class Frequencies(_OfValues):
    """Counts of each value."""

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        for key, value, count in self._pairs(part):
            counter = kept[key]
            counter[value] = counter.get(value, 0) + count
        return kept


class DifferentValues(_OfValues):
    """The different values, or about how many there are."""

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        for key, value, _ in self._pairs(part):
            kept[key].add(value)
        return kept


class Quantiles(OfNumbers):
    """Sketches of numbers."""

    @override
    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        codes, numbers = self._numbers(part)
        if len(codes) < FEW * len(kept):
            return super().add(kept, part)
        order = np.argsort(codes, kind="stable")  # those of a key in the order in which they come
        numbers = numbers[order].astype(np.float64)
        ends = np.cumsum(np.bincount(codes, minlength=len(kept))).tolist()
        start = 0
        for one, end in zip(kept, ends, strict=True):
            if start < end:
                one.add_all(numbers[start:end])
            start = end
        return kept
