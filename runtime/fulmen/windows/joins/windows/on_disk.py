"""Windows of a join that are where they are, on disk.

In memory is what a batch has to do with, and of a window that ends one key after the other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import groupby
from typing import Any

from typing_extensions import override

from fulmen.windows.disk import on_disk
from fulmen.windows.joins.row_log import BEFORE_BATCHES
from fulmen.windows.joins.side_rows import Key
from fulmen.windows.joins.windows.fixed import DONE, ROWS, JoinedFixedWindows
from fulmen.windows.joins.windows.joined import OfKey
from fulmen.windows.spans import Span

Place = tuple[Span, Key, int]


class JoinedWindowsOnDisk(JoinedFixedWindows):
    """The joined windows of one task, on disk."""

    # State: (window, key, n) -> the rows of both sides that batch n has brought.

    @override
    def _restore(self) -> None:
        self._disk = on_disk(self._state)
        self._last: dict[Span, Place] = {}
        """Where windows go on that are brought in pages."""
        found, seen = list(self._disk.items_of(ROWS)), list(self._disk.items_of(DONE))
        done = {(*place[1:3], key) for place, rows in seen for _, key in rows}
        for (_, start, end, n), rows in found:  # they were in memory
            of_key: dict[Key, OfKey] = {}
            for side, key, row in rows:
                if (start, end, key) not in done:
                    of_key.setdefault(key, ([], []))[side].append(row)
            for key, both in of_key.items():
                self._state[(start, end), key, n - BEFORE_BATCHES] = both
        self._disk.forget(place for place, _ in [*found, *seen])

    @property
    @override
    def count(self) -> int:
        return len(self._state)

    @override
    def _known(self, span: Span, key: Key) -> OfKey:
        if not self._has_ended(span):
            return [], []
        return self._both(both for _, both in self._disk.items_of(span, key))

    def _both(self, some: Iterable[OfKey]) -> OfKey:
        left, right = list[Any](), list[Any]()
        for lefts, rights in some:
            left += lefts
            right += rights
        return left, right

    @override
    def end_batch(self) -> None:
        for window, brought in self._log.taken():
            _, *edges = window.of
            self._write(tuple(edges), brought)
        self._open.clear()

    def _write(self, span: Span, brought: list[Any]) -> None:
        of_key: dict[Key, OfKey] = {}
        for side, key, row in brought:
            of_key.setdefault(key, ([], []))[side].append(row)
        number = self._batch.number
        self._state.update(((span, key, number), both) for key, both in of_key.items())

    @override
    def _has_rows(self, span: Span) -> bool:
        after = self._last.get(span)
        return span in self._open or next(self._disk.items_of(span, after=after), None) is not None

    @override
    def _of(self, span: Span) -> Iterator[tuple[Key, OfKey]]:
        for key, rows, _ in self._by_key(span):
            yield key, rows

    @override
    def _over_now(self, span: Span) -> Generator[tuple[Key, OfKey]]:
        for key, rows, places in self._by_key(span, self._last.pop(span, None)):
            self._disk.forget(places)
            self._last[span] = places[-1]
            yield key, rows
        self._last.pop(span, None)

    def _by_key(
        self, span: Span, after: Place | None = None
    ) -> Iterator[tuple[Key, OfKey, list[Place]]]:
        """The rows of each key in a window, and where they are."""
        self.end_batch()  # nothing of this batch comes any more
        items_of = self._disk.items_of(span, after=after)
        for key, items in groupby(items_of, key=lambda item: item[0][1]):
            there = list(items)
            yield key, self._both(both for _, both in there), [place for place, _ in there]
