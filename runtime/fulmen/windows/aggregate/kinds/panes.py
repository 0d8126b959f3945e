"""Emits windows: once, or early, at their ends and late, with retractions if wanted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.api.times.event_time import milliseconds
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.adding.aggregates import Aggregates
from fulmen.windows.inputs import LATE, late_counter
from fulmen.windows.options import AggregateOptions, CumulativeWindow
from fulmen.windows.spans import Span, datetime_of

EARLY = "early"
"""Begins the keys of timers for what is emitted before a window ends."""
EARLY_PANE, ON_TIME_PANE, LATE_PANE = "early", "on_time", "late"
Key = tuple[Any, ...]
Kept = list[Any]
"""A window of a key: the value kept by each aggregate, then its `Status`; None: never emitted."""
Status = tuple[Any, ...]
"""(how often it was emitted, whether at its end, whether something came since); with retractions,
also how it was emitted last: `Shown`. Sessions that were merged have several."""
Shown = tuple[Span, Sequence[Any], str, int]
"""Start and end, the results, the pane, and which one it was."""
NEW: Status = (0, False, True)


def changed(status: Status | None) -> Status | None:
    """The status of a window after something has come to it."""
    return status and (status[0], False, True, *status[3:])


class Panes:
    """Emits the windows of one task.

    Attributes:
        are_several: Whether a window may be emitted several times.
        wait: How long after its end a window is emitted, in milliseconds.
        is_final: Whether nothing can change it any more then.
    """

    def __init__(
        self,
        options: AggregateOptions,
        context: TopologyContext,
        aggregates: Aggregates,
        has_times: bool,
    ) -> None:
        """`has_times`: whether windows have a start and an end."""
        self.are_several, self.is_final = options.has_panes, options.emit == "final"
        self.wait = options.lateness if self.is_final else 0
        window = options.window
        self._spans = window.spans() if isinstance(window, CumulativeWindow) else None
        self._aggregates, self._timers, self._has_times = aggregates, context.timers, has_times
        self._retracts = options.retract
        self._early = milliseconds(options.emit_every) / 1000 if options.emit_every else None
        self._late = late_counter(context)
        self._when: tuple[Span | None, tuple[Any, Any]] = None, (None, None)

    def emit(
        self, key: Key, span: Span, kept: Kept, pane: str, collector: BasicOutputCollector
    ) -> None:
        """Emit a window as it is. Its status says so, if it may be emitted several times."""
        results = self._aggregates.results(kept)
        if not self.are_several:
            collector.emit([*key, *self.when(span), *results])
            return
        count, _, _, *before = kept[-1] or NEW
        now: Shown = span, results, pane, count
        rows: list[tuple[Shown, tuple[bool, ...]]] = [(now, ())]
        if self._retracts:
            rows = [*((one, (True,)) for one in before), (now, (False,))]
        for (of, values, *which), more in rows:
            collector.emit([*key, *self.when(of), *values, *which, *more])
        shown = (copy.deepcopy(now),) if self._retracts else ()  # others may change what they gave
        kept[-1] = count + 1, pane != EARLY_PANE, False, *shown

    def emit_later(self, place: Any) -> None:
        """Have something emitted before its end, if that is wanted and not due already."""
        if self._early is not None and self._timers.get((EARLY, place)) is None:
            self._timers.set_after((EARLY, place), self._early)

    def too_late(
        self, tup: Tuple, time: int | None, span: Span | None, collector: BasicOutputCollector
    ) -> None:
        """Emit a tuple on the stream of what is late, with its time and window, if it has them."""
        self._late.inc()
        edges = (None, None) if span is None else self._edges(span)
        at = None if time is None else datetime_of(time)
        collector.emit([tup.as_dict(), at, *edges], LATE)

    def when(self, span: Span) -> tuple[Any, Any]:
        """Start and end of a window as they are emitted: the same objects for all its keys.

        An object that comes again costs next to nothing where rows are pickled.
        """
        if not self._has_times:
            return None, None
        if span != self._when[0]:
            self._when = span, self._edges(span)
        return self._when[1]

    def _edges(self, span: Span) -> tuple[Any, Any]:
        start, end = span if self._spans is None else self._spans.edges(span)
        return datetime_of(start), datetime_of(end)
