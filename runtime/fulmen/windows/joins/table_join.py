"""Joins two tables as they are."""

from __future__ import annotations

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.windows.joins.join import Join, Key, Row
from fulmen.windows.joins.options import TableJoinOptions

Newest = tuple[int, Row]
"""The time of a row, and the row."""


class TableJoin(Join):
    """Emits the newest rows of both sides of a key, whenever one of them has changed.

    Of each side and key that is the row that has come last. With `time` it is the one with the
    latest time; one that is older than what is there changes nothing. With `type` left, right or
    full, a row is emitted without the other side for as long as that has none. Rows are kept for
    good; a derived class with `state_ttl` forgets keys that have not changed for so long.
    """

    # State: key -> the newest row of the left and of the right side, or None.

    config_model = TableJoinOptions
    emits_results = False  # a row that comes again is emitted again as it is then
    needs_times = False

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        both: list[Newest | None] = list(self.state.get(key, (None, None)))
        before, other = both[side], both[1 - side]
        if before is not None and before[0] > time:
            return True
        both[side] = (time, row)
        self.state[key] = tuple(both)
        if other is None:
            self.unmatched(side, key, row, collector)
        else:
            self.matched(side, row, other[1], collector)
        return True
