"""Sessions: those of a key are kept together, as a tuple may make one of several."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.panes import (
    EARLY,
    EARLY_PANE,
    LATE_PANE,
    NEW,
    ON_TIME_PANE,
    Kept,
    Key,
    changed,
)
from fulmen.windows.aggregate.windower import Windower
from fulmen.windows.inputs import check_edges
from fulmen.windows.spans import Span


class Sessions(Windower):
    """The sessions of one task."""

    # State: ("session", key) -> span -> `Kept`, all of it anew when something of it changes.

    def __init__(self, gap: int, *rest: Any) -> None:
        """`gap`: in milliseconds."""
        super().__init__(*rest)
        self._gap = gap

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        place = ("session", key)
        sessions: dict[Span, Kept] = dict(self._state.get(place, {}))
        start, end = time, time + self._gap
        touched = [span for span in sessions if span[0] <= end and start <= span[1]]
        span = min([start, *(s for s, _ in touched)]), max([end, *(e for _, e in touched)])
        check_edges(span)
        if span[1] < self._clock.least():
            self._panes.too_late(tup, time, span, collector)
            return
        if len(touched) == 1:  # the usual case: a merge would copy all that is kept for each tuple
            kept = list(sessions.pop(touched[0]))
            self._aggregates.add([kept], values, time)
        else:
            kept = [*self._aggregates.new(), None]
            self._aggregates.add([kept], values, time)
            for one in sorted(touched):
                kept = self._merged(sessions.pop(one), kept)
        has_ended = kept[-1] and kept[-1][1] and self._clock.is_past(span[1] + 1)
        if has_ended and not self._panes.is_final:
            self._panes.emit(key, span, kept, LATE_PANE, collector)
        else:
            kept[-1] = changed(kept[-1])  # it goes on
        sessions[span] = kept
        self._keep(place, sessions)
        self._panes.emit_later(place)

    def _merged(self, one: Kept, other: Kept) -> Kept:
        status = one[-1] or other[-1]
        if one[-1] and other[-1]:
            (n, has_ended, _, *shown), (m, has_other, _, *more) = one[-1], other[-1]
            status = max(n, m), has_ended or has_other, True, *shown, *more
        return [*self._aggregates.merged(one[:-1], other), status]

    @override
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        if key[0] == EARLY:
            self.emit_early(key[1], collector)
            return
        sessions: dict[Span, Kept] = {}
        for span, kept in sorted(self._state.get(key, {}).items(), key=lambda one: one[0]):
            has_ended = (kept[-1] or NEW)[1]
            if not has_ended and span[1] + self._panes.wait < at:
                ended = list(kept)
                self._panes.emit(key[1], span, ended, ON_TIME_PANE, collector)
                if self._panes.wait < self._clock.lateness:
                    sessions[span] = ended
            elif not (has_ended and span[1] + self._clock.lateness < at):
                sessions[span] = kept
        self._keep(key, sessions)

    @override
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        sessions: dict[Span, Kept] = {}
        for span, known in self._state.get(place, {}).items():
            kept = sessions[span] = list(known)
            _, has_ended, is_new, *_ = kept[-1] or NEW
            if is_new and not has_ended:
                self._panes.emit(place[1], span, kept, EARLY_PANE, collector)
        if sessions:  # else all of them have ended just now
            self._state[place] = sessions

    def _keep(self, place: Any, sessions: dict[Span, Kept]) -> None:
        """The sessions of a key, and when the next of them ends, or is forgotten."""
        if not sessions:
            self._state.pop(place, None)
            self._timers.cancel(place)
            self._timers.cancel((EARLY, place))
            return
        self._state[place] = sessions
        ends = [
            span[1] + (self._clock.lateness if (kept[-1] or NEW)[1] else self._panes.wait)
            for span, kept in sessions.items()
        ]
        self._timers.set(place, min(ends) + 1)
