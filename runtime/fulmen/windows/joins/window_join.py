"""Joins what is in the same window."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.api.event_time import milliseconds
from fulmen.windows.inputs import NoEdgesError
from fulmen.windows.joins.join import LEFT, RIGHT, Join
from fulmen.windows.joins.options import WindowJoinOptions
from fulmen.windows.joins.side_rows import Emits, Key, Row
from fulmen.windows.joins.windows import JoinedFixedWindows, JoinedSessions, JoinedWindows
from fulmen.windows.options import Session
from fulmen.windows.spans import Span, datetime_of


class WindowJoin(Join):
    """Emits each pair of tuples with equal keys in the same window, when the window has ended.

    With `type` left, right or full, a tuple without one of the other side in its window is emitted,
    too. A session is of the tuples of both sides: it goes on as long as there is no gap between any
    of them.

    With `allowedLateness`, pairs of what is late are emitted at once; and what has no match when
    nothing more can come.
    """

    config_model = WindowJoinOptions
    transient = (*Join.transient, "_windows")

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        window = context.options.window
        rest = self.state, context, self._clock
        self._windows: JoinedWindows
        if isinstance(window, Session):
            self._windows = JoinedSessions(milliseconds(window.gap), *rest)
        else:
            self._windows = JoinedFixedWindows(window.spans(), *rest)

    @override
    def add(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        ended = self._windows.add(side, key, time, row)
        if ended:
            for span, others in ended:
                for other in others:
                    self.matched(side, row, other, joined, _edges(span))
        return ended is not None

    @override
    def add_without_key(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        live = self._windows.live(time)
        for span in live:
            self.unmatched(side, key, row, joined, _edges(span))
        return bool(live)

    @override
    def more_of(self, time: int | None) -> Row:
        """The edges of its first window; None: no datetime can be one of them."""
        try:
            return [None, None] if time is None else _edges(self._windows.first(time))
        except NoEdgesError:
            return [None, None]

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._windows.end_batch()

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        for of_key, span, rows, has_ended, is_over in self._windows.due(key, int(at)):
            edges = _edges(span)
            if has_ended:
                for one in rows[LEFT]:
                    for other in rows[RIGHT]:
                        self.matched(LEFT, one, other, collector, edges)
            for side in (LEFT, RIGHT) if is_over else ():
                for row in rows[side] if not rows[1 - side] else ():
                    self.unmatched(side, of_key, row, collector, edges)


def _edges(window: Span) -> Row:
    return [datetime_of(edge) for edge in window]
