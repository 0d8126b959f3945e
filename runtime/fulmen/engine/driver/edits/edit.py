"""One commit that a person makes instead of a driver. A driver that runs is ended by it."""

from __future__ import annotations

from fulmen.checkpoint import CommitLog, Store, Updates, new_tag, read_newest, save
from fulmen.engine.batches.ledger import TRANSACTIONS, Ledger
from fulmen.engine.driver.checkpoints.layout import CheckpointChange


class Edit:
    """One change of a checkpoint. Nothing is changed before `commit`.

    Attributes:
        manifest: The last commit, which this one follows.
        number: Of this one.
        updates: What it is to hold of tasks.
    """

    def __init__(self, store: Store, who: str) -> None:
        """Claim the checkpoint.

        Raises:
            CheckpointError: It can't be read, or a driver goes on committing.
        """
        self._log = CommitLog(store, read_newest(store).topology, who)
        self._log.claim()
        self._store, self._tag = store, new_tag()
        self.manifest = self._log.manifest
        self.number = self.manifest.number + 1
        self.updates: Updates = {}

    def put(self, key: str, journal: str, data: bytes) -> None:
        """Have this be all that a journal of a task holds."""
        saved = save(self._store, self.number, self._tag, key, journal, data, self.number)
        self.updates.setdefault(key, {})[journal] = saved

    def commit(self, ledger: Ledger | None = None, change: CheckpointChange | None = None) -> None:
        """Make the commit.

        Args:
            ledger: Of transactions from then on. None: as it is.
            change: Of the checkpoint's shape.
        """
        # what was to be delivered to spouts is valid for one commit: it still is to be delivered
        transient = dict(self.manifest.transient)
        if ledger is not None:
            transient[TRANSACTIONS] = ledger.encode()
        draft = self._log.draft(
            tag=self._tag,
            clock=self.manifest.clock,
            updates=self.updates,
            transient=transient,
            sections=change.sections if change else {},
            removed_tasks=change.removed_tasks if change else (),
        )
        self._log.commit(draft)
