"""Answers questions about keyed state, many a second, as of the newest commit of a checkpoint.

Used beside a topology that runs, in a process of its own: its batches share nothing with it but the
store. What was read of segments is remembered, which are the same in later commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from fulmen.checkpoint import Manifest, Store, newest_number, read_newest
from fulmen.engine.state.committed_entries import Entry, entries_in
from fulmen.engine.state.journals import STATE
from fulmen.engine.state.key_finder import KeyFinder, tasks_of
from fulmen.errors import NotFound, text_of

FRESH_SECONDS = 0.2
"""So long a commit is taken for the newest one without looking."""
REMEMBERED_BYTES = 8 << 20
"""Of segments. What is made of them takes some times as much memory."""
_TRIES = 5


@dataclass(frozen=True)
class AnsweredKeys:
    """An answer.

    Attributes:
        number: The commit that it is of.
        entries: Keys with their values.
        missing: Keys that are not there, as they were written in the question.
    """

    number: int
    entries: Sequence[Entry]
    missing: Sequence[str]


class StateQuestions:
    """One checkpoint. Several threads may ask."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._lock = threading.Lock()
        self._manifest = Manifest()
        self._looked = -FRESH_SECONDS
        self._finder = KeyFinder(store, REMEMBERED_BYTES)

    def ask(self, component: str, keys: Sequence[str]) -> AnsweredKeys | None:
        """The values of keys; None: there is no such component.

        Args:
            component: Whose state it is.
            keys: The keys as text, as `fulmen state get` shows them.

        Raises:
            CheckpointError: The checkpoint can't be read.
        """
        return self._answered(lambda manifest: self._keys(manifest, component, keys))

    def begin_with(
        self, component: str, prefix: str, after: str, limit: int
    ) -> AnsweredKeys | None:
        """The first keys that begin like this, in the order of their texts; None as in `ask`.

        Goes through all of the component's state, of which it keeps no more than it answers.

        Args:
            component: Whose state it is.
            prefix: What the key as text begins with.
            after: Only keys behind this text: the last one of the page before.
            limit: So many at most.

        Raises:
            CheckpointError: The checkpoint can't be read.
        """

        def page(manifest: Manifest) -> AnsweredKeys | None:
            if not tasks_of(manifest, component):
                return None
            entries = (
                (text, entry.task, entry)
                for entry in entries_in(self._store, manifest, component, STATE)
                if (text := text_of(entry.key)).startswith(prefix) and text > after
            )
            found = nsmallest(limit, entries, key=lambda one: one[:2])
            return AnsweredKeys(manifest.number, [entry for *_, entry in found], ())

        return self._answered(page)

    def _keys(self, manifest: Manifest, component: str, keys: Sequence[str]) -> AnsweredKeys | None:
        if not tasks_of(manifest, component):
            return None
        found = {key: self._key(manifest, component, key) for key in dict.fromkeys(keys)}
        entries = [entry for of_key in found.values() for entry in of_key]
        missing = [key for key, of_key in found.items() if not of_key]
        return AnsweredKeys(manifest.number, entries, missing)

    def _key(self, manifest: Manifest, component: str, key: str) -> Sequence[Entry]:
        tasks = self._finder.find(manifest, component, key)
        return [Entry(task, k, v) for task, items in tasks.items() for k, v in items.items()]

    def _answered(self, answer: Callable[[Manifest], AnsweredKeys | None]) -> AnsweredKeys | None:
        for _ in range(_TRIES - 1):
            try:
                return answer(self._newest())
            except NotFound:  # the topology has gone on, and deleted what we look for
                self._looked = -FRESH_SECONDS
        return answer(self._newest())

    def _newest(self) -> Manifest:
        with self._lock:
            now = self._now()
            if now - self._looked >= FRESH_SECONDS:
                if newest_number(self._store) != self._manifest.number or not self._manifest.number:
                    self._manifest = read_newest(self._store)
                self._looked = now
            return self._manifest
