"""Commits batches to the checkpoint and keeps it small, however well its store answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fulmen.checkpoint import Commit, CommitLog, Manifest
from fulmen.checkpoint.savepoints.pins import PINS
from fulmen.engine.batches.done import Done, LastBatch
from fulmen.engine.batches.ledger import TRANSACTIONS
from fulmen.engine.driver.checkpoints.layout import CheckpointChange
from fulmen.engine.driver.checkpoints.savepoints import SavepointKeeper
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.protocol.deliveries import DELIVERIES, pack_deliveries, undelivered
from fulmen.engine.protocol.limits import LIMITS
from fulmen.engine.time.watermarks import SECTION as TIME
from fulmen.engine.time.watermarks import Watermarks
from fulmen.engine.totals.failures import REPEAT_SECONDS
from fulmen.engine.totals.waits import Wait, WaitKind, utc
from fulmen.errors import FulmenError, Unreachable

LOOKED = "looked"
"""The section that says that sinks have all early results: see `LastBatch.has_looked`."""
OUTAGE_SECONDS = 1800.0
"""How long a commit waits for its store. Then the driver ends, and another one tries."""


def last_batch(manifest: Manifest) -> LastBatch:
    """Read what `CommitWriter.commit` wrote for the batch after it."""
    return LastBatch(
        manifest.number,
        manifest.tag,
        undelivered(manifest.transient),
        watermarks=Watermarks.decode(manifest.sections.get(TIME)),
        has_looked=bool(manifest.sections.get(LOOKED)),
    )


@dataclass
class CommitWriter:
    """Writes what batches come to.

    Attributes:
        log: The checkpoint's commits.
        note: Is told what a person should know.
        clocks: How time passes.
        savepoints: What it makes of them.
        check_seconds: Without a commit, between two looks whether another driver has taken over.
        patience: For how many seconds at most a store that is away is waited for, as of now.
        outage: What is waited for; None: nothing. Other threads may read it.
        uncollected: Why nothing of the checkpoint is deleted, such as a savepoint that can't be
            read; "": what is not needed any more is.
    """

    log: CommitLog
    note: Callable[[str], None]
    clocks: Clocks
    savepoints: SavepointKeeper
    check_seconds: float = LIMITS.check_seconds
    patience: Callable[[], float] = lambda: OUTAGE_SECONDS
    outage: Wait | None = field(init=False, default=None)
    uncollected: str = field(init=False, default="")
    _since: float = field(init=False, default=0.0)
    _told: tuple[str, float] = field(init=False, default=("", 0.0))
    _checked: float = field(init=False, default=0.0)
    _collector: threading.Thread | None = field(init=False, default=None)

    def commit(
        self,
        done: Done,
        change: CheckpointChange | None = None,
        log: Mapping[str, bytes] = MappingProxyType({}),
    ) -> float:
        """Commit a batch. If it has nothing to commit, look now and then who holds the checkpoint.

        Args:
            done: The batch.
            change: Of the checkpoint's shape, to be made with it.
            log: The section with what people have asked for, if the batch has done some of it.

        Returns:
            For how many seconds the store was waited for: most of them, if it is away for a while.

        Raises:
            Fenced: Another driver has taken over.
            Unreachable: The store does not answer for half an hour.
        """
        began = self.clocks.steady()
        if done.commits:
            self._commit(done, change, log)
        elif began - self._checked >= self.check_seconds:
            try:
                self.log.check()  # else a driver that is idle would not notice its successor
            except Unreachable as e:  # nothing depends on it
                self._tell(str(e))
            else:
                self.is_back()
        else:
            return 0.0
        self._checked = self.clocks.steady()
        return self._checked - began

    def _commit(
        self, done: Done, change: CheckpointChange | None, log: Mapping[str, bytes]
    ) -> None:
        updates = {
            key: journals for summary in done.summaries for key, journals in summary.updates.items()
        }
        after = done.after
        transient = {DELIVERIES: pack_deliveries(after.deliveries)} if after.deliveries else {}
        if done.transactions is not None:
            transient[TRANSACTIONS] = done.transactions.ledger.encode()
        sections: dict[str, bytes | None] = dict(change.sections) if change else {}
        if after.watermarks.passed or after.watermarks.sources:
            sections[TIME] = after.watermarks.encode()
        if after.has_looked != bool(self.log.manifest.sections.get(LOOKED)):
            sections[LOOKED] = b"1" if after.has_looked else None
        pins = self.savepoints.section(self.log.manifest)
        draft = self.log.draft(
            tag=done.header.tag,
            clock=done.header.clock,
            updates=updates,
            transient=transient,
            sections={**sections, **pins, **log},
            removed_tasks=change.removed_tasks if change else (),
            full=PINS in pins,
        )
        self.make(draft)
        if pins:
            self.savepoints.committed(draft.number)

    def make(self, draft: Commit) -> None:
        """Make a commit, however long that takes. Raises what `commit` does."""
        began, pause = self.clocks.steady(), 0.1
        while True:
            try:
                self.log.commit(draft)
            except Unreachable as e:  # it may have been made: the same one is made again
                if self.clocks.steady() - began >= min(OUTAGE_SECONDS, self.patience()):
                    raise
                self._tell(str(e))
                self.clocks.sleep(pause)
                pause = min(2 * pause, 5.0)
            else:
                self.is_back()
                return

    def _tell(self, reason: str) -> None:
        """Note that the store is away: for each reason once a minute."""
        text, now = f"{reason} {self.is_away(reason)}", self.clocks.steady()
        if text != self._told[0] or now - self._told[1] >= REPEAT_SECONDS:
            self._told = text, now
            self.note(text)

    def is_away(self, reason: str) -> str:
        """Note that the store did not do what it was asked to. Returns for how long it is so."""
        self._since = self._since if self.outage else self.clocks.wall()
        since = utc(self._since)
        text = f"the checkpoint is away since {since}: {reason}"
        self.outage = Wait(WaitKind.CHECKPOINT, "", text, self._since)
        return f"Trying again; it is so since {since}."

    def is_back(self) -> None:
        """Note that the store did what it was asked to."""
        if self.outage is not None:
            self.outage = None
            self.note("the checkpoint answers again")

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
            self.uncollected = "" if isinstance(e, Unreachable) else str(e)
            self.note(f"clearing the checkpoint: {e}")
        else:
            self.uncollected = ""

    def close(self) -> None:
        """Let a collection that has begun come to its end, but don't wait for long."""
        if self._collector is not None:
            self._collector.join(timeout=10)
