"""The work for transactions in a batch, and its outcome."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fulmen.api.marks import CommitPhase, Point
from fulmen.api.transactions import TransactionAttempt

Parts = Mapping[str, bytes]
"""Metadata of a transaction: what the coordinator of each source has said of it, pickled. A source
that is not named has no part in it."""


class Opened(NamedTuple):
    """An attempt that is to be processed.

    Attributes:
        attempt: Which.
        metadata: Of its transaction.
        is_dropped: The transaction is given up: emitters go on to what is behind it, and send
            nothing.
    """

    attempt: TransactionAttempt
    metadata: Parts
    is_dropped: bool = False


class FailedAttempt(NamedTuple):
    """An attempt that a component failed.

    Attributes:
        attempt: Which.
        component: Which component failed it.
        task: Which of its tasks.
        reason: Why, in one line.
        is_loss: What it had in a worker was lost: the transaction is not to blame.
        is_outage: What the component connects to is away: the transaction is not to blame.
    """

    attempt: TransactionAttempt
    component: str
    task: int
    reason: str
    is_loss: bool = False
    is_outage: bool = False

    @property
    def is_blamed(self) -> bool:
        """Whether it counts as a failure of the transaction."""
        return not (self.is_loss or self.is_outage)


@dataclass(frozen=True)
class TransactionWork:
    """The work for transactions in a batch.

    Attributes:
        processes: Attempts to be processed, in the order of their txids.
        commits: The attempt to be committed: all before it are.
        waiting: Attempts that were processed before and wait to be committed, `commits` among them.
        committed: The last txid that is committed; 0: none is.
        phase: What stores are to have while `commits` is committed; None: nothing is.
        written: The last transaction that is committed and was not given up; None: there is none.
    """

    processes: Sequence[Opened] = ()
    commits: TransactionAttempt | None = None
    waiting: Collection[TransactionAttempt] = ()
    committed: int = 0
    phase: CommitPhase | None = None
    written: Point | None = None

    def __bool__(self) -> bool:
        return bool(self.processes) or self.commits is not None

    def finishing(self, *, in_commit_phase: bool) -> Sequence[TransactionAttempt]:
        """The attempts that a component is to finish.

        Args:
            in_commit_phase: Whether it does so when transactions are committed.
        """
        if in_commit_phase:
            return () if self.commits is None else (self.commits,)
        return [opened.attempt for opened in self.processes if not opened.is_dropped]
