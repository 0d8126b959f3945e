"""Windows that are where they are, whatever else comes: tumbling, sliding and of a calendar.

What a tuple costs decides how many of them a task can take. So state is written once a batch for
each key and window that something has come for, and a window has one timer for all its keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from operator import not_
from typing import Any

import numpy as np
from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.tuples import Tuple
from fulmen.errors import PASSED_ON, FulmenError
from fulmen.windows.aggregate.adder import Adder
from fulmen.windows.aggregate.kept import (
    EARLY,
    EARLY_PANE,
    LATE_PANE,
    ON_TIME_PANE,
    ColumnRows,
    Key,
    Windows,
)
from fulmen.windows.aggregate.rows import StateRows
from fulmen.windows.columns import WindowRows
from fulmen.windows.inputs import spans_of
from fulmen.windows.spans import Span, Spans

Kept = list[Any]
"""What is kept of one window of one key: what each aggregate keeps, and behind that its `Status`;
None: it was never emitted."""
Status = tuple[Any, ...]
"""How often it was emitted, whether at its end, whether something has come since, and, if it is to
be taken back, how it was emitted last."""
NEW: Status = (0, False, True)
NEVER = (0, 0)
_NONE: dict[Any, Any] = {}


class FixedWindows(Windows):
    """Tumbling, sliding and calendar windows of one task.

    Attributes:
        open: What is kept of each window and key: the same as in `state`, by window. Of tuples that
            are only counted, that is what the state has: a list for each would be too dear.
        since: From this time on,
        until: and before this one, times are in the same windows as the last one was.
        at_hand: What has come to these windows by key, if it is one window that has not ended:
            what is kept of each key that was changed in this batch already; of tuples that are
            only counted, how many the batch has brought.
        only_counts: Whether there is one aggregate, and it only counts tuples. What a batch brings
            is counted by itself then, by Python's own Counter, and added up at its end.
    """

    def __init__(self, spans: Spans, *rest: Any) -> None:
        super().__init__(*rest)
        self._spans = spans
        self._width = len(self._options.aggregates) + 1
        self._plain_keys = len(self._options.key) == 1  # not as tuples: they are many
        self.only_counts = self._aggregates.only_counts and self._width == 2
        self.open: dict[Span, dict[Any, Any]] = {}
        self._rows = StateRows(self.state)
        for key, written in self.state.items():
            span, kept = spans.of(key[0])[-1], self._read(written)
            self.open.setdefault(span, {})[key[1]] = written if self.only_counts else kept
            self._rows.add(span, key)
        self._changed: dict[Span, Any] = {}
        self._counted: dict[Span, Counter[Any]] = {}
        self._forget_place()

    def _forget_place(self) -> None:
        self.since, self.until = NEVER
        self._here: Sequence[Span] = ()
        self.at_hand: dict[Any, Any] = {}

    def _go_to(self, time: int) -> None:
        """Find the windows of a time. They are kept at hand, as the next one is near."""
        if self.since <= time < self.until:
            return
        self._here = spans_of(self._spans, time)
        self.since, self.until = self._spans.same(self._here)
        self.at_hand = {}
        if len(self._here) == 1 and not self.is_past(self._here[0][1]):
            brought: Any = self._counted if self.only_counts else self._changed
            self.at_hand = brought.setdefault(self._here[0], Counter() if self.only_counts else {})

    def count(self, keys: Sequence[Any], times: Sequence[int | None]) -> Sequence[int]:
        """Count those tuples at once that are in the windows of the first, or of the last one.

        Args:
            keys: Their keys, all hashable; a value alone if a key has one.
            times: Their event times; None: a tuple has none.

        Returns:
            The positions of the others, which `add` must be called for.
        """
        left: Sequence[int] = range(len(keys))
        for edge in (0, -1):
            if not self._is_open_at(times[edge]):
                continue
            since, until = self.since, self.until
            is_near = [time is not None and since <= time < until for time in times]
            are_all = all(is_near)
            near = keys if are_all else list(compress(keys, is_near))
            for span in self._here:
                self._brought(span).update(near)
            if are_all:
                return ()
            is_far = list(map(not_, is_near))
            left, keys, times = (list(compress(some, is_far)) for some in (left, keys, times))
        return left

    def _is_open_at(self, time: int | None) -> bool:
        """Go to a time. Whether none of its windows has ended."""
        if time is None:
            return False
        try:
            self._go_to(time)
        except FailedException:
            return False
        return not self.is_past(self._here[0][1])

    def _count(self, spans: Sequence[Span], plain: Any, number: int) -> list[Span]:
        """Count so many tuples in those of some windows that have not ended. Gives the others."""
        ended = [span for span in spans if self.is_past(span[1])]
        for span in spans[len(ended) :]:  # those that end first are first
            self._brought(span)[plain] += number
        return ended

    def _brought(self, span: Span) -> Counter[Any]:
        """What the batch has brought to a window, which has a timer from its first tuple on.

        The window may end in the same batch: what is in front of it ended there.
        """
        counted = self._counted.setdefault(span, Counter())
        if not counted:
            if not self.open.get(span):
                self._timers.set(span, span[1] + self._wait)  # for all its keys
            self.emit_later(span)
        return counted

    def _add_up(self) -> None:
        """Add what was counted to what is kept."""
        for span, counted in self._counted.items():
            if not counted:
                continue
            windows = self.open.setdefault(span, {})
            if not windows:
                windows.update(counted)
            else:
                for plain, number in counted.items():
                    kept = windows.get(plain, 0)
                    if kept.__class__ is int:
                        windows[plain] = kept + number
                    else:  # it was emitted before
                        windows[plain] = kept[0] + number, _changed(kept[1])
            self._changed[span] = counted
        self._counted = {}

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        plain: Any = key[0] if self._plain_keys else key
        self._go_to(time)
        least = self._takes.least()
        live = [span for span in self._here if span[1] > least]
        if not live:
            self.too_late(tup, time, self._here[0], collector)
            return
        if self.only_counts:
            live = self._count(live, plain, 1)
        windows = [self._kept(span, plain) for span in live]
        self._aggregates.add(windows, values, time)
        for span, kept in zip(live, windows, strict=True):
            _, has_ended, *_ = kept[-1] or NEW
            if has_ended and not self._is_final:
                self._emit(span, plain, kept, LATE_PANE, collector, has_ended=True)
            else:
                kept[-1] = _changed(kept[-1])
                self.emit_later(span)
            self._put(span, plain, kept)

    @override
    def merge(self, key: Key, time: int, other: Sequence[Any]) -> None:
        plain: Any = key[0] if self._plain_keys else key
        self._go_to(time)
        if self.is_past(self._here[0][1]):
            raise FailedException("its window has ended meanwhile")
        if self.only_counts:
            self._count(self._here, plain, other[0])
            return
        windows = [self._kept(span, plain) for span in self._here]
        self._aggregates.absorb(windows, other)
        for span, kept in zip(self._here, windows, strict=True):
            kept[-1] = _changed(kept[-1])
            self.emit_later(span)
            self._put(span, plain, kept)

    @override
    def add_columns(self, rows: ColumnRows) -> Sequence[int] | None:
        if self.only_counts:
            return self._count_columns(rows)
        adders = self._aggregates.adders(rows.columns, rows.values_at, rows.times.times)
        found = None if adders is None else self.in_windows(rows, self._spans)
        if adders is None or found is None:
            return None
        known = [
            [self.open.get(span, _NONE).get(plain) for plain in keys.values]
            for span, _, keys in found.parts
        ]
        there = [one for of_part in known for one in of_part if one]
        if not all(adder.fits([one[i] for one in there]) for i, adder in enumerate(adders)):
            return None
        for part, of_part in zip(found.parts, known, strict=True):
            self._add_part(part, adders, of_part)
        return found.left

    def _count_columns(self, rows: ColumnRows) -> Sequence[int] | None:
        found = self.in_windows(rows, self._spans)
        if found is None:
            return None
        for span, _, keys in found.parts:
            numbers = np.bincount(keys.codes, minlength=len(keys.values)).tolist()
            brought = dict(zip(keys.values, numbers, strict=True))
            self._brought(span).update(brought)
        return found.left

    def _window(self, span: Span) -> dict[Any, Any]:
        """What is kept of a window, by key. It has a timer for all its keys."""
        windows = self.open.setdefault(span, {})
        if not windows:
            self._timers.set(span, span[1] + self._wait)
        return windows

    def _add_part(
        self, part: WindowRows, adders: Sequence[Adder], known: Sequence[Kept | None]
    ) -> None:
        """Add the rows of one window, which has not ended."""
        span, windows = part.span, self._window(part.span)
        some = [kept or [*self._aggregates.new(), None] for kept in known]
        columns = [adder.add([kept[i] for kept in some], part) for i, adder in enumerate(adders)]
        for i, column in enumerate(columns):  # nothing is changed if an adder raises
            for kept, value in zip(some, column, strict=True):
                kept[i] = value
        for kept in some:
            if kept[-1] is not None:
                kept[-1] = _changed(kept[-1])
        added = dict(zip(part.keys.values, some, strict=True))
        windows.update(added)
        self._changed.setdefault(span, {}).update(added)
        self.emit_later(span)

    def _kept(self, span: Span, plain: Any) -> Kept:
        """What is kept of a key in a window: a copy."""
        known = self.open.get(span, _NONE).get(plain)
        return [*self._aggregates.new(), None] if known is None else self._read(known)

    def _put(self, span: Span, plain: Any, kept: Kept) -> None:
        """What is kept of a key in a window from now on."""
        windows = self.open.setdefault(span, {})
        if not windows or (plain not in windows and self.is_past(span[1])):
            self._timers.set(span, span[1] + self._wait)  # for all its keys
        windows[plain] = _written(kept) if self.only_counts else kept
        self._changed.setdefault(span, {})[plain] = kept

    def _read(self, written: Any) -> Kept:
        """What was written into the state, or is kept as it is."""
        kept = [*written] if type(written) in (tuple, list) else [written, None]
        if len(kept) != self._width:
            raise FulmenError(
                "the checkpoint has windows with other aggregates. Give the component another name,"
                " and its windows begin anew"
            )
        return kept

    @override
    def end_batch(self) -> None:
        self._add_up()
        for span, changed in self._changed.items():
            written = iter if self.only_counts else _all_written
            self._rows.write(span, self.open[span], changed, written)
        self._changed = {}
        self._forget_place()

    @override
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        self.end_batch()  # nothing of this batch comes any more
        if key[0] == EARLY:
            self.emit_early(key[1], collector)
            return
        span: Span = key
        self._timers.cancel((EARLY, span))
        is_over = at >= span[1] + self._lateness
        if not is_over:
            self._timers.set(span, span[1] + self._lateness)
            if self._is_final:  # as allowedLateness was shorter when the timer was set
                return
        try:
            self._emit_all(span, ON_TIME_PANE, collector)
        finally:
            if is_over:
                self.open.pop(span, None)
                self._rows.delete(span)

    @override
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        self.end_batch()  # as in `on_timer`
        self._emit_all(place, EARLY_PANE, collector)

    def _emit_all(self, span: Span, pane: str, collector: BasicOutputCollector) -> None:
        """Emit what was not, of all keys of a window.

        Raises:
            BaseException: The result of a key has raised it. All others are emitted.
        """
        has_ended, is_kept = pane == ON_TIME_PANE, self._has_panes
        wrong: BaseException | None = None
        windows = self.open.get(span, _NONE)
        emit, when, is_plain = collector.emit, self.when(span), self._plain_keys
        for plain, known in windows.items():
            if known.__class__ is int and not is_kept:  # a count has nothing that could raise
                emit([*((plain,) if is_plain else plain), *when, known])
                continue
            kept = self._read(known) if self.only_counts else known
            _, ended_before, is_new, *_ = kept[-1] or NEW
            if ended_before or not (is_new or has_ended):
                continue
            try:
                self._emit(span, plain, kept, pane, collector, has_ended)
            except PASSED_ON:
                raise
            except BaseException as error:  # noqa: BLE001 (an author's aggregation may raise anything)
                wrong = wrong or error
            if is_kept:
                written = self.state[span[0], plain] = _written(kept)
                if self.only_counts:
                    windows[plain] = written
        if wrong is not None:
            raise wrong

    def _emit(
        self,
        span: Span,
        plain: Any,
        kept: Kept,
        pane: str,
        collector: BasicOutputCollector,
        has_ended: bool,
    ) -> None:
        key = (plain,) if self._plain_keys else plain
        results = self._aggregates.results(kept)
        if not self._has_panes:
            collector.emit([*key, *self.when(span), *results])
            return
        count, _, _, *before = kept[-1] or NEW
        after = self.emit_pane(key, (span, results, pane, count), before, collector)
        kept[-1] = count + 1, has_ended, False, *after


def _all_written(some: Sequence[Kept]) -> Sequence[Any]:
    """What `_written` says of each; Python runs once for most, and not once for each."""
    if some and len(some[0]) == 2:
        firsts, statuses = [kept[0] for kept in some], [kept[1] for kept in some]
        if set(map(type, firsts)) <= {int, float} and statuses.count(None) == len(some):
            return firsts
    return list(map(_written, some))


def _written(kept: Kept) -> Any:
    """What the state has of what is kept: a number alone, if that is all."""
    is_number = len(kept) == 2 and kept[1] is None and type(kept[0]) in (int, float)
    return kept[0] if is_number else tuple(kept)


def _changed(status: Status | None) -> Status | None:
    """What is known of a window to which something has come."""
    return status and (status[0], False, True, *status[3:])
