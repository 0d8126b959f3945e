"""A task's changes for a transaction: kept if that is committed, else undone.

One transaction after another changes state, so only a topology that has one active transaction may
keep any. What changes in the batches of a transaction is held here until the one that may commit
it. The driver takes it into that commit if it does, and drops it otherwise; then the task is made
anew, as the checkpoint has it. So nothing has to know how to take a change back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from fulmen.api.transactions import TransactionAttempt
from fulmen.checkpoint.rewriting import Update
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.transaction_work import TransactionWork
from fulmen.engine.state.journals import ENGINE
from fulmen.errors import StateError


class Uncommitted:
    """Changes by one task since the last transaction was committed.

    Attributes:
        attempt: The attempt that the task takes part in; None: it has seen none.
    """

    def __init__(self, placed: PlacedTopology) -> None:
        self.attempt: TransactionAttempt | None = None
        self._most = placed.topology.spec.max_spout_pending or 1
        self._has_commit_phase = bool(placed.commit_phase)
        self._held: dict[str, Update] = {}
        self._has_changes = self._may_settle = False

    def begin(self, work: TransactionWork) -> bool:
        """Begin a batch. Returns whether it commits an attempt that the task does not know."""
        if self.attempt is not None and work.committed >= self.attempt.txid:
            self._has_changes = False
        processed = [opened.attempt for opened in work.processes]
        self._may_settle = bool(processed and not self._has_commit_phase) or bool(work.commits)
        self.attempt = processed[-1] if processed else self.attempt
        return self.is_possible and work.commits not in (None, self.attempt)

    def is_undone(self, work: TransactionWork) -> bool:
        """Whether the task has changes of an attempt that has failed."""
        attempt = self.attempt
        if attempt is None or not self._has_changes:
            return False
        return attempt not in work.waiting and work.committed < attempt.txid

    def hold(self, updates: Mapping[str, Update]) -> None:
        """Take what a batch has changed.

        Raises:
            StateError: Other transactions are active beside the one that has changed it.
        """
        changed = updates.keys() - {ENGINE}
        if changed and not self.is_possible:
            self.refuse("self.state")
        self._held.update(updates)
        self._has_changes |= bool(changed)

    def lose(self) -> None:
        """Note that the attempt has failed, and may have changed anything, if it was alone."""
        self._has_changes |= self.is_possible

    @property
    def is_possible(self) -> bool:
        """Whether a task may change anything: no other transaction is active at the same time."""
        return self._most == 1

    def refuse(self, what: str, cure: str = "") -> NoReturn:
        """Raise StateError: this was changed, and would be there if its transaction fails."""
        raise StateError(
            f"{what} was changed, but up to {self._most} transactions are active side by side"
            " (maxSpoutPending): each would see what others have changed, and these may still fail."
            f" Write maxSpoutPending: 1{cure}"
        )

    def take(self) -> dict[str, Update]:
        """Take the changes to keep if the batch at hand commits its transaction."""
        if not self._may_settle:
            return {}
        held, self._held = self._held, {}
        return held
