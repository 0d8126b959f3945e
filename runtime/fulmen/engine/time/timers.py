"""The timers of one task, durable, and in the order of their times.

The durable part is keyed state, key -> time; a commit writes its changes. Heaps beside it
say which timer is next; they are made anew with the task. An entry of a heap that the state
contradicts is one of a timer that was moved or cancelled, and is left out when it comes up. So a
batch costs what is set and what is due in it, however many timers there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Any

from typing_extensions import override

from fulmen.api.timers import TimerKeeper
from fulmen.engine.state.entries.keyed_state import KeyedState

STALE_ENTRIES = 1000
"""So many more entries than twice the timers make a heap be made anew."""
Entry = tuple[int | float, int, Any]
Next = tuple[int | None, float | None]
"""The times of the next timer of event time, and of the clock."""


class TaskTimers(TimerKeeper):
    """Timers of one task."""

    def __init__(self, state: KeyedState) -> None:
        """`state` is what the checkpoint has of them."""
        self._state = state
        self._numbers = count()
        self._make_heaps()

    def _make_heaps(self) -> None:
        self._heaps: dict[type, list[Entry]] = {int: [], float: []}
        for key, at in self._state.items():
            self._heaps[type(at)].append((at, next(self._numbers), key))
        for heap in self._heaps.values():
            heapq.heapify(heap)

    def __len__(self) -> int:
        return len(self._state)

    @override
    def set(self, key: Hashable, at: int | float) -> None:
        known = self._state.get(key)
        if known == at and type(known) is type(at):
            return
        self._state[key] = at
        heapq.heappush(self._heaps[type(at)], (at, next(self._numbers), key))
        if sum(map(len, self._heaps.values())) > 2 * len(self._state) + STALE_ENTRIES:
            self._make_heaps()

    @override
    def cancel(self, key: Hashable) -> None:
        self._state.pop(key, None)

    @override
    def get(self, key: Hashable) -> int | float | None:
        at: int | float | None = self._state.get(key)
        return at

    @property
    def next(self) -> Next:
        """When the next ones are due; None: there is none."""
        at, clock = self._first(int), self._first(float)
        return (None if at is None else int(at)), clock

    def _first(self, kind: type) -> int | float | None:
        heap = self._heaps[kind]
        while heap and not self._is_valid(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _is_valid(self, entry: Entry) -> bool:
        at, _, key = entry
        known = self._state.get(key)
        return known == at and type(known) is type(at)

    def is_due(self, watermark: float | None, clock: float) -> bool:
        """Whether one is due."""
        at, by_clock = self.next
        is_passed = at is not None and watermark is not None and at <= watermark
        return is_passed or (by_clock is not None and by_clock <= clock)

    def take_due(self, watermark: float | None, clock: float) -> list[list[Any]]:
        """Forget those that are due. Gives the key and the time of each, in the order of times.

        Args:
            watermark: Of event time, in milliseconds; None: not known.
            clock: The batch clock.
        """
        due: list[list[Any]] = []
        for kind, limit in ((int, watermark), (float, clock)):
            heap = self._heaps[kind]
            while limit is not None and (at := self._first(kind)) is not None and at <= limit:
                _, _, key = heapq.heappop(heap)
                del self._state[key]
                due.append([key, at])
        return due

    def updates(self, number: int) -> dict[str, tuple[bytes | None, int]]:
        """The records for commit `number`."""
        return self._state.updates(number)
