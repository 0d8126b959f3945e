"""The timers of one task, durable, and in the order of their times.

The durable part is keyed state, key -> time; a commit writes its changes. A queue beside it says
which timer is next: for each timer it has an entry at its time, or at an earlier one from which it
was moved. An entry that the state contradicts is left out when it comes up, or moved to where the
timer is by then. So a timer that is moved on and on, as one of `state_ttl` is, costs the queue
nothing; and a batch costs what is set and what is due in it, however many timers there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterable
from itertools import count
from typing import Any, Protocol

from typing_extensions import override

from fulmen.api.times.timers import TimerKeeper
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.state.entries.disk_journals import TaskState, restored_entries
from fulmen.engine.state.entries.disk_queue import DiskQueue
from fulmen.engine.state.entries.disk_state import DiskState
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import TIMERS

STALE_ENTRIES = 1000
"""So many more entries than twice the timers make a queue in memory be made anew."""
AT_ONCE = 100_000
"""So many timers of the clock are due in one batch at most, since keys that were loaded at once
expire at once."""
Time = int | float
Next = tuple[int | None, float | None]
"""The times of the next timer of event time, and of the clock."""


class TimerQueue(Protocol):
    """Times and keys, in the order of times."""

    def push(self, at: Time, key: Any) -> None:
        """Add an entry."""
        ...

    def first(self, kind: type) -> tuple[Time, Any] | None:
        """The first entry of a kind of time; None: there is none."""
        ...

    def pop(self, kind: type) -> None:
        """Take the first entry of a kind away."""
        ...

    def tidy(self) -> None:
        """Let go of entries that nobody needs, if there are many."""
        ...


class HeapQueue:
    """A queue in memory."""

    def __init__(self, state: KeyedState) -> None:
        """`state` has the timers."""
        self._state, self._numbers = state, count()
        self._fill(state.items())

    def _fill(self, items: Iterable[tuple[Any, Time]]) -> None:
        self._heaps: dict[type, list[tuple[Time, int, Any]]] = {int: [], float: []}
        for key, at in items:
            self._heaps[type(at)].append((at, next(self._numbers), key))
        for heap in self._heaps.values():
            heapq.heapify(heap)

    def push(self, at: Time, key: Any) -> None:
        """Add an entry."""
        heapq.heappush(self._heaps[type(at)], (at, next(self._numbers), key))

    def first(self, kind: type) -> tuple[Time, Any] | None:
        """The first entry of a kind of time; None: there is none."""
        heap = self._heaps[kind]
        return (heap[0][0], heap[0][2]) if heap else None

    def pop(self, kind: type) -> None:
        """Take the first entry of a kind away."""
        heapq.heappop(self._heaps[kind])

    def tidy(self) -> None:
        """Make it anew, if most of it is of timers that were moved or cancelled."""
        if len(self) > 2 * len(self._state) + STALE_ENTRIES:
            self._fill(self._state.items())

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values()))


class TaskTimers(TimerKeeper):
    """Timers of one task."""

    def __init__(self, state: TaskState) -> None:
        """`state` is what the checkpoint has of them."""
        self._state = state
        self._queue: TimerQueue = (
            DiskQueue(state.entries) if isinstance(state, DiskState) else HeapQueue(state)
        )
        self._allowed = AT_ONCE  # of the clock, in this batch
        for key in state.noted:  # of several tasks, with a time that the disk may not have
            if (at := state.get(key)) is not None:
                self._queue.push(at, key)

    @staticmethod
    def restored(journals: Journals) -> TaskTimers:
        """The timers that are in the journals of a task.

        Raises:
            ServiceUnavailable: They are on disk, and it refuses it.
        """
        return TaskTimers(restored_entries(journals, TIMERS))

    def __len__(self) -> int:
        return len(self._state)

    @property
    def is_on_disk(self) -> bool:
        """Whether they are on disk."""
        return isinstance(self._state, DiskState)

    @override
    def set(self, key: Hashable, at: Time) -> None:
        known: Any = self._state.get(key)
        is_alike = type(known) is type(at)
        if is_alike and known == at:
            return
        self._state[key] = at
        if not is_alike or known > at:
            self._queue.push(at, key)
            self._queue.tidy()

    @override
    def cancel(self, key: Hashable) -> None:
        self._state.pop(key, None)

    @override
    def get(self, key: Hashable) -> Time | None:
        at: Time | None = self._state.get(key)
        return at

    def fetch(self, keys: Iterable[Hashable]) -> None:
        """Have timers that may be on disk at hand: at once it takes a third of the time."""
        self._state.fetch(keys)

    @property
    def noted(self) -> Collection[Any]:
        """The keys that were set, moved or cancelled since the last commit."""
        return self._state.noted

    @property
    def next(self) -> Next:
        """When the next ones are due; None: there is none."""
        at, clock = self._first(int), self._first(float)
        return (None if at is None else int(at[0])), (None if clock is None else clock[0])

    def _first(self, kind: type) -> tuple[Time, Any] | None:
        while (entry := self._queue.first(kind)) is not None:
            at, key = entry
            known: Any = self._state.get(key)
            is_alike = type(known) is kind
            if is_alike and known == at:
                return entry
            self._queue.pop(kind)
            if is_alike and known > at:
                self._queue.push(known, key)
        return None

    def is_due(self, watermark: float | None, clock: float) -> bool:
        """Whether one is due."""
        at, by_clock = self.next
        is_passed = at is not None and watermark is not None and at <= watermark
        return is_passed or (self._allowed > 0 and by_clock is not None and by_clock <= clock)

    def take_due(
        self, watermark: float | None, clock: float, most: int | None = None
    ) -> list[list[Any]]:
        """Forget those that are due. Gives the key and the time of each, in the order of times.

        Args:
            watermark: Of event time, in milliseconds; None: not known.
            clock: The batch clock. Of those by it no more than `AT_ONCE` are due in a batch.
            most: So many of event time at most; None: all.
        """
        due = [] if watermark is None else self._taken(int, watermark, most)
        by_clock = self._taken(float, clock, self._allowed)
        self._allowed -= len(by_clock)
        return due + by_clock

    def _taken(self, kind: type, limit: float, most: int | None) -> list[list[Any]]:
        due: list[list[Any]] = []
        while len(due) != most and (entry := self._first(kind)) is not None and entry[0] <= limit:
            at, key = entry
            self._queue.pop(kind)
            del self._state[key]
            due.append([key, at])
        return due

    def begin_batch(self, tag: str) -> None:
        """What was committed last is durable; the attempt of this tag begins.

        Raises:
            ServiceUnavailable: They are on disk, and it refuses it.
        """
        self._state.begin_batch(tag)
        self._allowed = AT_ONCE

    def updates(self, number: int) -> dict[str, tuple[bytes | None, int]]:
        """The records for commit `number`."""
        return self._state.updates(number)
