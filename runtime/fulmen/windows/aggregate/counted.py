"""Windows by count: so many tuples of a key, in the order in which they come."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.kept import Key, Windows


class CountedWindows(Windows):
    """Windows by count of one task. A key has one window at a time."""

    def __init__(self, size: int, *rest: Any) -> None:
        """`size`: how many tuples."""
        super().__init__(*rest)
        self._size = size

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        known = self.state.get(key)
        count, first, last, kept = known or (0, time, time, self._aggregates.new())
        kept = list(kept)
        span = min(first, time), max(last, time)
        self._aggregates.add([kept], values, time)
        if count + 1 < self._size:
            self.state[key] = (count + 1, *span, kept)
            return
        self.state.pop(key, None)
        collector.emit([*key, *self.when(span), *self._aggregates.results(kept)])

    @override
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        """It has no timers."""

    @override
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        """It has no timers."""
