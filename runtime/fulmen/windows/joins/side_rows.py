"""What has come of a side of a join, many tuples at once, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException

Key = tuple[Any, ...]
Columns = Sequence[Sequence[Any]]
Row = list[Any]
"""The values of a tuple to emit."""
MAY_EQUAL_NONE = {type(None), float, Decimal}
"""Types of values that may be None or NaN, which equal no other one."""


class SideRows(NamedTuple):
    """What has come of a side, in its order.

    Attributes:
        keys: The keys.
        times: The event times; 0 where a join has none.
        rows: The values to emit.
        alone: The places of those whose key has None or NaN.
        retracted: The places of those that take back an earlier row.
        failed: The places of those that have failed already, which are `alone` as well.
        columns: Gives the columns of keys, and those of rows; None: they are not at hand.
    """

    keys: Sequence[Key]
    times: Sequence[int]
    rows: Sequence[Row]
    alone: AbstractSet[int] = frozenset()
    retracted: AbstractSet[int] = frozenset()
    failed: AbstractSet[int] = frozenset()
    columns: Callable[[], tuple[Columns, Columns]] | None = None


@dataclass(slots=True)
class JoinedRows:
    """What comes of arrivals.

    Attributes:
        rows: The rows to emit.
        places: Of each, the place of the arrival by which it is emitted; they ascend.
        late: The places of those that are late, ascending.
        failed: The place of each that has failed, and why.
        place: That of the arrival at hand.
    """

    rows: list[Row] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    failed: list[tuple[int, FailedException]] = field(default_factory=list)
    place: int = 0

    def emit(self, row: Row) -> None:
        """Emit a row because of the arrival at hand."""
        self.rows.append(row)
        self.places.append(self.place)


Emits = JoinedRows | BasicOutputCollector
"""What takes rows: of arrivals, or in `on_timer`."""
