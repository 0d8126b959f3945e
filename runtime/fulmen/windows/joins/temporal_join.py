"""Joins events with a table as it was at their times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.windows.joins.join import LEFT, Join, Key, Row
from fulmen.windows.joins.options import TemporalJoinOptions

Version = tuple[int, Row]
"""From when on a row is valid, and the row."""
VERSIONS = "versions"


class TemporalJoin(Join):
    """Emits each left tuple with the right row that was valid at its time.

    That is the row with its key that has the latest time not after its own. A left tuple waits
    until the watermark is past its time. A right row is kept until the watermark is past one that
    follows it; the last one of each key is kept for good.

    A left tuple that is late goes to the stream `late`. A right row that is late counts for what
    comes after it, and changes nothing that was emitted; the metric `late` counts it.
    """

    # State: (key, n) -> time and row of a left tuple; (key, "versions") -> the rows by their times.

    config_model = TemporalJoinOptions
    transient = (*Join.transient, "_next")

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        self._next: int | None = None

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        is_late = self.is_late(time)
        if side != LEFT:
            if is_late:
                self._late.inc()
            self._add_version(key, time, row)
            return True
        if is_late:
            return False
        if self._next is None:
            self._next = 1 + max((n for _, n in self.state if n != VERSIONS), default=-1)
        self.state[key, self._next] = (time, row)
        self._context.timers.set((key, self._next), time + 1)
        self._next += 1
        return True

    def _add_version(self, key: Key, time: int, row: Row) -> None:
        versions: list[Version] = list(self.state.get((key, VERSIONS), ()))
        at = bisect_left(versions, time, key=_time)
        is_there = at < len(versions) and versions[at][0] == time
        versions[at : at + is_there] = [(time, row)]
        watermark = self._context.batch.watermark
        self._keep(key, versions, watermark)

    def _keep(self, key: Key, versions: list[Version], watermark: int | None) -> None:
        """Keep what is valid before the watermark and later."""
        if watermark is not None:
            valid = bisect_right(versions, watermark - 1, key=_time)
            versions = versions[max(0, valid - 1) :]
        self.state[key, VERSIONS] = versions
        if len(versions) > 1:
            self._context.timers.set((key, VERSIONS), versions[1][0] + 1)
        else:
            self._context.timers.cancel((key, VERSIONS))

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        of_key, what = key
        versions: list[Version] = self.state.get((of_key, VERSIONS), [])
        if what == VERSIONS:
            self._keep(of_key, versions, int(at))
            return
        time, row = self.state.pop(key)
        found = bisect_right(versions, time, key=_time)
        if found:
            self.matched(LEFT, row, versions[found - 1][1], collector)
        else:
            self.unmatched(LEFT, row, collector)


def _time(version: Version) -> int:
    return version[0]
