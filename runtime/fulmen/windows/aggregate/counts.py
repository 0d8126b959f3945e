"""Windows that only count, and are emitted once: as `fixed` has them, and several times as fast.

Here a window is a dict of numbers. So all tuples of a chunk are counted at once, by Python's own
Counter, and not one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.components import FailedException
from fulmen.api.tuples import Tuple
from fulmen.windows.aggregate.kept import ColumnRows, Key, Windows
from fulmen.windows.aggregate.rows import StateRows
from fulmen.windows.inputs import spans_of
from fulmen.windows.spans import Span, Spans

NEVER = (0, 0)


class PlainCounts(Windows):
    """The counts of one task.

    Attributes:
        open: How many tuples there are of each key, by window: the same as in `state`.
    """

    def __init__(self, spans: Spans, *rest: Any) -> None:
        super().__init__(*rest)
        self._spans = spans
        self._plain_keys = len(self._options.key) == 1  # not as tuples: they are many
        self.open: dict[Span, Counter[Any]] = {}
        self._rows = StateRows(self.state)
        for key, number in self.state.items():
            span = spans.of(key[0])[-1]
            self.open.setdefault(span, Counter())[key[1]] = number
            self._rows.add(span, key)
        self._changed: dict[Span, set[Any]] = {}
        self._here: Sequence[Span] = ()
        self._since, self._until = NEVER

    def _go_to(self, time: int) -> None:
        """Find the windows of a time. They are kept at hand, as the next one is near."""
        if not self._since <= time < self._until:
            self._here = spans_of(self._spans, time)
            self._since, self._until = self._spans.same(self._here)

    def add_all(self, keys: Sequence[Any], times: Sequence[int | None]) -> Sequence[int]:
        """Count those tuples at once that are in the windows of the first, or of the last one.

        Args:
            keys: Their keys, all hashable; a value alone if a key has one.
            times: Their event times; None: a tuple has none.

        Returns:
            The positions of the others, which `add` must be called for.
        """
        if not (self._is_open_at(times[0]) or self._is_open_at(times[-1])):
            return range(len(keys))
        since, until, left = self._since, self._until, list[int]()
        is_near = [time is not None and since <= time < until for time in times]
        if not all(is_near):
            left = [i for i, near in enumerate(is_near) if not near]
            keys = list(compress(keys, is_near))
        for span in self._here:
            self._window(span).update(keys)
            self._changed.setdefault(span, set()).update(keys)
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

    def _window(self, span: Span) -> Counter[Any]:
        window = self.open.get(span)
        if window is None:
            window = self.open[span] = Counter()
            self._timers.set(span, span[1])  # for all its keys
        return window

    @override
    def add(
        self, key: Key, time: int, values: list[Any], tup: Tuple, collector: BasicOutputCollector
    ) -> None:
        self._go_to(time)
        if self.is_past(self._here[-1][1]):
            self.too_late(tup, time, self._here[0], collector)
        else:
            self._count(key, 1)

    @override
    def merge(self, key: Key, time: int, other: Sequence[Any]) -> None:
        self._go_to(time)
        if self.is_past(self._here[0][1]):
            raise FailedException("its window has ended meanwhile")
        self._count(key, other[0])

    @override
    def add_columns(self, rows: ColumnRows) -> Sequence[int] | None:
        found = self.in_windows(rows, self._spans)
        if found is None:
            return None
        for span, _, keys in found.parts:
            numbers = np.bincount(keys.codes, minlength=len(keys.values)).tolist()
            self._window(span).update(dict(zip(keys.values, numbers, strict=True)))
            self._changed.setdefault(span, set()).update(keys.values)
        return found.left

    def _count(self, key: Key, number: int) -> None:
        """Count so many tuples in all windows at hand that have not ended."""
        plain: Any = key[0] if self._plain_keys else key
        for span in self._here:
            if not self.is_past(span[1]):
                self._window(span)[plain] += number
                self._changed.setdefault(span, set()).add(plain)

    @override
    def end_batch(self) -> None:
        for span, changed in self._changed.items():
            self._rows.write(span, self.open[span], changed)
        self._changed = {}

    @override
    def on_timer(self, key: Any, at: int, collector: BasicOutputCollector) -> None:
        self.end_batch()  # nothing of this batch comes any more
        span: Span = key
        since, until = self.when(span)
        emit, is_plain = collector.emit, self._plain_keys
        for plain, number in self.open.pop(span, Counter()).items():
            emit([*((plain,) if is_plain else plain), since, until, number])
        self._rows.delete(span)

    @override
    def emit_early(self, place: Any, collector: BasicOutputCollector) -> None:
        self.on_timer(place, 0, collector)  # it is emitted once
