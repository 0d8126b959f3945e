"""One commit that a person makes instead of a driver.

It is prepared on the newest commit, and the checkpoint is claimed only when all is ready: whoever
has looked, found a mistake and changed nothing has ended no driver. If somebody else commits
meanwhile, nothing is changed, and the person is told.
"""

from __future__ import annotations

from fulmen.checkpoint import CommitLog, Store, Updates, new_tag, read_newest, save
from fulmen.engine.batches.ledger import TRANSACTIONS, Ledger
from fulmen.engine.driver.checkpoints.layout import CheckpointChange
from fulmen.engine.driver.edits.changes import (
    Author,
    StateChange,
    with_changes,
)
from fulmen.errors import CheckpointError, Fenced


class Edit:
    """One change of a checkpoint. No commit is made before `commit`.

    Attributes:
        store: The checkpoint's.
        manifest: The newest commit, which the change is made to.
        number: Of the commit to be made. That of the claim comes between.
        updates: What it is to hold of tasks.
    """

    def __init__(self, store: Store, author: Author) -> None:
        """Look at the newest commit.

        Raises:
            CheckpointError: It can't be read.
        """
        self.store = store
        self._author = author
        self._log = CommitLog(store, read_newest(store).topology, author.who)
        self._tag = new_tag()
        self._base = self._log.manifest.number
        self.manifest = self._log.manifest
        self.number = self._base + 2
        self.updates: Updates = {}

    def put(self, key: str, journal: str, data: bytes) -> None:
        """Have this be all that a journal of a task holds."""
        self.add(key, journal, data, self.number)

    def add(self, key: str, journal: str, data: bytes | None, keep_from: int) -> None:
        """Append to a journal of a task, as a batch would. Arguments as for `checkpoint.save`."""
        saved = save(self.store, self.number, self._tag, key, journal, data, keep_from)
        self.updates.setdefault(key, {})[journal] = saved

    def drop(self, key: str, journal: str) -> None:
        """Have a journal of a task be gone."""
        self.add(key, journal, None, self.number)

    def commit(
        self,
        change: StateChange,
        ledger: Ledger | None = None,
        shape: CheckpointChange | None = None,
    ) -> None:
        """Make the commit. A driver that runs is ended by that.

        Args:
            change: What is changed, for people who look later.
            ledger: Of transactions from then on. None: as it is.
            shape: Of the checkpoint, if that changes.

        Raises:
            CheckpointError: Somebody else has committed since this one was begun.
        """
        self._claim()
        # what was to be delivered to spouts is valid for one commit: it still is to be delivered
        transient = dict(self.manifest.transient)
        if ledger is not None:
            transient[TRANSACTIONS] = ledger.encode()
        sections = with_changes(self.manifest, [change.by(self._author, self.number)])
        draft = self._log.draft(
            tag=self._tag,
            clock=self.manifest.clock,
            updates=self.updates,
            transient=transient,
            sections={**sections, **(shape.sections if shape else {})},
            removed_tasks=shape.removed_tasks if shape else (),
        )
        try:
            self._log.commit(draft)
        except Fenced as error:
            raise self._overtaken(error.holder) from error

    def claimed(self) -> CommitLog:
        """Claim the checkpoint for a commit that somebody else makes. Raises what `commit` does."""
        self._claim()
        return self._log

    def _claim(self) -> None:
        try:
            self._log.claim()
        except Fenced as error:
            raise self._overtaken(error.holder) from error
        if self._log.manifest.number != self._base + 1:
            raise self._overtaken("another driver, or another person")
        self.manifest = self._log.manifest

    def _overtaken(self, who: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self.store.uri}: {who} has committed since this change was begun (it was"
            f" made to commit {self._base}). Nothing was changed. Look at the state again, then"
            " give the command again."
        )
