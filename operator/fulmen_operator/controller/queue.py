"""Topologies to look at: each once, at its time, one at a time, later after failures."""

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 300.0
RESYNC_SECONDS: Final = 600.0


class Queue(Generic[K]):
    """Keys that are due at some time.

    A key that is added while it is being worked on is given out again afterwards, never twice at
    once. Every key comes again after ten minutes, whatever happens.

    Args:
        clock: Seconds that only grow.
        jitter: A number from 0 to 1, by which keys are kept from coming all at once.
    """

    def __init__(self, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        self._clock = clock
        self._jitter = jitter
        self._due: dict[K, float] = {}
        self._running: dict[K, float] = {}
        self._failures: dict[K, int] = {}
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
        """Everything is due now, and nobody works on anything: all who did have been stopped."""
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
            waiting = [(due, key) for key, due in self._due.items() if key not in self._running]
            due, key = min(waiting, key=lambda entry: entry[0], default=(None, None))
            if due is not None and key is not None and due <= self._clock():
                del self._due[key]
                self._running[key] = self._clock()
                return key
            await self._wait(None if due is None else due - self._clock())

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

    def forget(self, key: K) -> None:
        """A key that was worked on is gone: it comes again only if it is added."""
        self._failures.pop(key, None)
        self._running.pop(key, None)
        self._moved = self._clock()
        self._changed.set()

    def _finish(self, key: K, delay: float) -> None:
        self._running.pop(key, None)
        self._moved = self._clock()
        self.add(key, delay)

    def stuck_for(self) -> float:
        """For how many seconds keys have been due, or worked on, and none has come to its end.

        A queue that is long moves nevertheless: while the API server hangs, each key takes its
        time.
        """
        now = self._clock()
        since = [
            *self._running.values(),
            *(due for key, due in self._due.items() if key not in self._running),
        ]
        return max(0.0, now - max(self._moved, min(since, default=now)))
