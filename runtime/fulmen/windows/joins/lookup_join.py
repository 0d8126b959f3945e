"""Joins what comes with a table as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.windows.joins.join import LEFT, Join, Key, Row
from fulmen.windows.joins.options import JoinOptions, LookupJoinOptions
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

    # State: key -> time and row; number -> key and row of a left tuple that is held.

    config_model = LookupJoinOptions
    emits_results = False  # a left tuple that comes again is looked up again
    needs_times = False
    transient = (*Join.transient, "_until", "_most", "_held")

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
        self._until, self._most = options.waits_until, options.hold_at_most
        self._held = len(self._numbers())
        if self._held:  # `waitFor` may be another one now
            context.timers.set(RELEASE, 0 if self._until is None else self._until)

    @override
    def needs_same(self, option: str) -> bool:
        return not option.startswith("left") or bool(self._numbers())

    def waits_for_time(self, options: LookupJoinOptions | None) -> bool:
        """Whether timers are used."""
        return options is not None and options.wait_for is not None

    def _numbers(self) -> list[int]:
        """The numbers of left tuples that are held, as they have come."""
        return sorted(place for place in self.state if type(place) is int)

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        if side != LEFT:
            known: tuple[int, Row] | None = self.state.get(key)
            if known is None or known[0] <= time:
                self.state[key] = (time, row)
        elif self._until is not None and not self._clock.is_past(self._until):
            self._hold(self._until, key, row)
        else:
            self._look_up(key, row, collector)
        return True

    def _look_up(self, key: Key, row: Row, collector: BasicOutputCollector) -> None:
        known: tuple[int, Row] | None = self.state.get(key)
        if known is None:
            self.unmatched(LEFT, key, row, collector)
        else:
            self.matched(LEFT, row, known[1], collector)

    def _hold(self, until: int, key: Key, row: Row) -> None:
        if self._held >= self._most:
            raise FailedException(
                f"{self._held:,} tuples are held already, as the watermark has not come to"
                f" waitFor, {datetime_of(until)}: see why, or raise holdAtMost"
            )
        self.state[self._held] = (key, row)
        self._held += 1
        self._context.timers.set(RELEASE, until)

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        for number in self._numbers():
            of_key, row = self.state.pop(number)
            self._look_up(of_key, row, collector)
        self._held = 0
