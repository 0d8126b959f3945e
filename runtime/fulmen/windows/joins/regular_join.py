"""Joins two streams of changes, without bounds: a regular join, as SQL's of two tables.

What it has emitted is always the join of what has come: each arrival changes rows of a side, and
the difference that this makes to the join is emitted, with `is_retraction` for what is taken back.
A row is counted, and its count may be below 0 for a while: where a row is taken back before it has
come, since both came by other ways, they are as if they had never been. So what is emitted adds up
to the same in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import RETRACTION, milliseconds
from fulmen.api.tuples import Tuple
from fulmen.windows.inputs import is_retraction
from fulmen.windows.joins.join import LEFT, RIGHT, Join
from fulmen.windows.joins.known_rows import Id, KnownRows
from fulmen.windows.joins.options import JoinOptions, RegularJoinOptions
from fulmen.windows.joins.row_ids import row_id
from fulmen.windows.joins.side_rows import Emits, JoinedRows, Key, Row, SideRows

FORGET = "forget"
"""Begins the keys of timers."""
LEAST_GRID, PARTS = 1000, 16
"""Rows of a key are forgotten together, up to so many milliseconds late, or such a part of
`forgetAfter`."""


Counted = tuple[int, int, Row]
"""How many times a row is there, below 0 if it was taken back before it came; how many rows of the
other side match it, if the type of the join asks for it; and the values to emit."""


class RegularJoin(Join):
    """Emits each pair with equal keys, at once, and takes it back when one of its rows is.

    A row with `is_retraction` takes back one that equals it in the key and in `fields`; where an
    input has no such field, all rows are new. The same field is emitted. Where `type` emits a row
    without a match, that row is taken back when it has one, and comes again when it has none any
    more. Rows are kept until they are taken back, or, with `forgetAfter`, for so long. The metric
    `unknown_retractions` counts rows that were taken back and not there.
    """

    # State: (side, key, id of a row) -> Counted; with `forgetAfter` an id begins with the time.
    # Memory: the ids of each key; if the state is on disk, of keys that a batch has asked for.
    # Timers: (FORGET, key).

    config_model = RegularJoinOptions
    takes_retractions = True
    transient = (*Join.transient, "_ids", "_reach", "_grid", "_unknown")

    @override
    def needs_times(self, options: JoinOptions) -> bool:
        return isinstance(options, RegularJoinOptions) and options.forget_after is not None

    @override
    def lateness(self, options: JoinOptions) -> int | None:
        return 2 * milliseconds(options.takes_late) if self.needs_times(options) else None

    @override
    def needs_event_time(self, options: JoinOptions) -> str | Warning | None:
        told = super().needs_event_time(options)
        return Warning("no row is forgotten") if told is not None else None

    @override
    def _mistakes(
        self, options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterator[str | Warning]:
        yield from super()._mistakes(options, inputs)
        if self.state_ttl is not None and not self.needs_times(options):
            yield (
                "state_ttl: what a row was joined with must be known when it is taken back. Use"
                " forgetAfter"
            )

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: RegularJoinOptions = context.options
        self._unknown = context.counter(
            "unknown_retractions", "Rows that were taken back before they came, if they ever come."
        )
        self._ids = KnownRows(self.state, (LEFT, RIGHT))
        self._reach: int | None = None
        if options.forget_after is not None:
            self._reach = milliseconds(options.forget_after)
        self._grid = max(LEAST_GRID, (self._reach or 0) // PARTS)

    @override
    def add_all(self, side: int, arrivals: SideRows, joined: JoinedRows) -> None:
        for place, (key, time, row) in enumerate(zip(*arrivals[:3], strict=True)):
            joined.place = place
            change = -1 if place in arrivals.retracted else 1
            if self._reach is not None and self.is_late(time):
                joined.late.append(place)
            elif place in arrivals.alone:
                if self._outer[side]:
                    _emit([(change, self._unmatched_row(side, key, row))], joined)
            else:
                try:
                    _emit(self._changes(side, key, time, row, change), joined)
                except FailedException as error:
                    joined.failed.append((place, error))

    def _changes(
        self, side: int, key: Key, time: int, row: Row, change: int
    ) -> list[tuple[int, Row]]:
        """Count a row, and tell how many times more, or fewer, the join has which rows."""
        one = row_id(row)
        if self._reach is not None:
            one = (time, *one)
        others = list(self._others(1 - side, key, time))
        kept: Counted | None = self.state.get((side, key, one))
        if kept is not None:
            row = kept[2]  # equal, but maybe 1 in place of 1.0
        others = [others[i] for i in self.chosen(side, row, [of for _, (_, _, of) in others])]
        count, matches, _ = kept or (0, self._tracks[side] * sum(n for _, (n, _, _) in others), row)
        if change < 0 and count <= 0:
            self._unknown.inc()
        self._put(side, key, one, (count + change, matches, row))
        changes = self._pairs(side, row, change, [other for _, other in others])
        if self._kind == "semi":
            changes += [(change, row)] if side == LEFT and matches > 0 else []
        elif self._outer[side] and matches <= 0:
            changes.append((change, self._unmatched_row(side, key, row)))
        if self._tracks[1 - side]:
            for theirs, (count, before, of) in others:
                now = before + change
                self.state[1 - side, key, theirs] = (count, now, of)
                if (now > 0) != (before > 0):
                    changes.append(self._turned(1 - side, key, count, of, has_match=now > 0))
        return changes

    def _pairs(
        self, side: int, row: Row, change: int, others: list[Counted]
    ) -> list[tuple[int, Row]]:
        if self._kind in ("semi", "anti"):
            return []
        if side == LEFT:
            return [(change * count, [*row, *of]) for count, _, of in others]
        return [(change * count, [*of, *row]) for count, _, of in others]

    def _turned(
        self, side: int, key: Key, count: int, row: Row, *, has_match: bool
    ) -> tuple[int, Row]:
        """What a row changes that has its first match, or has lost its last one."""
        if self._kind == "semi":
            return count if has_match else -count, row
        return -count if has_match else count, self._unmatched_row(side, key, row)

    def _others(self, side: int, key: Key, time: int) -> Iterator[tuple[Id, Counted]]:
        """The rows of a side and key that are near enough."""
        for one in list(self._ids.of(side, key)):
            if self._reach is None or abs(one[0] - time) <= self._reach:
                yield one, self.state[side, key, one]

    def _put(self, side: int, key: Key, one: Id, now: Counted) -> None:
        if not now[0]:
            self.state.pop((side, key, one), None)
            self._ids.forget(side, key, one)
            return
        self.state[side, key, one] = now
        self._ids.of(side, key)[one] = None
        if self._reach is not None:
            due, before = self._due(one[0]), self._context.timers.get((FORGET, key))
            if before is None or due < before:
                self._context.timers.set((FORGET, key), due)

    def _due(self, time: int) -> int:
        """The watermark at which a row with this time is forgotten."""
        over = time + 2 * (self._reach or 0) + 1
        return over + -over % self._grid

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        of, later = key[1], []
        for side in (LEFT, RIGHT):
            for one in list(self._ids.of(side, of)):
                if self._due(one[0]) > at:
                    later.append(one[0])
                    continue
                del self.state[side, of, one]
                self._ids.forget(side, of, one)
        if later:
            self._context.timers.set(key, self._due(min(later)))

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._ids.end_batch()

    @override
    def more_of(self, time: int | None, tup: Tuple) -> Row:
        return [RETRACTION in tup.fields and is_retraction(tup[RETRACTION])]


def _emit(changes: list[tuple[int, Row]], joined: Emits) -> None:
    """Emit what is taken back, and then what is new."""
    for mark in (True, False):
        for count, row in changes:
            if (count < 0) is mark:
                for _ in range(abs(count)):
                    joined.emit([*row, mark])
