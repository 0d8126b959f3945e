"""Adds the values of many rows to one aggregate, value by value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fulmen.api.times.arrow_times import Numbers
from fulmen.windows.columns import Positions, WindowRows
from fulmen.windows.functions.aggregations import Aggregation


class Adder:
    """Adds to one aggregate. This one needs each value by itself.

    Attributes:
        column: The type of NumPy's numbers, if `add_to` can add to a column of them.
    """

    column: Any = None

    def __init__(self, aggregation: Aggregation, column: pa.Array | None, times: Numbers) -> None:
        """`column`: the values of all rows; None: none are needed. `times`: their event times."""
        self._aggregation, self._column, self._times = aggregation, column, times

    def fits(self, kept: Sequence[Any]) -> bool:  # noqa: ARG002 (for those below)
        """Whether adding these values to what is kept of some keys can't fail."""
        return True

    def add(self, kept: Sequence[Any], part: WindowRows) -> Sequence[Any]:
        """Add the rows of a part.

        Args:
            kept: What is kept for each of its keys. It may be changed in place.
            part: The rows, and the key of each.

        Returns:
            The values to keep.
        """
        found, add = list(kept), self._aggregation.add
        values = self._values(part.rows)
        times = self._of(self._times, part.rows).tolist()
        for key, value, time in zip(part.keys.codes.tolist(), values, times, strict=True):
            if value is not None:
                found[key] = add(found[key], value, time)
        return found

    def has_room(self, values: Any) -> bool:  # noqa: ARG002 (for those below)
        """Whether a column can hold what these values make of it."""
        return True

    def add_to(self, values: Any, there: Any, places: Any, part: WindowRows) -> None:
        """Add the rows of a part to a column, in place, if `column` says that this can.

        Args:
            values: The column.
            there: Which rows of it have a value.
            places: The row of each of the part's keys.
            part: The rows, and the key of each.
        """
        raise NotImplementedError  # `column` says so

    def _values(self, rows: Positions | None) -> Sequence[Any]:
        """The values of some rows, as Python has them."""
        found: Sequence[Any] = self._some(rows).to_pylist()
        return found

    def _some(self, rows: Positions | None) -> Any:
        assert self._column is not None
        return self._column if rows is None else self._column.take(pa.array(rows))

    @staticmethod
    def _of(numbers: Numbers, rows: Positions | None) -> Numbers:
        return numbers if rows is None else numbers[rows]

    def _merged(self, kept: Sequence[Any], others: Sequence[Any]) -> Sequence[Any]:
        return list(map(self._aggregation.merge, kept, others))


class OfNumbers(Adder):
    """Adds numbers, which NumPy has."""

    def __init__(
        self, aggregation: Aggregation, column: pa.Array, times: Numbers, numbers: Any, valid: Any
    ) -> None:
        """`numbers`: the values. `valid`: which of them are no nulls; None: all."""
        super().__init__(aggregation, column, times)
        self._all_numbers, self._valid = numbers, valid

    def _numbers(self, part: WindowRows) -> tuple[Numbers, Any]:
        """The codes and the numbers of the rows that have one."""
        codes, numbers = part.keys.codes, self._of(self._all_numbers, part.rows)
        if self._valid is not None:
            valid = self._of(self._valid, part.rows)
            codes, numbers = codes[valid], numbers[valid]
        return codes, numbers
