"""Topologies to look at: each once, at its time, one at a time, later after failures, fairly.

Somebody with write access to one namespace may cause any amount of work: many topologies that
change all the time and take long. So namespaces take turns: none can fill the queue, and one whose
topologies block everything rests for longer than it has blocked.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from math import inf
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 300.0
RESYNC_SECONDS: Final = 600.0
MOST_OF_A_GROUP: Final = 4
"""Keys of one group that are worked on at once; there are more that work."""
LIGHT_SECONDS: Final = 0.05
"""Seconds of the one thread that a key may take without a rest."""
REST: Final = 4.0
"""The rest of a key's group, as a multiple of the time that the key took beyond that."""
LONGEST_REST: Final = 10.0


class Queue(Generic[K]):
    """Keys that are due at some time.

    A key that is added while it is being worked on is given out again afterwards, never twice at
    once. Every key comes again after ten minutes, whatever happens.

    Args:
        clock: Seconds that only grow.
        jitter: A number from 0 to 1, which spreads keys over time.
        group: The group of a key, which takes turns with others: the namespace.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        group: Callable[[K], Hashable],
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._group = group
        self._due: dict[K, float] = {}
        self._running: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._turns: dict[Hashable, float] = {}  # when it was each group's, or will be again
        self._changed = asyncio.Event()
        self._moved = clock()

    def __len__(self) -> int:
        return len(self._due.keys() | self._running.keys())

    def add(self, key: K, delay: float = 0.0) -> None:
        """Have a key looked at after `delay` seconds, or earlier if it is due earlier."""
        due = self._clock() + delay
        self._due[key] = min(due, self._due.get(key, due))
        self._changed.set()

    def restart(self) -> None:
        """Make everything due now: all workers have been stopped."""
        now = self._clock()
        self._due = dict.fromkeys(self._due.keys() | self._running.keys(), now)
        self._running.clear()
        self._failures.clear()
        self._moved = now
        self._changed.set()

    async def get(self) -> K:
        """The next key that is due, which is then being worked on until `done` or `failed`."""
        while True:
            self._changed.clear()
            now, waiting = self._clock(), self._waiting()
            turn = min(
                ((turn, due, key) for turn, due, key in waiting if max(turn, due) <= now),
                key=lambda entry: entry[:2],
                default=None,
            )
            if turn is not None:
                key = turn[2]
                del self._due[key]
                self._running[key] = self._turns[self._group(key)] = now
                return key
            await self._wait(min((max(turn, due) - now for turn, due, _ in waiting), default=None))

    def _waiting(self) -> list[tuple[float, float, K]]:
        """Keys that may be given out in time, with their groups' turns and their own times."""
        running = Counter(map(self._group, self._running))
        return [
            (self._turns.get(group, -inf), due, key)
            for key, due in self._due.items()
            if key not in self._running and running[group := self._group(key)] < MOST_OF_A_GROUP
        ]

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def done(self, key: K, again_in: float | None = None) -> None:
        """A key was worked on; it comes again after `again_in` seconds, or at the usual time."""
        self._failures.pop(key, None)
        usual = RESYNC_SECONDS * (1 - 0.2 * self._jitter())
        self._finish(key, usual if again_in is None else min(again_in, usual))

    def failed(self, key: K) -> float:
        """Work on a key failed: it comes again after a while that doubles each time.

        Returns:
            How long, in seconds.
        """
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay: float = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 20))
        self._finish(key, delay)
        return delay

    def charge(self, key: K, seconds: float) -> None:
        """Let a key's group rest: it has held up all others for so many seconds."""
        rest = min(LONGEST_REST, REST * (seconds - LIGHT_SECONDS))
        if rest > 0:
            group, now = self._group(key), self._clock()
            self._turns[group] = max(now, self._turns.get(group, now)) + rest

    def forget(self, key: K) -> None:
        """A key that was worked on is gone: it comes again only if it is added."""
        self._failures.pop(key, None)
        self._running.pop(key, None)
        group = self._group(key)
        if group not in map(self._group, self._due.keys() | self._running.keys()):
            self._turns.pop(group, None)
        self._moved = self._clock()
        self._changed.set()

    def _finish(self, key: K, delay: float) -> None:
        self._running.pop(key, None)
        self._moved = self._clock()
        self.add(key, delay)

    def stuck_for(self) -> float:
        """Seconds for which keys have been due, or worked on, and none has been finished.

        A long queue still moves: while the API server hangs, each key takes its time.
        """
        now = self._clock()
        since = [
            *self._running.values(),
            *(due for key, due in self._due.items() if key not in self._running),
        ]
        return max(0.0, now - max(self._moved, min(since, default=now)))
