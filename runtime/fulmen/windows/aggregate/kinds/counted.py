"""Windows by count: so many tuples of a key, in the order in which they come."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.kinds.panes import Key
from fulmen.windows.aggregate.kinds.windower import Windower


class CountedWindows(Windower):
    """Windows by count of one task. A key has one window at a time."""

    state_part = "first"

    def __init__(self, size: int, every: int, *rest: Any) -> None:
        """`size`: how many tuples; `every`: after how many there is a window."""
        super().__init__(*rest)
        self._size, self._every = size, every

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        if self._every < self._size:
            self._add_to_last(key, time, values, collector)
            return
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

    def _add_to_last(
        self, key: Key, time: int, values: list[Any], collector: BasicOutputCollector
    ) -> None:
        """Add a tuple to the last ones of its key. State: how many since a window, and these.

        They are aggregated anew for each window: what an aggregate keeps can't be taken out of it.
        """
        count, rows = self._state.get(key, (0, ()))
        rows = (*rows, (time, values))[-self._size :]
        count = (count + 1) % self._every
        if count == 0:
            kept = self._aggregates.new()
            for at, one in rows:
                self._aggregates.add([kept], one, at)
            times = [at for at, _ in rows]
            span = min(times), max(times)
            collector.emit([*key, *self._panes.when(span), *self._aggregates.results(kept)])
        self._state[key] = count, rows
