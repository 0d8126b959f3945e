"""Joins what is in the same window."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.windows.inputs import spans_of
from fulmen.windows.joins.join import LEFT, RIGHT, Join, Key, Row
from fulmen.windows.joins.options import WindowJoinOptions
from fulmen.windows.spans import Span, datetime_of


class WindowJoin(Join):
    """Emits each pair of tuples with equal keys in the same window, when the window has ended.

    With `type` left, right or full, a tuple without any other one in its window is emitted, too.
    """

    # State: (span, key) -> how many rows there are of each side; (span, key, side, n) -> a row.

    config_model = WindowJoinOptions
    transient = (*Join.transient, "_spans")

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        self._spans = context.options.window.spans()

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        live = self._live(time)
        for span in live:
            counts = list(self.state.get((span, key), (0, 0)))
            if not any(counts):
                self._context.timers.set((span, key), span[1])
            self.state[span, key, side, counts[side]] = row
            counts[side] += 1
            self.state[span, key] = tuple(counts)
        return bool(live)

    @override
    def add_without_key(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        live = self._live(time)
        for span in live:
            self.unmatched(side, row, collector, [datetime_of(edge) for edge in span])
        return bool(live)

    def _live(self, time: int) -> list[Span]:
        """The windows of a time that have not ended."""
        watermark = self._context.batch.watermark
        return [s for s in spans_of(self._spans, time) if watermark is None or watermark < s[1]]

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        counts = self.state.pop(key, None)
        if counts is None:
            return
        rows = [
            [self.state.pop((*key, side, n)) for n in range(counts[side])] for side in (LEFT, RIGHT)
        ]
        span = [datetime_of(time) for time in key[0]]
        for one in rows[LEFT]:
            for other in rows[RIGHT]:
                self.matched(LEFT, one, other, collector, span)
        for side in (LEFT, RIGHT):
            if not rows[1 - side]:
                for row in rows[side]:
                    self.unmatched(side, row, collector, span)
