"""Joins what is in the same window."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.api.event_time import milliseconds
from fulmen.windows.inputs import NoEdgesError, spans_of
from fulmen.windows.joins.join import LEFT, RIGHT, Join, Key, Row
from fulmen.windows.joins.options import WindowJoinOptions
from fulmen.windows.joins.sessions import JoinedSessions
from fulmen.windows.options import Session
from fulmen.windows.spans import Span, datetime_of

ROWS = "rows"
"""Begins the keys of the state."""
Brought = tuple[int, Key, Row]
"""Side, key and row of a tuple."""
OfKey = tuple[list[Row], list[Row]]
"""The rows of both sides."""
_NONE: OfKey = [], []


class WindowJoin(Join):
    """Emits each pair of tuples with equal keys in the same window, when the window has ended.

    With `type` left, right or full, a tuple without one of the other side in its window is emitted,
    too. A session is of the tuples of both sides: it goes on as long as there is no gap between any
    of them.

    With `allowedLateness`, pairs of what is late are emitted at once; and what has no match when
    nothing more can come.
    """

    # State: (ROWS, span, n) -> all that a batch has brought to a window: an entry for each tuple
    # would cost more than all else. Memory: the same by window and key. A window has one timer:
    # first for its end, then for that of what may be late. Sessions are in `joins.sessions`.

    config_model = WindowJoinOptions
    transient = (*Join.transient, "_sessions", "_spans", "_open", "_brought", "_written", "_next")

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        window = context.options.window
        self._sessions: JoinedSessions | None = None
        if isinstance(window, Session):
            self._sessions = JoinedSessions(self.state, context, milliseconds(window.gap))
            return
        self._spans = window.spans()
        self._open: dict[Span, dict[Key, OfKey]] = {}
        self._brought: dict[Span, list[Brought]] = {}
        self._written: dict[Span, list[Any]] = {}
        """The keys of the state that are of a window."""
        self._next = 0
        for place in sorted(self.state, key=lambda place: place[2]):
            _, span, n = place
            self._written.setdefault(span, []).append(place)
            self._next = n + 1
            for one in self.state[place]:
                self._keep(span, one)

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        if self._sessions is not None:
            return self._sessions.add(side, key, time, row)
        live = self._live(time)
        for span in live:
            if span not in self._open:
                self._context.timers.set(span, span[1])
            elif self._takes.length and self._context.timers.get(span) != span[1]:
                for other in self._open[span].get(key, _NONE)[1 - side]:  # it was emitted
                    self.matched(side, row, other, collector, self.more_of(span[0]))
            one = side, key, row
            self._keep(span, one)
            self._brought.setdefault(span, []).append(one)
        return bool(live)

    def _keep(self, span: Span, one: Brought) -> None:
        side, key, row = one
        self._open.setdefault(span, {}).setdefault(key, ([], []))[side].append(row)

    @override
    def add_without_key(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        live = self._live(time)
        for span in live:
            self.unmatched(side, key, row, collector, _edges(span))
        return bool(live)

    def _live(self, time: int) -> list[Span]:
        """The windows of a time that take it. Of sessions, that of a tuple alone."""
        if self._sessions is not None:
            return self._sessions.alone(time)
        least = self._takes.least()
        return [span for span in spans_of(self._spans, time) if span[1] > least]

    @override
    def more_of(self, time: int | None) -> Row:
        """The edges of its first window; None: no datetime can be one of them."""
        if time is None:
            return [None, None]
        try:
            if self._sessions is not None:
                return _edges(self._sessions.span(time))
            return _edges(spans_of(self._spans, time)[0])
        except NoEdgesError:
            return [None, None]

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        if self._sessions is not None:
            self._sessions.end_batch()
            return
        for span, brought in self._brought.items():
            place = ROWS, span, self._next
            self.state[place] = brought
            self._written.setdefault(span, []).append(place)
            self._next += 1
        self._brought = {}

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        if self._sessions is not None:
            for session in self._sessions.ended(key[1], int(at)):
                span = session.start, session.end
                self._emit_pairs(span, session.rows, collector)
                self._emit_alone(key[1], span, session.rows, collector)
            return
        window: Span = key
        if at == window[1]:
            for rows in self._open[window].values():
                self._emit_pairs(window, rows, collector)
        if at < (over := window[1] + self._takes.length):
            self._context.timers.set(window, over)
            return
        self._brought.pop(window, None)  # nothing of this batch comes any more
        for place in self._written.pop(window, ()):
            del self.state[place]
        for of_key, rows in self._open.pop(window).items():
            self._emit_alone(of_key, window, rows, collector)

    def _emit_pairs(self, window: Span, rows: OfKey, collector: BasicOutputCollector) -> None:
        """Emit what a window has of a key on both sides."""
        edges = _edges(window)
        for one in rows[LEFT]:
            for other in rows[RIGHT]:
                self.matched(LEFT, one, other, collector, edges)

    def _emit_alone(
        self, key: Key, window: Span, rows: OfKey, collector: BasicOutputCollector
    ) -> None:
        """Emit what a window has of a key on one side alone."""
        for side in (LEFT, RIGHT):
            if not rows[1 - side]:
                for row in rows[side]:
                    self.unmatched(side, key, row, collector, _edges(window))


def _edges(window: Span) -> Row:
    return [datetime_of(edge) for edge in window]
