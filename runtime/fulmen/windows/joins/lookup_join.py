"""Joins what comes with a table as it is."""

from __future__ import annotations

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.windows.joins.join import LEFT, Join, Key, Row
from fulmen.windows.joins.options import LookupJoinOptions


class LookupJoin(Join):
    """Emits each left tuple at once, with the right row of its key that is there then.

    The right side is a table: of each key the row that has come last. With `right.time` it is the
    one with the latest time; one that is older than what is there changes nothing. Rows are kept
    for good.
    """

    # State: key -> time and row.

    config_model = LookupJoinOptions
    emits_results = False  # a left tuple that comes again is looked up again
    needs_times = False

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        known: tuple[int, Row] | None = self.state.get(key)
        if side != LEFT:
            if known is None or known[0] <= time:
                self.state[key] = (time, row)
        elif known is None:
            self.unmatched(LEFT, row, collector)
        else:
            self.matched(LEFT, row, known[1], collector)
        return True
