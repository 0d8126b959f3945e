"""Commits batches to the checkpoint and keeps it small, however well its store answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from fulmen.checkpoint import CommitLog
from fulmen.engine.coordinator import Done
from fulmen.engine.protocol import DELIVERIES, pack_deliveries
from fulmen.errors import FulmenError, Unreachable

COMMIT_TRIES = 30
CHECK_SECONDS = 10.0
"""Without a commit: between two looks whether another driver has taken over."""


@dataclass
class Committer:
    """Writes what batches come to.

    Attributes:
        log: The checkpoint's commits.
        note: Is told what a person should know.
        steady: A clock that only goes forward, in seconds.
        sleep: Waits so many seconds.
    """

    log: CommitLog
    note: Callable[[str], None]
    steady: Callable[[], float]
    sleep: Callable[[float], None]
    _checked: float = field(init=False, default=0.0)
    _collector: threading.Thread | None = field(init=False, default=None)

    def commit(self, done: Done) -> float:
        """Commit a batch. If it has nothing to commit, look now and then who holds the checkpoint.

        Returns:
            For how many seconds the store was waited for: most of them, if it is away for a while.

        Raises:
            Fenced: Another driver has taken over.
            Unreachable: The store does not answer for minutes.
        """
        began = self.steady()
        if done.commits:
            self._commit(done)
        elif began - self._checked >= CHECK_SECONDS:
            try:
                self.log.check()  # else a driver that is idle would not notice its successor
            except Unreachable as e:  # nothing depends on it
                self.note(str(e))
        else:
            return 0.0
        self._checked = self.steady()
        return self._checked - began

    def _commit(self, done: Done) -> None:
        updates = {
            key: slots for summary in done.summaries for key, slots in summary.updates.items()
        }
        transient = {DELIVERIES: pack_deliveries(done.deliveries)} if done.deliveries else {}
        draft = self.log.draft(
            tag=done.header.tag, clock=done.header.clock, updates=updates, transient=transient
        )
        for attempt in range(COMMIT_TRIES):
            try:
                self.log.commit(draft)
                return
            except Unreachable as e:  # it may have been made: the same one is made again
                if attempt == COMMIT_TRIES - 1:
                    raise
                self.note(f"{e}; trying again")
                self.sleep(min(5.0, 0.1 * 2**attempt))

    def collect(self) -> None:
        """Delete what nothing refers to, off the path of the next batch."""
        if self._collector is None or not self._collector.is_alive():
            self._collector = threading.Thread(
                target=self._collect_quietly, name="fulmen-collect", daemon=True
            )
            self._collector.start()

    def _collect_quietly(self) -> None:
        try:
            self.log.collect()
        except FulmenError as e:  # nothing is lost by it; the next one tries again
            self.note(f"clearing the checkpoint: {e}")

    def close(self) -> None:
        """Let a collection that has begun come to its end, but don't wait for long."""
        if self._collector is not None:
            self._collector.join(timeout=10)
