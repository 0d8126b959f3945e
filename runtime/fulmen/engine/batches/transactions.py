"""Which transactions there are, and what the next batch does for them: Storm's coordinator. Pure.

The algorithm is that of Storm's TransactionalSpoutCoordinator: up to `maxSpoutPending` transactions
are active, each is processed and then committed, commits come strictly in the order of the txids,
and one that fails fails all later ones, which then come again as new attempts. The differences:

- A batch processes all that were opened, and commits the oldest that was processed before it. Never
  two: if it came to nothing, the first would come again when stores had the second already.
- Metadata are in the same commit as what was processed, so they need no store of their own.
- A transaction that is given up is processed and committed with nothing: so stores take back what
  its failed attempts have written.
- A batch that came to nothing fails all that are active: what waits in workers may be lost, and an
  instance that took part in it is no longer what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fulmen.api.marks import CommitPhase, Point
from fulmen.api.transactions import TransactionAttempt
from fulmen.engine.batches.ledger import GivenUp, Ledger, shown_metadata
from fulmen.engine.protocol.transaction_work import FailedAttempt, Opened, Parts, TransactionWork

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds before a transaction that failed comes again: twice as long each time."""
FAILURES_BEFORE_ALONE = 2
"""After so many batches in a row that came to nothing there is one active transaction only, so that
it is known which one is to blame."""
FAILURES_ALONE = 5
"""A transaction that was so often alone in a batch that came to nothing ends the topology."""
FAILURES_DROPPED = 3
"""So does one that is given up, and has failed so often with nothing in it."""


class Phase(StrEnum):
    """Where an active attempt is; the names are Storm's."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    COMMITTING = "committing"


@dataclass(frozen=True)
class Active:
    """An attempt on its way.

    Attributes:
        attempt: Which.
        phase: Where it is.
        since: When that phase began, in seconds of the driver's steady clock.
        is_dropped: It is given up: nothing of it is sent.
        spent: Seconds in the phases before.
    """

    attempt: TransactionAttempt
    phase: Phase
    since: float
    is_dropped: bool = False
    spent: Mapping[Phase, float] = field(default_factory=dict)

    def entering(self, phase: Phase, now: float) -> Active:
        """Copy the attempt into its next phase."""
        return replace(self, phase=phase, since=now, spent=self.seconds(now))

    def seconds(self, now: float) -> Mapping[Phase, float]:
        """How long it has been in each of its phases, this one included."""
        return {**self.spent, self.phase: max(0.0, now - self.since)}


@dataclass(frozen=True)
class Outcome:
    """The changes to transactions by a batch that counts.

    Attributes:
        ledger: What is durable once it is committed.
        active: The attempts on their way then.
        committed: Attempts that it committed.
        failed: Attempts that a component failed: the first of them failed all later ones.
        cascaded: How many attempts were failed by another one.
        given_up: The transaction that it gave up, if one.
    """

    ledger: Ledger
    active: Mapping[int, Active]
    committed: tuple[Active, ...] = ()
    failed: tuple[FailedAttempt, ...] = ()
    cascaded: int = 0
    given_up: GivenUp | None = None


@dataclass
class Transactions:
    """The coordinator's view of all transactions.

    Attributes:
        epoch: Of this driver: attempts of later drivers are greater.
        ledger: What is durable, and the metadata of what is opened now.
        has_commit_phase: Whether the topology has committers.
        branch: Of this driver: what tells the transactions that it opens from others.
        most: How many transactions may be active.
        max_replays: How many attempts may fail before a transaction is given up; None: any number.
        active: The attempts on their way, by txid.
        attempts: How many attempts there were with this driver.
        ended: Why the topology can't go on.
        exhausted_sources: Those whose coordinators have said that nothing will come.
        source_is_away: Whether one of them could not say whether there is something.
    """

    epoch: int
    ledger: Ledger
    has_commit_phase: bool
    branch: str = ""
    most: int = 1
    max_replays: int | None = None
    active: dict[int, Active] = field(default_factory=dict)
    attempts: int = 0
    ended: str = ""
    exhausted_sources: Collection[str] = ()
    source_is_away: bool = False
    _run: str = ""
    _hold_until: float = 0.0
    _nothings: int = 0  # batches in a row that came to nothing
    _alone: int = 0  # of those, the ones in which the head was the only transaction
    _failures: int = 0  # batches with failed attempts since one was committed or given up

    # Opening

    def to_initialize(self) -> tuple[int, Parts] | None:
        """The next transaction that may be opened, and the last metadata of each source."""
        for txid in range(self.ledger.head, self.ledger.head + self._limit):
            if txid not in self.ledger.metadata:
                return txid, self.ledger.parts_before(txid)
        return None

    def initialize(self, txid: int, metadata: Parts) -> None:
        """Set a transaction's metadata, for good."""
        ledger = self.ledger
        self.ledger = replace(
            ledger,
            metadata={**ledger.metadata, txid: metadata},
            branches={**ledger.branches, txid: self.branch},
        )

    @property
    def _limit(self) -> int:
        return 1 if self._nothings >= FAILURES_BEFORE_ALONE else self.most

    @property
    def is_settled(self) -> bool:
        """Whether all that were opened are committed."""
        return self.ledger.last == self.ledger.committed

    # A batch

    def begin(self, now: float, run: str = "") -> TransactionWork:
        """The transactions' part of the next batch. It changes which attempts are active.

        Args:
            now: In seconds of the driver's steady clock.
            run: Of the placement. With another one, what waited in workers is gone.
        """
        if run != self._run:
            self._run = run
            self.reset()
        head = self.ledger.head
        oldest = self.active.get(head)
        commits = None
        if oldest is not None and oldest.phase is Phase.PROCESSED:
            self.active[head] = oldest.entering(Phase.COMMITTING, now)
            commits = oldest.attempt
        waiting = [one.attempt for one in self.active.values()]
        processes = [] if now < self._hold_until else self._open(now)
        ledger, before = self.ledger, self._before(commits)
        return TransactionWork(
            processes, commits, waiting, ledger.committed, before, ledger.written
        )

    def _before(self, commits: TransactionAttempt | None) -> CommitPhase | None:
        """The commit phase for stores while an attempt is committed."""
        if commits is None:
            return None
        ledger, txid = self.ledger, commits.txid
        point = Point(txid, ledger.branches.get(txid, ""))
        return CommitPhase(point, ledger.written, ledger.skipped)

    def _open(self, now: float) -> list[Opened]:
        opened: list[Opened] = []
        for txid in range(self.ledger.head, self.ledger.head + self._limit):
            metadata = self.ledger.metadata.get(txid)
            is_dropped = self._is_given_up(txid)
            if metadata is None or (is_dropped and txid != self.ledger.head):
                break
            if txid not in self.active:
                self.attempts += 1
                attempt = TransactionAttempt(txid, self.epoch << 32 | self.attempts)
                self.active[txid] = Active(attempt, Phase.PROCESSING, now, is_dropped)
                opened.append(Opened(attempt, metadata, is_dropped))
            if is_dropped:
                break
        return opened

    def _is_given_up(self, txid: int) -> bool:
        failures = self.ledger.failures.get(txid, 0)
        return self.max_replays is not None and failures > self.max_replays

    def finish(self, failed: Sequence[FailedAttempt], now: float) -> Outcome:
        """The outcome of a batch that counts. Nothing changes until `committed`."""
        ledger, active = self.ledger, dict(self.active)
        current = {one.attempt for one in active.values()}
        own = sorted(one for one in failed if one.attempt in current)
        # a failed attempt fails all later ones: commits come in the order of the txids
        gone = [t for t in active if own and t >= own[0].attempt.txid]
        blamed = [one for one in own if one.attempt == own[0].attempt and one.is_blamed]
        if blamed:
            ledger = ledger.with_failure(blamed[0].attempt.txid, blamed[0].reason)
        for txid in gone:
            del active[txid]
        committed: list[Active] = []
        given_up = None
        for txid in sorted(active):
            one = active[txid]
            is_done = one.phase is Phase.COMMITTING or not self.has_commit_phase
            if txid == ledger.head and is_done:
                after = ledger.with_given_up if one.is_dropped else ledger.with_committed
                ledger = after(txid)
                del active[txid]
                if one.is_dropped:
                    given_up = ledger.given_up[-1]
                else:
                    committed.append(one)
            elif one.phase is Phase.PROCESSING:
                active[txid] = one.entering(Phase.PROCESSED, now)
        return Outcome(
            ledger, active, tuple(committed), tuple(own), max(0, len(gone) - 1), given_up
        )

    def committed(self, outcome: Outcome, now: float) -> None:
        """Note that the batch is in the checkpoint, or had nothing to write there."""
        self.ledger, self.active = outcome.ledger, dict(outcome.active)
        if outcome.failed:
            txid = outcome.failed[0].attempt.txid
            self._failures += 1
            failures = self.ledger.failures.get(txid, 0)
            if self._is_given_up(txid) and failures > (self.max_replays or 0) + FAILURES_DROPPED:
                self.ended = self._why_not_taken_back(txid)
            in_a_row = min(max(self._failures, failures, 1) - 1, 16)
            self._hold_until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**in_a_row)
        if outcome.committed or outcome.given_up:
            self._nothings = self._alone = self._failures = 0

    # Failures

    def reset(self) -> int:
        """Drop all active attempts, which come again as new ones. Returns how many they were."""
        count = len(self.active)
        self.active = {}
        return count

    def came_to_nothing(self, reason: str, *, is_outage: bool) -> bool:
        """Note a failed batch. Returns whether there was any transaction in it."""
        had = self.reset() > 0
        if is_outage or not had:
            return had
        head = self.ledger.head
        was_dropped = self._is_given_up(head)
        self._nothings += 1
        if self._nothings > FAILURES_BEFORE_ALONE:  # the head was the only one
            self._alone += 1
            self.ledger = self.ledger.with_failure(head, reason)
            if self._is_given_up(head) and not was_dropped:
                self._alone = 0
            most = FAILURES_DROPPED if was_dropped else FAILURES_ALONE
            if self._alone >= most and (was_dropped or self.max_replays is None):
                self.ended = self._why_ended(head, reason, was_dropped)
        return True

    def _why_not_taken_back(self, txid: int) -> str:
        return (
            f"transaction {txid} ({shown_metadata(self.ledger.metadata[txid])}) is given up, but"
            " committers failed when they were to write nothing for it, which takes back what its"
            f" attempts have written: {self.ledger.reasons.get(txid, '')}. Mend them; it is tried"
            " again when the topology starts again"
        )

    def _why_ended(self, txid: int, reason: str, was_dropped: bool) -> str:
        metadata = shown_metadata(self.ledger.metadata[txid])
        what = "even left out" if was_dropped else "alone"
        cure = (
            "Mend what ends the workers, or the spout that can't go past it"
            if was_dropped
            else "Mend what ends the workers, or set spec.maxReplays to give such a transaction up"
        )
        return (
            f"transaction {txid} ({metadata}), {what} in its batch, came to nothing {self._alone}"
            f" times in a row: {reason}. {cure}; it is tried again when the topology starts again"
        )


def attempts_in(active: Collection[Active], phase: Phase) -> int:
    """How many are in a phase."""
    return sum(one.phase is phase for one in active)
