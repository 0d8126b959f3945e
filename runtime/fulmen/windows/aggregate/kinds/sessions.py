"""Sessions: those of a key are kept together, as a tuple may make one of several.

The rows of a chunk are looked at by key: sorted by time they are runs, which touch sessions as
single tuples do. So a key costs one look into the state, however many rows it has. What is late
must not depend on that: a row that is late by itself could be saved by one that comes after it. So
the rows of a key are added one by one if one of them could be late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.times.event_time import BOUNDS
from fulmen.api.tuples import Tuple
from fulmen.errors import PASSED_ON
from fulmen.windows.aggregate.adding.chunk_rows import ChunkRows, Groups
from fulmen.windows.aggregate.kinds.panes import (
    EARLY,
    EARLY_PANE,
    LATE_PANE,
    NEW,
    ON_TIME_PANE,
    Kept,
    Key,
    changed,
)
from fulmen.windows.aggregate.kinds.windower import Windower
from fulmen.windows.inputs import check_edges
from fulmen.windows.spans import Span

SessionsKey = tuple[str, Key]
OfKey = dict[Span, Kept]
"""The sessions of a key."""


class Extended(NamedTuple):
    """A session with more rows than before.

    Attributes:
        place: The place of its key.
        sessions: Those of its key as they are now.
        before: What it was before; None: there was none.
        span: Its start and end.
        at: The positions of the rows, ascending.
    """

    place: SessionsKey
    sessions: OfKey
    before: Span | None
    span: Span
    at: Sequence[int]


class Sessions(Windower):
    """The sessions of one task."""

    # State: ("session", key) -> span -> `Kept`, all of it anew when something of it changes.

    state_part = timer_part = "inner"
    takes_chunks = True

    def __init__(self, gap: int, has_plain_keys: bool, *rest: Any) -> None:
        """`gap`: in milliseconds. `has_plain_keys`: whether a key is of one field."""
        super().__init__(*rest)
        self._gap, self._has_plain_keys = gap, has_plain_keys
        self._changed: dict[SessionsKey, OfKey] = {}

    def _of(self, place: SessionsKey) -> OfKey:
        """The sessions of a key as they are now."""
        found = self._changed.get(place)
        if found is None:
            found = dict(self._state.get(place, {}))
        return found

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        place = ("session", key)
        sessions = self._of(place)
        start, end = time, time + self._gap
        touched = [span for span in sessions if span[0] <= end and start <= span[1]]
        span = min([start, *(s for s, _ in touched)]), max([end, *(e for _, e in touched)])
        check_edges(span)
        if span[1] < self._clock.least():
            self._panes.too_late(tup, time, span, collector)
            return
        if len(touched) == 1:  # the usual case: a merge would copy all that is kept for each tuple
            kept = list(sessions[touched[0]])
            self._aggregates.add([kept], values, time)
        else:
            kept = [*self._aggregates.new(), None]
            self._aggregates.add([kept], values, time)
            for one in sorted(touched):
                kept = self._merged(sessions[one], kept)
        has_ended = kept[-1] and kept[-1][1] and self._clock.is_past(span[1] + 1)
        if has_ended and not self._panes.is_final:
            self._panes.emit(key, span, kept, LATE_PANE, collector)
        else:
            kept[-1] = changed(kept[-1])  # it goes on
        for one in touched:
            del sessions[one]
        sessions[span] = kept
        self._changed[place] = sessions
        self._await_end(place, sessions)
        self._panes.emit_later(place[1])

    def _merged(self, one: Kept, other: Kept) -> Kept:
        status = one[-1] or other[-1]
        if one[-1] and other[-1]:
            (n, has_ended, _, *shown), (m, has_other, _, *more) = one[-1], other[-1]
            status = max(n, m), has_ended or has_other, True, *shown, *more
        return [*self._aggregates.merged(one[:-1], other), status]

    # The rows of a chunk

    @override
    def add_chunk(self, rows: ChunkRows) -> Sequence[int]:
        left = {*rows.refused, *rows.unusual}
        if None in rows.times:
            left.update(i for i, time in enumerate(rows.times) if time is None)
        unusual = {rows.keys[i] for i in rows.unusual}
        some = [i for i in range(len(rows.times)) if i not in left] if left else None
        found: list[Extended] = []
        for plain, at in rows.by_key(some).items():
            place = ("session", (plain,) if self._has_plain_keys else plain)
            extended = None if plain in unusual else self._extended(place, at, rows.times)
            if extended is None:
                left.update(at)
            else:
                found += extended
        try:
            self._extend(rows, found)
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (values that can't be compared: their rows tell)
            return self.add_chunk(rows.apart(self._unusual(rows, found)))
        return sorted(left)

    def _extended(
        self, place: SessionsKey, at: Sequence[int], times: Sequence[Any]
    ) -> Sequence[Extended] | None:
        """What becomes of a key's sessions with the rows at some positions. Nothing has changed.

        None: each row must be added by itself: it could be late, or be a pane of its own, or makes
        one of several sessions.
        """
        gap, sessions = self._gap, self._of(place)
        some = [times[i] for i in at]
        first, last = (some[0], some[0]) if len(some) == 1 else (min(some), max(some))
        end = last + gap
        if first < BOUNDS[0] or end >= BOUNDS[1] or first + gap < self._clock.least():
            return None
        if last - first > gap:
            return self._by_time(place, at, times, sessions)
        touched = [span for span in sessions if span[0] <= end and first <= span[1]]
        if not touched:
            return [Extended(place, sessions, None, (first, end), at)]
        if len(touched) > 1:
            return None
        [before] = touched
        if not self._goes_on(before, sessions, some):
            return None
        span = min(before[0], first), max(before[1], end)
        return [Extended(place, sessions, before, span, at)]

    def _by_time(
        self, place: SessionsKey, at: Sequence[int], times: Sequence[Any], sessions: OfKey
    ) -> Sequence[Extended] | None:
        """`_extended` for rows that may be in several sessions."""
        gap = self._gap
        parts = [(start, end, -1) for start, end in sessions]
        parts += [(times[i], times[i] + gap, i) for i in at]
        parts.sort()
        runs: list[list[tuple[int, int, int]]] = []
        until = None
        for part in parts:
            if until is None or part[0] > until:
                runs.append([])
                until = part[1]
            runs[-1].append(part)
            until = max(until, part[1])
        found = []
        for run in runs:
            touched = [(start, end) for start, end, i in run if i < 0]
            mine = sorted(i for _, _, i in run if i >= 0)
            if not mine:
                continue
            before = touched[0] if touched else None
            if len(touched) > 1 or not self._goes_on(before, sessions, [times[i] for i in mine]):
                return None
            whole = run[0][0], max(end for _, end, _ in run)
            found.append(Extended(place, sessions, before, whole, mine))
        return found

    def _goes_on(self, before: Span | None, sessions: OfKey, times: Sequence[int]) -> bool:
        """Whether each row, in order of arrival, extends the one session that there is then."""
        if before is not None and (sessions[before][-1] or NEW)[1]:  # it has ended
            return False
        if self._aggregates.only_count:  # in whichever order
            return True
        gap = self._gap
        start, end = (times[0], times[0] + gap) if before is None else before
        for time in times:
            if time > end or time + gap < start:
                return False
            start, end = min(start, time), max(end, time + gap)
        return True

    def _extend(self, rows: ChunkRows, found: Sequence[Extended]) -> None:
        """Add rows to sessions. If this raises, nothing has changed."""
        aggregates = self._aggregates
        kept = [
            [*aggregates.new(), None] if one.before is None else one.sessions[one.before]
            for one in found
        ]
        groups = Groups(rows, [one.at for one in found])
        aggregates.put(kept, groups, aggregates.added(kept, groups))
        for one, session in zip(found, kept, strict=True):
            if one.before is not None:
                session[-1] = changed(session[-1])
                del one.sessions[one.before]
            one.sessions[one.span] = session
            self._changed[one.place] = one.sessions
            if one.before is None:  # else its timer is too early, until the batch ends
                self._await_end(one.place, one.sessions)
            self._panes.emit_later(one.place[1])

    def _unusual(self, rows: ChunkRows, found: Sequence[Extended]) -> Iterator[int]:
        """The rows of sessions that some of their rows can't be added to."""
        for _, sessions, before, _, at in found:
            kept = self._aggregates.new() if before is None else sessions[before]
            try:
                self._aggregates.added([kept], Groups(rows, [at]))
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001
                yield from at

    # Their ends

    @override
    def end_batch(self) -> None:
        changed, self._changed = self._changed, {}
        self._state.update({place: sessions for place, sessions in changed.items() if sessions})
        for place, sessions in changed.items():
            self._await_end(place, sessions)

    @override
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        self.end_batch()  # nothing of this batch comes any more
        if key[0] == EARLY:
            self.emit_early(("session", key[1]), collector)
            return
        sessions: OfKey = {}
        for span, kept in sorted(self._state.get(key, {}).items(), key=lambda one: one[0]):
            has_ended = (kept[-1] or NEW)[1]
            if not has_ended and span[1] + self._panes.wait < at:
                ended = list(kept)
                self._panes.emit(key[1], span, ended, ON_TIME_PANE, collector)
                if self._panes.wait < self._clock.lateness:
                    sessions[span] = ended
            elif not (has_ended and span[1] + self._clock.lateness < at):
                sessions[span] = kept
        if sessions:
            self._state[key] = sessions
        else:
            self._state.pop(key, None)
        self._await_end(key, sessions)

    @override
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        self.end_batch()  # as in `on_timer`
        sessions: OfKey = {}
        for span, known in self._state.get(place, {}).items():
            kept = sessions[span] = list(known)
            _, has_ended, is_new, *_ = kept[-1] or NEW
            if is_new and not has_ended:
                self._panes.emit(place[1], span, kept, EARLY_PANE, collector)
        if sessions:  # else all of them have ended just now
            self._state[place] = sessions

    def _await_end(self, place: Any, sessions: OfKey) -> None:
        """Have the timer of a key's sessions called when the next ends, or is forgotten."""
        if not sessions:
            self._timers.cancel(place)
            self._timers.cancel((EARLY, place[1]))
            return
        ends = [
            span[1] + (self._clock.lateness if (kept[-1] or NEW)[1] else self._panes.wait)
            for span, kept in sessions.items()
        ]
        self._timers.set(place, min(ends) + 1)
