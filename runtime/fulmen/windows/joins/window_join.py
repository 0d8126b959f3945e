"""Joins what is in the same window."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.api.event_time import milliseconds
from fulmen.windows.inputs import spans_of
from fulmen.windows.joins.join import LEFT, RIGHT, Join, Key, Row
from fulmen.windows.joins.options import WindowJoinOptions
from fulmen.windows.joins.sessions import JoinedSessions
from fulmen.windows.options import Session
from fulmen.windows.spans import Span, datetime_of

ROWS = "rows"
"""Begins the keys of the state."""
Brought = tuple[int, Key, Row]
"""Side, key and row of a tuple."""


class WindowJoin(Join):
    """Emits each pair of tuples with equal keys in the same window, when the window has ended.

    With `type` left, right or full, a tuple without one of the other side in its window is emitted,
    too. A session is of the tuples of both sides: it goes on as long as there is no gap between any
    of them.
    """

    # State: (ROWS, span, n) -> all that a batch has brought to a window: an entry for each tuple
    # would cost more than all else. Memory: the same by window and key. A window has one timer.
    # Sessions are in `joins.sessions`.
    # Older checkpoints have (span, key) -> how many rows there are of each side, (span, key, side,
    # n) -> a row, and a timer for each (span, key): the first of these ends the window.

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
        self._open: dict[Span, dict[Key, tuple[list[Row], list[Row]]]] = {}
        self._brought: dict[Span, list[Brought]] = {}
        self._written: dict[Span, list[Any]] = {}
        """The keys of the state that are of a window."""
        self._next = 0
        for place in sorted(self.state, key=_age):
            is_row_alone = place[0] != ROWS
            span = place[0] if is_row_alone else place[1]
            self._written.setdefault(span, []).append(place)
            if not is_row_alone:
                self._next = place[2] + 1
                for one in self.state[place]:
                    self._keep(span, one)
            elif len(place) == len(("span", "key", "side", "n")):
                self._keep(span, (place[2], place[1], self.state[place]))

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
            self.unmatched(side, key, row, collector, [datetime_of(edge) for edge in span])
        return bool(live)

    def _live(self, time: int) -> list[Span]:
        """The windows of a time that have not ended. Of sessions, that of a tuple alone."""
        if self._sessions is not None:
            return self._sessions.alone(time)
        watermark = self._context.batch.watermark
        return [s for s in spans_of(self._spans, time) if watermark is None or watermark < s[1]]

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
                self._emit(key[1], (session.start, session.end), session.rows, collector)
            return
        window: Span = key[0] if isinstance(key[0], tuple) else key
        self._brought.pop(window, None)  # nothing of this batch comes any more
        for place in self._written.pop(window, ()):
            del self.state[place]
        for of_key, rows in self._open.pop(window, {}).items():
            self._emit(of_key, window, rows, collector)

    def _emit(
        self,
        key: Key,
        window: Span,
        rows: tuple[list[Row], list[Row]],
        collector: BasicOutputCollector,
    ) -> None:
        """Emit what a window has of a key."""
        span = [datetime_of(edge) for edge in window]
        for one in rows[LEFT]:
            for other in rows[RIGHT]:
                self.matched(LEFT, one, other, collector, span)
        for side in (LEFT, RIGHT):
            if not rows[1 - side]:
                for row in rows[side]:
                    self.unmatched(side, key, row, collector, span)


def _age(place: tuple[Any, ...]) -> tuple[bool, int]:
    """What puts keys of the state into the order in which they were written."""
    return place[0] == ROWS, place[-1] if isinstance(place[-1], int) else 0
