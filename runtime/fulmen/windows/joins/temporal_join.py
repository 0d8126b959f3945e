"""Joins events with a table as it was at their times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.api.times.event_time import milliseconds
from fulmen.windows.disk import is_on_disk, on_disk
from fulmen.windows.joins.join import LEFT, Join
from fulmen.windows.joins.options import TemporalJoinOptions
from fulmen.windows.joins.row_log import RowGroup, RowLog
from fulmen.windows.joins.side_rows import Emits, JoinedRows, Key, Row, SideRows

Version = tuple[int, Row]
"""(time from which on a row is valid, row)."""
VERSIONS, SILENT, ROWS = "versions", "silent", "rows"
GRID = 1000
"""Left rows with times in the same second are kept, and forgotten, together."""
EMIT, FORGET = "emit", "forget"
"""Begin the keys of timers."""


class TemporalJoin(Join):
    """Emits each left tuple with the right row that was valid at its time.

    That is the row with its key that has the latest time not after its own. A left tuple waits
    until the watermark is past its time. A right row is kept until the watermark is past one that
    follows it; the last one of each key is kept for good, or for `forgetAfter`. The metric
    `forgotten` counts those that are forgotten by it.

    A left tuple that is late goes to the stream `late`; with `allowedLateness` it is emitted at
    once if it is not so late, and right rows are kept for so much longer. A right row that is late
    counts for what comes after it, and changes nothing that was emitted; the metric `late` counts
    it.
    """

    # State: (ROWS, due, n) -> time, key and row of the left tuples of a batch that are forgotten at
    # `due`; (VERSIONS, key) -> the right rows by their times. Timers: (EMIT, at), which tells as
    # well that those of that time were not emitted yet; (FORGET, due); (VERSIONS, key); by the
    # clock (SILENT, key), when a key has had no right row for so long. Memory: the left tuples that
    # wait, and right rows, unless these are on disk.

    _without_times = ". For the row that is there when a tuple comes: LookupJoin"
    config_model = TemporalJoinOptions
    transient = (
        *Join.transient,
        "_disk",
        "_unseen",
        "_waiting",
        "_log",
        "_groups",
        "_changed",
        "_forgotten",
        "_untimed",
        "_valid",
        "_silence",
    )

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: TemporalJoinOptions = context.options
        after = None if options.forget_after is None else milliseconds(options.forget_after)
        self._forgotten = context.counter("forgotten", "Last rows of keys, after forgetAfter.")
        self._valid = after if options.forget_by == "event" else None
        """For how long after its time a right row is valid."""
        self._silence = None if after is None or self._valid else after / 1000
        self._waiting: dict[int, list[tuple[Key, Row]]] = {}
        """The left tuples, by when they are emitted."""
        self._log = RowLog(self.state)
        self._groups: dict[int, RowGroup] = {}
        """The groups of left tuples, by the time at which they are forgotten."""
        self._changed: set[Key] = set()
        """The keys whose right rows have changed in this batch."""
        self._disk = on_disk(self.state) if is_on_disk(self.state) else None
        self._untimed: set[Key] = set()
        self._unseen: Iterator[Collection[Any]] = iter(())
        """The right rows on disk that may have come before `forgetAfter` was set."""
        if self._disk is None:
            self._begin_to_forget(self.state)
        elif after is not None:
            self._unseen = self._disk.key_pages()
        for place, of, rows in self._log.restored(ROWS):
            self._groups.setdefault(of[1], RowGroup(of)).written.append(place)
            for time, key, row in rows:
                if context.timers.get((EMIT, time + 1)) is not None:
                    self._waiting.setdefault(time + 1, []).append((key, row))

    def _begin_to_forget(self, places: Iterable[Any]) -> None:
        """Have keys forgotten, too, whose rows came before `forgetAfter` was set."""
        timers = self._context.timers
        wanted = [place for place in places if place[0] == VERSIONS]
        if self._disk is not None:
            self._disk.fetch(wanted)
        for key in [place[1] for place in wanted if place in self.state]:
            if self._silence is not None and timers.get((SILENT, key)) is None:
                self._untimed.add(key)
            if self._valid is not None and timers.get((VERSIONS, key)) is None:
                timers.set((VERSIONS, key), self._over(self.state[VERSIONS, key]))

    @override
    def add_all(self, side: int, arrivals: SideRows, joined: JoinedRows) -> None:
        if self._disk is not None and side != LEFT:
            alone = arrivals.alone
            keys = (key for i, key in enumerate(arrivals.keys) if i not in alone)
            self._disk.fetch((VERSIONS, key) for key in keys)
        super().add_all(side, arrivals, joined)

    @override
    def add(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        if side != LEFT:
            if self._clock.is_past(time + 1):
                self._late.inc()
            self._add_version(key, time, row)
            return True
        if self.is_late(time):
            return False
        timers, at = self._context.timers, time + 1
        waiting = self._waiting.get(at)
        if waiting is None:
            waiting = self._waiting[at] = []
            timers.set((EMIT, at), at)
        waiting.append((key, row))
        due = at + -at % GRID
        group = self._groups.get(due)
        if group is None:
            group = self._groups[due] = RowGroup((ROWS, due))
            timers.set((FORGET, due), due)
        self._log.add(group, (time, key, row))
        return True

    def _add_version(self, key: Key, time: int, row: Row) -> None:
        versions: list[Version] | None = self.state.get((VERSIONS, key))
        if versions is None:
            versions = self.state[VERSIONS, key] = []
        at = bisect_left(versions, time, key=_time)
        is_there = at < len(versions) and versions[at][0] == time
        versions[at : at + is_there] = [(time, row)]
        self._changed.add(key)

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        self._begin_to_forget(next(self._unseen, ()))
        for key in self._changed | self._untimed:
            self._keep(key, self.state[VERSIONS, key], self._clock.least())
            if self._silence is not None:
                self._context.timers.set_after((SILENT, key), self._silence)
        self._changed = self._untimed = set()
        self._log.end_batch()

    def _keep(self, key: Key, versions: list[Version], least: float) -> None:
        """Keep the versions that are valid at the first time that is not too late, and later.

        The timer is that of the middle version, so that thousands of rows that event time passes at
        once are forgotten in a few steps.
        """
        versions = versions[max(0, bisect_right(versions, least - 1, key=_time) - 1) :]
        if self._valid is not None and versions and versions[-1][0] + self._valid < least:
            self._forgotten.inc()
            versions = []
        if not versions:
            self.state.pop((VERSIONS, key), None)
            self._context.timers.cancel((VERSIONS, key))
            return
        self.state[VERSIONS, key] = versions
        if len(versions) > 1 or self._valid is not None:
            self._context.timers.set((VERSIONS, key), self._over(versions))
        else:
            self._context.timers.cancel((VERSIONS, key))

    def _over(self, versions: list[Version]) -> int:
        """The watermark at which some versions can be forgotten."""
        is_last = len(versions) == 1
        at = versions[len(versions) // 2][0] + (self._valid or 0 if is_last else 0)
        return at + 1 + self._clock.lateness

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        what, of = key
        if what == VERSIONS:
            self._keep(of, self.state.get((VERSIONS, of), []), at - self._clock.lateness)
        elif what == SILENT:
            if self._silence is not None:
                self._keep(of, [], at)
                self._forgotten.inc()
        elif what == EMIT:
            waiting = self._waiting.pop(of, [])
            if self._disk is not None:
                self._disk.fetch((VERSIONS, of_key) for of_key, _ in waiting)
            for of_key, row in waiting:
                self._emit(of_key, of - 1, row, collector)
            self._tell(collector)
        elif what == FORGET:
            self._log.forget(self._groups.pop(of, RowGroup(())))

    def _emit(self, key: Key, time: int, row: Row, collector: BasicOutputCollector) -> None:
        """Emit a left row with the right one of its time."""
        versions: list[Version] = self.state.get((VERSIONS, key), [])
        found = bisect_right(versions, time, key=_time)
        is_valid = found and (self._valid is None or time - versions[found - 1][0] <= self._valid)
        if is_valid and self.chosen(LEFT, row, [versions[found - 1][1]]):
            self.matched(LEFT, row, versions[found - 1][1], collector)
        else:
            self.unmatched(LEFT, key, row, collector)


def _time(version: Version) -> int:
    return version[0]
