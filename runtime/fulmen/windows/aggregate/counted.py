"""Windows by count: so many tuples of a key, in the order in which they come."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.panes import Key
from fulmen.windows.aggregate.windower import Windower


class CountedWindows(Windower):
    """Windows by count of one task. A key has one window at a time."""

    state_part = "first"

    def __init__(self, size: int, *rest: Any) -> None:
        """`size`: how many tuples."""
        super().__init__(*rest)
        self._size = size

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        known = self._state.get(key)
        count, first, last, kept = known or (0, time, time, self._aggregates.new())
        kept = list(kept)
        span = min(first, time), max(last, time)
        self._aggregates.add([kept], values, time)
        if count + 1 < self._size:
            self._state[key] = (count + 1, *span, kept)
            return
        self._state.pop(key, None)
        collector.emit([*key, *self._panes.when(span), *self._aggregates.results(kept)])
