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

import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fulmen.api.marks import WHATEVER, CommitPhase, Point
from fulmen.api.transactions import TransactionAttempt
from fulmen.engine.protocol.transaction_work import FailedAttempt, Opened, Parts, TransactionWork
from fulmen.errors import PASSED_ON, repr_of

TRANSACTIONS = "transactions"
"""The section of a commit with the ledger: each commit of a transactional topology has it."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds before a transaction that failed comes again: twice as long each time."""
FAILURES_BEFORE_ALONE = 2
"""After so many batches in a row that came to nothing there is one active transaction only, so that
it is known which one is to blame."""
FAILURES_ALONE = 5
"""A transaction that was so often alone in a batch that came to nothing ends the topology."""
FAILURES_DROPPED = 3
"""So does one that is given up, and has failed so often with nothing in it."""
GIVEN_UP_KEPT = 100
METADATA_SHOWN = 200


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
        """The same attempt in its next phase."""
        return replace(self, phase=phase, since=now, spent=self.seconds(now))

    def seconds(self, now: float) -> Mapping[Phase, float]:
        """How long it has been in each of its phases, this one included."""
        return {**self.spent, self.phase: max(0.0, now - self.since)}


@dataclass(frozen=True)
class GivenUp:
    """A transaction that was given up: none of its tuples was processed.

    Attributes:
        txid: Its number.
        metadata: Of it.
        reason: Why its last attempt failed.
        failures: How many of its attempts had failed.
    """

    txid: int
    metadata: Parts
    reason: str
    failures: int


@dataclass(frozen=True)
class Ledger:
    """What is durable of the transactions.

    Attributes:
        committed: The last txid that is committed; 0: none.
        metadata: By txid: of all that are opened and not committed. Of the last one that is, each
            source's last, though another transaction may have had it.
        failures: How many attempts have failed, by txid.
        reasons: Why the last one did.
        given_up: The last transactions that were given up.
        branches: Which driver has opened those that are not committed, by txid: stores tell them by
            that from others of the same numbers.
        written: The last that was committed, if only with nothing; None: none was.
        skipped: The branches of those that another source has left behind since. Stores may have
            parts of them.
    """

    committed: int = 0
    metadata: Mapping[int, Parts] = field(default_factory=dict)
    failures: Mapping[int, int] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    given_up: tuple[GivenUp, ...] = ()
    branches: Mapping[int, str] = field(default_factory=dict)
    written: Point | None = None
    skipped: tuple[str, ...] = ()

    @property
    def head(self) -> int:
        """The first txid that is not committed."""
        return self.committed + 1

    @property
    def last(self) -> int:
        """The last txid that was given out."""
        return max(self.committed, max(self.metadata, default=0))

    def with_failure(self, txid: int, reason: str) -> Ledger:
        """After an attempt has failed."""
        failures = {**self.failures, txid: self.failures.get(txid, 0) + 1}
        return replace(self, failures=failures, reasons={**self.reasons, txid: reason})

    def with_committed(self, txid: int, *, is_dropped: bool = False) -> Ledger:
        """After the head was committed, or given up."""
        given_up = self.given_up
        if is_dropped:
            one = GivenUp(
                txid, self.metadata[txid], self.reasons.get(txid, ""), self.failures.get(txid, 0)
            )
            given_up = (*given_up, one)[-GIVEN_UP_KEPT:]
        return Ledger(
            txid,
            {
                txid: self.parts_before(txid + 1),
                **{t: m for t, m in self.metadata.items() if t > txid},
            },
            {t: n for t, n in self.failures.items() if t > txid},
            {t: r for t, r in self.reasons.items() if t > txid},
            given_up,
            {t: b for t, b in self.branches.items() if t > txid},
            Point(txid, self.branches.get(txid, "")),
        )

    def parts_before(self, txid: int) -> Parts:
        """The last metadata of each source, of the transactions before one."""
        found: dict[str, bytes] = {}
        for of in sorted(of for of in self.metadata if of < txid):
            found |= self.metadata[of]
        return found

    def without(self, sources: Collection[str]) -> Ledger:
        """After these sources are gone: what they had in transactions is dropped."""
        kept = {
            txid: {source: part for source, part in parts.items() if source not in sources}
            for txid, parts in self.metadata.items()
        }
        return replace(self, metadata=kept)

    def begun_anew(self, committed: int) -> Ledger:
        """For another source, whose transactions begin behind `committed`."""
        written = self.written or (Point(committed, WHATEVER) if committed else None)
        skipped = tuple(sorted({*self.skipped, *self.branches.values()}))
        return Ledger(committed, written=written, skipped=skipped)

    def accepting(self, above: int) -> Ledger:
        """After which stores may have whatever they have, up to transaction `above`.

        If that is more than is committed, what is opened is opened anew, with numbers above it.
        """
        if above <= self.committed:
            return replace(self, written=Point(self.committed, WHATEVER), skipped=())
        last = self.metadata.get(self.committed)
        metadata = {} if last is None else {above: last}
        written = Point(above, WHATEVER)
        return Ledger(above, metadata, given_up=self.given_up, written=written)

    def encode(self) -> bytes:
        """For a commit."""
        return pickle.dumps(self, 5)


def ledger_of(transient: Mapping[str, bytes]) -> Ledger:
    """The ledger in a commit's sections; a new one if there is none."""
    data = transient.get(TRANSACTIONS)
    ledger: Ledger = pickle.loads(data) if data else Ledger()
    return ledger


@dataclass(frozen=True)
class Outcome:
    """What a batch that counts means for transactions.

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
        """A transaction has its metadata, for good."""
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
        """What the next batch does. It changes which attempts are active.

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
        """What stores are to have while an attempt is committed."""
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
        """What it means that the batch counts. Nothing is changed until `committed`.

        Args:
            failed: What components failed.
            now: In seconds of the driver's steady clock.
        """
        ledger, active = self.ledger, dict(self.active)
        current = {one.attempt for one in active.values()}
        own = sorted(one for one in failed if one.attempt in current)
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
                ledger = ledger.with_committed(txid, is_dropped=one.is_dropped)
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
        """The batch is in the checkpoint, or had nothing to write there."""
        self.ledger, self.active = outcome.ledger, dict(outcome.active)
        if outcome.failed:
            txid = outcome.failed[0].attempt.txid
            self._failures += 1
            failures = self.ledger.failures.get(txid, 0)
            if self._is_given_up(txid) and failures > (self.max_replays or 0) + FAILURES_DROPPED:
                self.ended = self._why_not_taken_back(txid)
            self._hold(now, max(self._failures, self.ledger.failures.get(txid, 1)))
        if outcome.committed or outcome.given_up:
            self._nothings = self._alone = self._failures = 0

    def _hold(self, now: float, failures: int) -> None:
        self._hold_until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 16))

    # Failures

    def reset(self) -> int:
        """All active attempts have failed, and come again as new ones. Returns how many."""
        count = len(self.active)
        self.active = {}
        return count

    def came_to_nothing(self, reason: str, *, is_outage: bool) -> bool:
        """A batch came to nothing. Returns whether there was any transaction in it.

        Args:
            reason: Why, in one line.
            is_outage: No tuple can be to blame.
        """
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


def shown_metadata(metadata: Parts) -> str:
    """The metadata of a transaction in a message, with the sources' names if there are several."""
    if len(metadata) == 1:
        return _shown(*metadata.values())
    shown = [f"{source!r}: {_shown(part)}" for source, part in metadata.items()]
    return ", ".join(shown) or "no metadata"


def _shown(part: bytes) -> str:
    try:
        text = f"metadata {repr_of(pickle.loads(part))}"
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's class may be gone, or raise anything)
        return f"metadata of {len(part)} bytes"
    return text if len(text) <= METADATA_SHOWN else text[: METADATA_SHOWN - 1] + "…"


def attempts_in(active: Collection[Active], phase: Phase) -> int:
    """How many are in a phase."""
    return sum(one.phase is phase for one in active)
