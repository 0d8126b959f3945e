"""Windows of a join that are where they are, whatever else comes."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from typing_extensions import override

from fulmen.api.context import TopologyContext
from fulmen.windows.clock import EventClock
from fulmen.windows.inputs import spans_of
from fulmen.windows.joins.join import LEFT
from fulmen.windows.joins.row_log import RowGroup, RowLog
from fulmen.windows.joins.side_rows import Key, Row
from fulmen.windows.joins.windows.joined import Due, JoinedWindows, OfKey
from fulmen.windows.spans import Span, Spans

ROWS, DONE = "rows", "done"
"""Begin the keys of the state."""


@dataclass(eq=False, slots=True)
class JoinedWindow(RowGroup):
    """The rows of a window, by key.

    Attributes:
        by_key: The rows of each key.
    """

    by_key: dict[Key, OfKey] = field(default_factory=dict)


class JoinedFixedWindows(JoinedWindows):
    """The joined windows of one task."""

    # State: (ROWS, start, end, n) -> what a batch has brought to a window: side, key and row;
    # (DONE, start, end, n) -> keys that were emitted of a window that is brought in pages, as rows.
    # Memory: the same by window and key. A window has one timer: first for its end, then for that
    # of what may be late; in all tasks the same, so that any of them may get rows of another.

    def __init__(
        self,
        spans: Spans,
        state: MutableMapping[Any, Any],
        context: TopologyContext,
        clock: EventClock,
    ) -> None:
        self._spans, self._state, self._clock = spans, state, clock
        self._timers, self._batch = context.timers, context.batch
        self._log = RowLog(state)
        self._open: dict[Span, JoinedWindow] = {}
        self._restore()

    def _restore(self) -> None:
        """Read what the state has."""
        done: list[tuple[Span, Key]] = []
        for place, (what, *edges), rows in self._log.restored(ROWS, DONE):
            span = (edges[0], edges[1])
            window = self._restored(span, place)
            if what == DONE:
                done += ((span, key) for _, key in rows)
                continue
            for side, key, row in rows:
                window.by_key.setdefault(key, ([], []))[side].append(row)
        for place, both in self._state.items():
            if place[0] not in (ROWS, DONE):  # it was on disk
                span, key, _ = place
                found = self._restored(span, place).by_key.setdefault(key, ([], []))
                for rows, more in zip(found, both, strict=True):
                    rows += more
        for span, key in done:
            self._open[span].by_key.pop(key, None)

    def _restored(self, span: Span, place: Any) -> JoinedWindow:
        window = self._open.get(span)
        if window is None:
            window = self._open[span] = JoinedWindow((ROWS, *span))
        window.written.append(place)
        return window

    @override
    def live(self, time: int) -> Sequence[Span]:
        least = self._clock.least()
        return [span for span in spans_of(self._spans, time) if span[1] > least]

    @override
    def first(self, time: int) -> Span:
        return spans_of(self._spans, time)[0]

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row
    ) -> Sequence[tuple[Span, Sequence[Row]]] | None:
        live, ended = self.live(time), []
        for span in live:
            window = self._open.get(span)
            if window is None:
                window = self._open[span] = JoinedWindow((ROWS, *span))
                if self._timers.get(span) is None:
                    self._timers.set(span, self._over(span) if self._has_ended(span) else span[1])
            rows = window.by_key.get(key)
            if rows is None:
                rows = window.by_key[key] = self._known(span, key)
            rows[side].append(row)
            self._log.add(window, (side, key, row))
            if self._clock.lateness and self._timers.get(span) != span[1]:
                ended.append((span, rows[1 - side]))
        return ended if live else None

    def _known(self, span: Span, key: Key) -> OfKey:  # noqa: ARG002 (for those below)
        """What there is of a key in a window, beside what has been asked for."""
        return [], []

    def _has_ended(self, span: Span) -> bool:
        return bool(self._clock.lateness) and self._clock.is_past(span[1])

    def _over(self, span: Span) -> int:
        return span[1] + self._clock.lateness

    @override
    def end_batch(self) -> None:
        self._log.end_batch()

    @property
    @override
    def count(self) -> int:
        return sum(len(window.by_key) for window in self._open.values())

    @override
    def due(self, timer: Any, at: int) -> Generator[Due]:
        span: Span = timer
        over = self._over(span)
        if at < over:
            if self._has_rows(span):
                self._timers.set(span, over)
            for key, rows in self._of(span):
                yield Due(key, span, rows, at == span[1], is_over=False)
            return
        try:
            with closing(self._over_now(span)) as some:
                for key, rows in some:
                    self._timers.room -= 1
                    yield Due(key, span, rows, at == span[1], is_over=True)
                    if self._timers.room <= 0:
                        break
        finally:  # also where a key has raised
            if self._has_rows(span):
                self._timers.set(span, at)

    def _has_rows(self, span: Span) -> bool:
        """Whether there are rows in a window: a task may have its timer and none of them."""
        return span in self._open

    def _of(self, span: Span) -> Iterable[tuple[Key, OfKey]]:
        """The rows in a window."""
        window = self._open.get(span)
        return () if window is None else window.by_key.items()

    def _over_now(self, span: Span) -> Generator[tuple[Key, OfKey]]:
        """The same, of which those that are given are forgotten."""
        window = self._open.get(span)
        if window is None:
            return
        done: list[tuple[int, Key]] = []
        room = self._timers.room
        try:
            for key in list(islice(window.by_key, None if room == math.inf else max(1, int(room)))):
                done.append((LEFT, key))
                yield key, window.by_key.pop(key)
        finally:
            if window.by_key:
                self._log.write(window, (DONE, *span), done)
            else:
                del self._open[span]
                self._log.forget(window)
