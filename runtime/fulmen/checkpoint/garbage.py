"""Deletes what the newest commit does not need, off the path of commits.

Guarantees: nothing is deleted that the newest commit of this driver refers to, that one of its
pins needs, that was written for a later commit, or whose name is not of our making. So an older
driver that is still collecting does no harm to a newer one, whose state starts from the same
commits: a later commit links to, and pins, only what the commit before it refers to. What is left
over after a crash is found by listing, once at the start and then every `SWEEP_EVERY` commits: the
number of objects is bounded by what is referred to plus a constant.

Two delays:
    - `LAG` commits: a worker may be loading the state of a commit just superseded.
    - `FENCE_SECONDS` for claims. A claim occupies the number that the driver before it would use
      next. Once it is deleted, that driver's put would succeed if it woke up now; so a driver that
      needed longer than `SURE_SECONDS` for a commit looks for newer ones afterwards (in `log`), and
      the claim stays longer than that. The clock is this process's own: no machine's time of day
      matters. Other commits fence nobody: only the driver that made them wanted their numbers.
      Of claims by drivers that died young the newest `CLAIMS_KEPT` stay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from fulmen.checkpoint.manifest import Commit, Manifest
from fulmen.checkpoint.names import CALLS, COMMITS, STATE, commit_key, number_in
from fulmen.checkpoint.record import MANIFEST_EVERY
from fulmen.checkpoint.savepoints.pins import PINS, pins_in, read_pinned
from fulmen.checkpoint.store import Store

LAG = 16
SWEEP_EVERY = 1000
SURE_SECONDS = 30.0
FENCE_SECONDS = 120.0
_BULK = 1000


@dataclass(frozen=True)
class LogLimits:
    """Limits of how often a log does what is not needed for each commit.

    Attributes:
        manifest_every: Commits from one with a manifest to the next.
        lag: For so many commits what was dropped stays.
        sweep_every: Commits between two listings of all objects.
        claim_tries: Against a driver that commits as fast as this one claims, each may fail.
    """

    manifest_every: int = MANIFEST_EVERY
    lag: int = LAG
    sweep_every: int = SWEEP_EVERY
    claim_tries: int = 1000


LIMITS = LogLimits()


class Garbage:
    """Files that one driver may delete, from its claim on.

    `apply` is called by the thread that commits, `collect` by any one; they wait for each other
    only while the queue is looked at, never during a request to the store.

    Args:
        store: The store to delete from.
        manifest: The state after the claim. From now on only `apply` may change it.
        clock: Seconds that go on while the machine sleeps.
        limits: How long what was dropped stays, and how often all objects are listed.
    """

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        clock: Callable[[], float],
        limits: LogLimits = LIMITS,
    ) -> None:
        self._limits = limits
        self._store = store
        self._manifest = manifest
        self._clock = clock
        self._claimed_at = clock()
        self._swept_at: int | None = None
        self._queue: dict[str, int] = {}  # key -> the commit that dropped it, ascending
        self._pinned: dict[int, set[str]] = {}  # commit of a pin -> keys that it needs
        self._lock = threading.Lock()  # for the manifest and the queue
        self._collecting = threading.Lock()

    def apply(self, commit: Commit) -> None:
        """Apply a commit that was made, and remember what it dropped."""
        with self._lock:
            dropped = self._manifest.apply(commit)
            for key in dropped.files:
                self._queue[key] = commit.number
            for number in dropped.commits:
                self._queue[commit_key(number)] = commit.number

    def collect(self) -> int:
        """Delete what is due; returns how many objects. Does nothing while another call is at it.

        Raises:
            CheckpointError: The store fails. What was not deleted is so by a later call.
        """
        if not self._collecting.acquire(blocking=False):
            return 0
        try:
            moment = self._follow_pins()
            due = self._due(moment.newest)
            every, swept_at = self._limits.sweep_every, self._swept_at
            if swept_at is None or moment.newest >= swept_at + every:
                due += self._orphans(*moment)
            for start in range(0, len(due), _BULK):
                self._store.delete(due[start : start + _BULK])
                with self._lock:
                    for key in due[start : start + _BULK]:
                        self._queue.pop(key, None)
            return len(due)
        finally:
            self._collecting.release()

    def _follow_pins(self) -> _Moment:
        """Learn what pins need that are new, and queue what only those needed that are gone.

        Returns:
            Since when pins may have been added that this does not know. Those need nothing that
            was garbage then.

        Raises:
            CheckpointError: The state of a pin can't be read. Nothing is deleted meanwhile.
        """
        with self._lock:
            moment = _Moment(self._manifest.number, self._manifest.base)
            pins = pins_in(self._manifest.sections.get(PINS))
        for name, pin in pins.items():
            if pin.commit not in self._pinned:
                needed = read_pinned(self._store, name, pin).objects
                self._pinned[pin.commit] = needed | {commit_key(pin.commit)}
        for gone in self._pinned.keys() - {pin.commit for pin in pins.values()}:
            keys = self._pinned.pop(gone)
            with self._lock:
                self._queue |= dict.fromkeys(keys - self._queue.keys(), moment.newest)
        return moment

    def _due(self, newest: int) -> list[str]:
        with self._lock, self._fences() as fences:
            lag = self._limits.lag
            past = list(takewhile(lambda key: self._queue[key] + lag <= newest, self._queue))
            if not past:
                return []
            chain = range(self._manifest.base, self._manifest.number + 1)
            needed = self._manifest.objects.union(map(commit_key, chain), *self._pinned.values())
            for key in needed.intersection(past):  # whoever needs it queues it again
                del self._queue[key]
            return [key for key in past if key not in fences and key not in needed]

    def _orphans(self, newest: int, base: int) -> list[str]:
        """Objects that nothing refers to: of voided attempts and crashed drivers."""
        # Listed after that: a file for a commit up to `newest` is referred to by now, or never.
        commits = [(key, number_in(key)) for key in self._store.list(COMMITS)]
        files = [(key, number_in(key)) for key in self._store.list(STATE)]
        told = self._store.list(CALLS)  # of workers that are gone: a batch has just ended
        with self._lock, self._fences() as fences:
            needed = self._manifest.objects.union(self._queue, *self._pinned.values())
            found = [key for key, n in commits if n is not None and n < base]
            found += [key for key, n in files if n is not None and n <= newest]
            self._swept_at = newest
            found = [key for key in found if key not in needed] + told
            self._queue |= dict.fromkeys(fences.intersection(found), newest)  # later, then
            return [key for key in found if key not in fences]

    @contextmanager
    def _fences(self) -> Iterator[frozenset[str]]:
        """The claims that must stay."""
        old = self._clock() >= self._claimed_at + FENCE_SECONDS
        yield frozenset(() if old else map(commit_key, self._manifest.claims))


class _Moment(NamedTuple):
    """The newest commit of some time, and the newest one with a manifest."""

    newest: int
    base: int
