"""Joins what comes with a table as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.windows.disk import is_on_disk, on_disk
from fulmen.windows.joins.join import LEFT, Join
from fulmen.windows.joins.options import JoinOptions, LookupJoinOptions
from fulmen.windows.joins.side_rows import Emits, JoinedRows, Key, Row, SideRows
from fulmen.windows.spans import datetime_of

RELEASE = "release"
"""The key of the timer by which no left tuple is held any more."""


class LookupJoin(Join):
    """Emits each left tuple at once, with the right row of its key that is there then.

    The right side is a table: of each key the row that has come last. With `right.time` it is the
    one with the latest time; one that is older than what is there changes nothing. Rows are kept
    for good.

    With `waitFor`, left tuples that come before the watermark has come to that time are kept, and
    emitted when it has.
    """

    # State: key -> time and row; (*key, number) -> row of a left tuple that is held.

    config_model = LookupJoinOptions
    emits_results = False  # a left tuple that comes again is looked up again
    state_part, timer_part = "first", "every"
    transient = (*Join.transient, "_disk", "_until", "_most", "_held", "_next")

    @override
    def needs_times(self, options: JoinOptions) -> bool:
        return False

    @override
    def _mistakes(
        self, options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterator[str | Warning]:
        yield from super()._mistakes(options, inputs)
        if not isinstance(options, LookupJoinOptions) or options.wait_for is None:
            return
        if self.state_ttl is not None:
            yield "state_ttl: tuples that are held would be forgotten; remove it, or waitFor"
        table = options.right
        stream = inputs.get((table.from_, table.stream))
        if stream is not None and stream.time is None and table.time is None:
            yield UserWarning(
                f"waitFor waits for event time, and {table.from_!r} declares none: left tuples"
                " don't wait for a table without it. Declare its eventTime, or name right.time, if"
                " what is in front of it has one"
            )

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: LookupJoinOptions = context.options
        self._disk = on_disk(self.state) if is_on_disk(self.state) else None
        self._until, self._most = options.waits_until, options.hold_at_most
        places = self._places()
        self._held, self._next = len(places), places[-1][-1] + 1 if places else 0
        if self._held:  # `waitFor` may be another one now
            context.timers.set(RELEASE, 0 if self._until is None else self._until)

    @override
    def needs_same(self, option: str) -> bool:
        return not option.startswith("left") or bool(self._places())

    def waits_for_time(self, options: LookupJoinOptions | None) -> bool:
        """Whether timers are used."""
        return options is not None and options.wait_for is not None

    def _places(self) -> list[Key]:
        """The keys in the state of left tuples that are held, as they have come.

        As long as there are some there is the timer: without it nothing is looked through.
        """
        return [] if self._context.timers.get(RELEASE) is None else self._places_there()

    def _places_there(self) -> list[Key]:
        width = len(self._keys[LEFT])
        places = (place for place in self.state if len(place) > width)
        return sorted(places, key=itemgetter(-1))

    @override
    def add_all(self, side: int, arrivals: SideRows, joined: JoinedRows) -> None:
        if side != LEFT:
            self._note(arrivals)
        elif self._until is not None and not self._clock.is_past(self._until):
            super().add_all(side, arrivals, joined)
        else:
            self._look_up_all(arrivals, joined)

    def _note(self, arrivals: SideRows) -> None:
        """Take the newest row of each key into the table."""
        self._fetch(arrivals)
        for place, (key, time, row) in enumerate(zip(*arrivals[:3], strict=True)):
            if place in arrivals.alone:
                continue
            known: tuple[int, Row] | None = self.state.get(key)
            if known is None or known[0] <= time:
                self.state[key] = (time, row)

    def _fetch(self, arrivals: SideRows) -> None:
        """Have the rows of the table at hand that arrivals ask for."""
        if self._disk is not None:
            alone = arrivals.alone
            self._disk.fetch(key for i, key in enumerate(arrivals.keys) if i not in alone)

    def _look_up_all(self, arrivals: SideRows, joined: JoinedRows) -> None:
        self._fetch(arrivals)
        get, alone = self.state.get, arrivals.alone
        known: list[tuple[int, Row] | None]
        if alone:  # of NaN not even a state on disk can be asked
            known = [None if i in alone else get(key) for i, key in enumerate(arrivals.keys)]
        else:
            known = [*map(get, arrivals.keys)]
        if self._condition is not None or self._kind in ("semi", "anti"):
            for place, one in enumerate(known):
                joined.place = place
                self._emit(arrivals.keys[place], arrivals.rows[place], one, joined)
            return
        rows, places = joined.rows, joined.places
        found = [one for one in known if one is not None]
        if len(found) == len(known):
            rows += [row + one[1] for row, one in zip(arrivals.rows, found, strict=True)]
            places += range(len(found))
            return
        of_each = zip(arrivals.keys, arrivals.rows, known, strict=True)
        for place, (key, row, one) in enumerate(of_each):
            if one is not None:
                rows.append(row + one[1])
                places.append(place)
            elif self._outer[LEFT]:
                rows.append(self._unmatched_row(LEFT, key, row))
                places.append(place)

    @override
    def add(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        """Hold a left tuple."""
        if self._held >= self._most:
            raise FailedException(
                f"{self._held:,} tuples are held already, as the watermark has not come to"
                f" waitFor, {datetime_of(self._until or 0)}: see why, or raise holdAtMost"
            )
        self.state[*key, self._next] = row
        self._held += 1
        self._next += 1
        self._context.timers.set(RELEASE, self._until or 0)
        return True

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        for place in self._places_there():
            row = self.state.pop(place)
            self._emit(place[:-1], row, self.state.get(place[:-1]), collector)
        self._tell(collector)
        self._held = 0

    def _emit(self, key: Key, row: Row, known: tuple[int, Row] | None, joined: Emits) -> None:
        """Emit a left row with a row of the table."""
        if known is not None and self.chosen(LEFT, row, [known[1]]):
            self.matched(LEFT, row, known[1], joined)
        else:
            self.unmatched(LEFT, key, row, joined)
