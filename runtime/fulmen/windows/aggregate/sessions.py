"""Sessions: those of a key are kept together, as a tuple may make one of several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.kept import (
    EARLY,
    EARLY_PANE,
    LATE_PANE,
    ON_TIME_PANE,
    Key,
    Shown,
    Windows,
)
from fulmen.windows.inputs import check_edges
from fulmen.windows.spans import Span


@dataclass(frozen=True)
class Open:
    """What is kept of one session. It is put into the state anew when it changes.

    Attributes:
        kept: What each aggregate keeps.
        panes: How often the session was emitted.
        has_ended: Whether it was emitted at its end.
        is_new: Whether something has come since it was emitted last.
        shown: How it was emitted last, and so were those that it is made of, if that is to be
            taken back.
    """

    kept: list[Any]
    panes: int = 0
    has_ended: bool = False
    is_new: bool = True
    shown: tuple[Shown, ...] = ()


class Sessions(Windows):
    """The sessions of one task."""

    def __init__(self, gap: int, *rest: Any) -> None:
        """`gap`: in milliseconds."""
        super().__init__(*rest)
        self._gap = gap

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        place = ("session", key)
        sessions: dict[Span, Open] = dict(self.state.get(place, {}))
        start, end = time, time + self._gap
        touched = [span for span in sessions if span[0] <= end and start <= span[1]]
        span = min([start, *(s for s, _ in touched)]), max([end, *(e for _, e in touched)])
        check_edges(span)
        if span[1] < self._takes.least():
            self.too_late(tup, time, span, collector)
            return
        if len(touched) == 1:  # the usual case: a merge would copy all that is kept for each tuple
            window = sessions.pop(touched[0])
            window = replace(window, kept=list(window.kept), is_new=True)
            self._aggregates.add([window.kept], values, time)
        else:
            window = Open(self._aggregates.new())
            self._aggregates.add([window.kept], values, time)
            for one in sorted(touched):
                window = self._merged(sessions.pop(one), window)
        if window.has_ended and self._is_over(span[1]) and not self._is_final:
            window = self._emit(key, span, window, LATE_PANE, collector)
        else:
            window = replace(window, has_ended=False)  # it goes on
        sessions[span] = window
        self._keep(place, sessions)
        self.emit_later(place)

    def _is_over(self, end: int) -> bool:
        """Whether nothing can come any more that is at the end of a session, and belongs to it."""
        return self.is_past(end + 1)

    def _merged(self, one: Open, other: Open) -> Open:
        kept = self._aggregates.merged(one.kept, other.kept)
        has_ended = one.has_ended or other.has_ended
        return Open(kept, max(one.panes, other.panes), has_ended, shown=one.shown + other.shown)

    @override
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        if key[0] == EARLY:
            self.emit_early(key[1], collector)
        else:
            self._end(key, at, collector)

    @override
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        sessions: dict[Span, Open] = self.state.get(place, {})
        if not sessions:  # all of them have ended just now
            return
        self.state[place] = {
            span: self._emit(place[1], span, window, EARLY_PANE, collector)
            if window.is_new and not window.has_ended
            else window
            for span, window in sessions.items()
        }

    def _end(self, place: Any, at: int, collector: BasicOutputCollector) -> None:
        sessions: dict[Span, Open] = {}
        for span, window in sorted(self.state.get(place, {}).items()):
            if not window.has_ended and span[1] + self._wait < at:
                ended = self._emit(place[1], span, window, ON_TIME_PANE, collector)
                if self._lateness:
                    sessions[span] = replace(ended, has_ended=True)
            elif not (window.has_ended and span[1] + self._lateness < at):
                sessions[span] = window
        self._keep(place, sessions)

    def _keep(self, place: Any, sessions: dict[Span, Open]) -> None:
        """The sessions of a key, and when the next of them ends, or is forgotten."""
        if not sessions:
            self.state.pop(place, None)
            self._timers.cancel(place)
            self._timers.cancel((EARLY, place))
            return
        self.state[place] = sessions
        ends = [
            span[1] + (self._lateness if window.has_ended else self._wait)
            for span, window in sessions.items()
        ]
        self._timers.set(place, min(ends) + 1)

    def _emit(
        self, key: Key, span: Span, window: Open, pane: str, collector: BasicOutputCollector
    ) -> Open:
        """Emit a session as it is; what is kept of it then."""
        results = self._aggregates.results(window.kept)
        if not self._has_panes:
            collector.emit([*key, *self.when(span), *results])
            return window
        now = span, results, pane, window.panes
        shown = tuple(self.emit_pane(key, now, window.shown, collector))
        return replace(window, panes=window.panes + 1, is_new=False, shown=shown)
