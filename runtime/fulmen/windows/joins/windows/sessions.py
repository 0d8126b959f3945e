"""Sessions of a join, with the rows of both sides."""

from __future__ import annotations

from collections.abc import Generator, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from fulmen.api.context import TopologyContext
from fulmen.windows.clock import EventClock
from fulmen.windows.disk import is_on_disk
from fulmen.windows.inputs import check_edges
from fulmen.windows.joins.row_log import Of, RowGroup, RowLog
from fulmen.windows.joins.side_rows import Key, Row
from fulmen.windows.joins.windows.joined import Due, JoinedWindows
from fulmen.windows.spans import Span

SESSION = "session"
"""Begins the keys of the state, and of timers."""


@dataclass(eq=False, slots=True)
class Together(RowGroup):
    """Rows without a gap between them: side, time and row of each.

    Attributes:
        start: The first time.
        end: The last time plus the gap.
        rows: Those of the left and of the right side.
    """

    start: int = 0
    end: int = 0
    rows: tuple[list[Row], list[Row]] = field(default_factory=lambda: ([], []))


class JoinedSessions(JoinedWindows):
    """The joined sessions of one task."""

    # State: (SESSION, key, n) -> what a batch has brought to one session. Sessions only grow
    # together, so all of it is in one for good. Timers: (SESSION, key), for its next session.
    # Memory: all sessions; if the state is on disk, those of keys that a batch has asked for.

    def __init__(
        self, gap: int, state: MutableMapping[Any, Any], context: TopologyContext, clock: EventClock
    ) -> None:
        """`gap`: in milliseconds."""
        self._gap, self._timers, self._clock = gap, context.timers, clock
        self._log = RowLog(state)
        self._open: dict[Key, list[Together]] = {}
        self._is_on_disk = is_on_disk(state)
        if not self._is_on_disk:
            self._take(self._log.restored(SESSION))

    def _take(self, groups: Iterable[tuple[Of, Of, list[Any]]]) -> None:
        """Take sessions that are in the state."""
        for place, (_, key), rows in groups:
            for one in rows:
                session = self._put(key, *one)
            session.written.append(place)

    def _of(self, key: Key) -> list[Together]:
        """The sessions of a key."""
        sessions = self._open.get(key)
        if sessions is None:
            sessions = []
            if self._is_on_disk:
                self._open[key] = sessions
                self._take(self._log.on_disk(SESSION, key))
        return sessions

    @override
    def live(self, time: int) -> Sequence[Span]:
        span = self.first(time)
        return [] if self._clock.is_past(span[1] + 1) else [span]

    @override
    def first(self, time: int) -> Span:
        span = time, time + self._gap
        check_edges(span)
        return span

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row
    ) -> Sequence[tuple[Span, Sequence[Row]]] | None:
        end = max([time + self._gap, *(one.end for one in self._touched(key, time))])
        check_edges((time, end))
        if self._clock.is_past(end + 1):  # what is just at its end belongs to it
            return None
        self._log.add(self._put(key, side, time, row), (side, time, row))
        self._wait(key)
        return ()

    def _touched(self, key: Key, time: int) -> list[Together]:
        """The sessions without a gap to a time."""
        last = time + self._gap
        return [one for one in self._of(key) if one.start <= last and time <= one.end]

    def _put(self, key: Key, side: int, time: int, row: Row) -> Together:
        session = Together((SESSION, key), start=time, end=time + self._gap)
        sessions = self._open.setdefault(key, [])
        for one in self._touched(key, time):
            sessions.remove(one)
            self._join(one, session)
            session = one
        session.rows[side].append(row)
        sessions.append(session)
        return session

    def _join(self, one: Together, other: Together) -> None:
        """Make one session of two."""
        one.start, one.end = min(one.start, other.start), max(one.end, other.end)
        for mine, more in zip(one.rows, other.rows, strict=True):
            mine += more
        self._log.join(one, other)

    def _wait(self, key: Key) -> None:
        """Set the timer of a key for the session that ends first."""
        first = min(one.end for one in self._open[key])
        self._timers.set((SESSION, key), first + 1)

    @override
    def end_batch(self) -> None:
        self._log.end_batch()
        if self._is_on_disk:
            self._open.clear()

    @override
    def due(self, timer: Any, at: int) -> Generator[Due]:
        key = timer[1]
        sessions = self._of(key)
        self._open.pop(key, None)
        open_ones = [one for one in sessions if one.end >= at]
        if open_ones:
            self._open[key] = open_ones
            self._wait(key)
        for session in sessions:
            if session.end < at:
                self._log.forget(session)
                span = session.start, session.end
                yield Due(key, span, session.rows, has_ended=True, is_over=True)
