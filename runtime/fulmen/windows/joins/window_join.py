"""Joins what is in the same window."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.api.times.event_time import milliseconds
from fulmen.api.tuples import Tuple
from fulmen.windows.disk import is_on_disk
from fulmen.windows.inputs import NoEdgesError
from fulmen.windows.joins.join import LEFT, RIGHT, Join
from fulmen.windows.joins.options import WindowJoinOptions
from fulmen.windows.joins.side_rows import Emits, Key, Row
from fulmen.windows.joins.windows import (
    JoinedFixedWindows,
    JoinedSessions,
    JoinedWindows,
    JoinedWindowsOnDisk,
)
from fulmen.windows.joins.windows.joined import OfKey
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

    _without_times = ". To join by the clock: by: clock"
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
            fixed = JoinedWindowsOnDisk if is_on_disk(self.state) else JoinedFixedWindows
            self._windows = fixed(window.spans(), *rest)
        context.timers.results = self._windows.count

    @override
    def add(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        ended = self._windows.add(side, key, time, row)
        if ended and self._kind not in ("semi", "anti"):  # these wait for all that may come
            for span, others in ended:
                for i in self.chosen(side, row, others):
                    self.matched(side, row, others[i], joined, _edges(span))
        return ended is not None

    @override
    def add_without_key(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        live = self._windows.live(time)
        for span in live:
            self.unmatched(side, key, row, joined, _edges(span))
        return bool(live)

    @override
    def more_of(self, time: int | None, tup: Tuple) -> Row:
        """The edges of its first window; None: no datetime can be one of them."""
        try:
            return [None, None] if time is None else _edges(self._windows.first(time))
        except NoEdgesError:
            return [None, None]

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._windows.end_batch()
        self._context.timers.results = self._windows.count

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        with closing(self._windows.due(key, int(at))) as due:
            for of_key, span, rows, has_ended, is_over in due:
                edges = _edges(span)
                if has_ended and self._kind not in ("semi", "anti"):
                    for one in rows[LEFT]:
                        chosen = self.chosen(LEFT, one, rows[RIGHT])
                        self._context.timers.room -= len(chosen)
                        for i in chosen:
                            self.matched(LEFT, one, rows[RIGHT][i], collector, edges)
                if is_over:
                    self._end(of_key, rows, edges, collector)
        self._tell(collector)

    def _end(self, key: Key, rows: OfKey, edges: Row, collector: BasicOutputCollector) -> None:
        """Emit what is known when nothing more can come: which rows have a match."""
        if self._kind == "inner":
            return
        have_match = set[int]()
        for one in rows[LEFT]:
            chosen = self.chosen(LEFT, one, rows[RIGHT])
            have_match.update(chosen)
            if not chosen:
                self.unmatched(LEFT, key, one, collector, edges)
            elif self._kind == "semi":
                collector.emit([*one, *edges])
        for i, one in enumerate(rows[RIGHT]):
            if i not in have_match:
                self.unmatched(RIGHT, key, one, collector, edges)


def _edges(window: Span) -> Row:
    return [datetime_of(edge) for edge in window]
