"""Sessions of which a join has the rows of both sides."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.windows.inputs import check_edges
from fulmen.windows.joins.join import Key, Row
from fulmen.windows.spans import Span

SESSION = "session"
"""Begins the keys of the state, and of timers."""
Brought = tuple[int, int, Row]
"""Side, time and row of a tuple."""


@dataclass(eq=False, slots=True)
class Together:
    """What has no gap between it.

    Attributes:
        start: The first time.
        end: The last one, and the gap.
        rows: Those of the left and of the right side.
        brought: What has come in this batch.
        written: The keys of the state that are about it.
    """

    start: int
    end: int
    rows: tuple[list[Row], list[Row]] = field(default_factory=lambda: ([], []))
    brought: list[Brought] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)

    def join(self, other: Together) -> None:
        """Become one with another one."""
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        for mine, more in zip(self.rows, other.rows, strict=True):
            mine += more
        self.brought += other.brought
        self.written += other.written


class JoinedSessions:
    """The joined sessions of one task."""

    # State: (SESSION, key, n) -> what a batch has brought to one session. Sessions only grow
    # together, so all of it is in one for good. Timers: (SESSION, key), for its next session.

    def __init__(self, state: MutableMapping[Any, Any], context: TopologyContext, gap: int) -> None:
        """`gap`: in milliseconds."""
        self._state, self._context, self._gap = state, context, gap
        self._open: dict[Key, list[Together]] = {}
        self._changed: dict[Key, None] = {}
        self._next = 0
        for place in sorted(state, key=lambda place: place[-1]):
            _, key, self._next = place
            for one in state[place]:
                session = self._put(key, *one)
            session.written.append(place)
            self._next += 1

    def alone(self, time: int) -> list[Span]:
        """The session of a tuple that nothing else belongs to, if it has not ended.

        Raises:
            NoEdgesError: It has an edge that no datetime can be.
        """
        span = self.span(time)
        return [] if self._has_ended(span[1]) else [span]

    def span(self, time: int) -> Span:
        """The session of a tuple that nothing else belongs to.

        Raises:
            NoEdgesError: It has an edge that no datetime can be.
        """
        span = time, time + self._gap
        check_edges(span)
        return span

    def _has_ended(self, end: int) -> bool:
        """Whether nothing can come any more that belongs to a session.

        What is just at its end does: so the watermark must be above it.
        """
        watermark = self._context.batch.watermark
        return watermark is not None and end < watermark

    def add(self, side: int, key: Key, time: int, row: Row) -> bool:
        """A tuple has come. False: it is late.

        Raises:
            NoEdgesError: Its session has an edge that no datetime can be.
        """
        end = max([time + self._gap, *(one.end for one in self._touched(key, time))])
        check_edges((time, end))
        if self._has_ended(end):
            return False
        self._put(key, side, time, row).brought.append((side, time, row))
        self._changed[key] = None
        self._wait(key)
        return True

    def _touched(self, key: Key, time: int) -> list[Together]:
        """The sessions without a gap to a time."""
        last = time + self._gap
        return [one for one in self._open.get(key, ()) if one.start <= last and time <= one.end]

    def _put(self, key: Key, side: int, time: int, row: Row) -> Together:
        """Have a row in memory."""
        session = Together(time, time + self._gap)
        sessions = self._open.setdefault(key, [])
        for one in self._touched(key, time):
            sessions.remove(one)
            one.join(session)
            session = one
        session.rows[side].append(row)
        sessions.append(session)
        return session

    def _wait(self, key: Key) -> None:
        """Set the timer of a key for the session that ends first."""
        first = min(one.end for one in self._open[key])
        self._context.timers.set((SESSION, key), first + 1)

    def end_batch(self) -> None:
        """Write what the batch has brought."""
        for key in self._changed:
            for session in self._open.get(key, ()):
                if session.brought:
                    place = SESSION, key, self._next
                    self._next += 1
                    self._state[place] = session.brought
                    session.written.append(place)
                    session.brought = []
        self._changed = {}

    def ended(self, key: Key, at: int) -> Iterator[Together]:
        """The sessions of a key that have ended before a time. They are forgotten."""
        sessions = self._open.pop(key, [])
        open_ones = [one for one in sessions if one.end >= at]
        if open_ones:
            self._open[key] = open_ones
            self._wait(key)
        for session in sessions:
            if session.end < at:
                for place in session.written:
                    del self._state[place]
                yield session
