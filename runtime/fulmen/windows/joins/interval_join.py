"""Joins what is so much earlier or later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.windows.disk import is_on_disk
from fulmen.windows.joins.ends import RowEnds, mistaken_until
from fulmen.windows.joins.intervals import (
    HAS_ENDED,
    KEY,
    LAST,
    ROW,
    KeptRows,
    Reach,
    RowsInMemory,
    RowsOnDisk,
    Waiting,
)
from fulmen.windows.joins.join import LEFT, Join
from fulmen.windows.joins.options import (
    IntervalJoinOptions,
    JoinOptions,
    signed_milliseconds,
)
from fulmen.windows.joins.side_rows import JoinedRows, SideRows

_NONE: Sequence[Waiting] = ()


class IntervalJoin(Join):
    """Emits each pair with equal keys and `left + lower <= right <= left + upper`, at once.

    A row is forgotten when no match of it can come any more, also none that is late, but for no
    more than `allowedLateness`. With `type` left, right or full, one that has had none is emitted
    then. With `until`, a left row says itself until when that is.
    """

    _without_times = ". To join by the clock: by: clock"
    config_model = IntervalJoinOptions
    streams_in_any_order = True
    transient = (*Join.transient, "_within", "_ends", "_kept")

    @override
    def needs_event_time(self, options: JoinOptions) -> str | Warning | None:
        if super().needs_event_time(options) is None:
            return None
        return (
            "no row without a match is emitted"
            if any(options.outer)
            else Warning("no row is forgotten")
        )

    @override
    def _mistakes(
        self, options: JoinOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterator[str | Warning]:
        yield from super()._mistakes(options, inputs)
        if isinstance(options, IntervalJoinOptions) and options.until is not None:
            yield from mistaken_until(options, inputs)

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: IntervalJoinOptions = context.options
        lower, upper = signed_milliseconds(options.lower), signed_milliseconds(options.upper)
        self._within = (lower, upper), (-upper, -lower)
        self._ends = None if options.until is None else RowEnds(options, context.inputs)
        reach = Reach((upper, -lower), self._outer, self._ends is not None)
        rows = RowsOnDisk if is_on_disk(self.state) else RowsInMemory
        self._kept: KeptRows = rows(reach, self.state, context, self._clock)

    @override
    def add_all(self, side: int, arrivals: SideRows, joined: JoinedRows) -> None:
        upper = self._within[side][1]
        if self._ends is None or side != LEFT:
            lasts = [time + upper for time in arrivals.times]
        else:
            lasts, failed = self._own_lasts(arrivals, upper)
            joined.failed += failed.items()
            alone = {*arrivals.alone, *failed}
            arrivals = SideRows(*arrivals[:3], alone, arrivals.retracted, failed.keys())
        kept = self._match_at_once(side, arrivals, lasts, joined)
        if kept is None:
            kept = self._match_all(side, arrivals, lasts, joined)
        self._kept.keep(side, arrivals, lasts, kept)

    def _own_lasts(
        self, arrivals: SideRows, upper: int
    ) -> tuple[list[int], dict[int, FailedException]]:
        """The last time that matches each left arrival; and the places of those that fail, why."""
        assert self._ends is not None
        lasts, failed = list[int](), dict[int, FailedException]()
        for time, end in zip(arrivals.times, self._ends.of(arrivals.rows), strict=True):
            if isinstance(end, FailedException):
                failed[len(lasts)] = end
            lasts.append(min(end, time + upper) if isinstance(end, int) else time + upper)
        return lasts, failed

    # A row costs about as much as what is done for it in these loops, and in those that keep it: so
    # what is the same for all is looked up before them, and lists are made in place of objects.

    @property
    def _emits_all_pairs(self) -> bool:
        return self._condition is None and self._kind not in ("semi", "anti")

    def _match_at_once(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], joined: JoinedRows
    ) -> dict[int, bool] | None:
        """Emit the matches of arrivals that are all kept. As `_match_all`; None: not all are."""
        keys, times, rows, alone = arrivals[:4]
        least, is_left = self._clock.least(), side == LEFT
        if alone or not times or min(times) < least or min(lasts) < least:
            return None
        if not self._emits_all_pairs or not (is_left or self._ends is None):
            return None
        lower, tracks = self._within[side][0], self._tracks[1 - side]
        of_others, kept = self._kept.sides[1 - side], dict.fromkeys(range(len(keys)), False)
        for place in self._kept.places_of(1 - side, keys):
            theirs = of_others.get(keys[place])
            if theirs is None or not theirs.rows:
                continue
            others, row = theirs.between(times[place] + lower, lasts[place]), rows[place]
            if others:
                kept[place] = True
                joined.rows += [row + one[ROW] if is_left else one[ROW] + row for one in others]
                joined.places += repeat(place, len(others))
                if tracks:
                    self._kept.end(1 - side, others)
        return kept

    def _match_all(
        self, side: int, arrivals: SideRows, lasts: Sequence[int], joined: JoinedRows
    ) -> dict[int, bool]:
        """Emit the matches of arrivals.

        Args:
            side: Theirs.
            arrivals: What has come.
            lasts: The last time that matches each of them.
            joined: What comes of it.

        Returns:
            The places of those that are to be kept, and whether they have had a match.
        """
        lower, tracks = self._within[side][0], self._tracks[1 - side]
        least, of_others, is_left = self._clock.least(), self._kept.sides[1 - side], side == LEFT
        is_plain = self._emits_all_pairs and (is_left or self._ends is None)
        rows, places, kept = joined.rows, joined.places, dict[int, bool]()
        for place, (key, time, row) in enumerate(zip(*arrivals[:3], strict=True)):
            if place in arrivals.alone:
                self._emit_at_once(side, place, arrivals, joined)
                continue
            if time < least:
                joined.late.append(place)
                continue
            theirs, others = of_others.get(key), _NONE
            if theirs is not None and theirs.rows:
                others = theirs.between(time + lower, lasts[place])
                if not is_plain:
                    others = self._emit_chosen(side, place, arrivals, others, joined)
                else:
                    for other in others:
                        rows.append(row + other[ROW] if is_left else other[ROW] + row)
                        places.append(place)
                if tracks:
                    self._kept.end(1 - side, others)
            if lasts[place] >= least:
                kept[place] = bool(others)
            elif not others:  # no match of it can come
                self._emit_at_once(side, place, arrivals, joined)
        return kept

    def _emit_chosen(
        self,
        side: int,
        place: int,
        arrivals: SideRows,
        others: Sequence[Waiting],
        joined: JoinedRows,
    ) -> Sequence[Waiting]:
        """Emit what the type of the join says of the pairs of an arrival, if it takes them.

        Returns:
            The others that it takes.
        """
        joined.place, row = place, arrivals.rows[place]
        if self._ends is not None and side != LEFT:
            others = [other for other in others if arrivals.times[place] <= other[LAST]]
        chosen = [others[i] for i in self.chosen(side, row, [other[ROW] for other in others])]
        if self._kind != "semi":
            for other in chosen:
                self.matched(side, row, other[ROW], joined)
        elif side != LEFT:
            for other in chosen:
                if not other[HAS_ENDED]:
                    joined.emit(other[ROW])
        elif chosen:
            joined.emit(row)
        return chosen

    def _emit_at_once(self, side: int, place: int, arrivals: SideRows, joined: JoinedRows) -> None:
        """Emit an arrival without a match, if that is wanted, and if it has not failed."""
        if place in arrivals.failed:
            return
        joined.place = place
        self.unmatched(side, arrivals.keys[place], arrivals.rows[place], joined)

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._kept.end_batch()

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        for side, one in self._kept.due(key, int(at)):
            self._context.timers.room -= 1
            self.unmatched(side, one[KEY], one[ROW], collector)
