"""Totals of transactions, attempt by attempt, since this driver started. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from fulmen.api.transactions import TransactionAttempt
from fulmen.engine.batches.ledger import Ledger
from fulmen.engine.batches.transactions import Active, Outcome, Phase, attempts_in
from fulmen.engine.totals.latencies import TimeHistogram

ATTEMPTS_KEPT = 20
"""The last ones that have ended."""
COMPLETE = "complete"
"""From the begin of an attempt until the batch that committed it counted: all its phases."""
PLANNED_ANEW = "executors were placed anew"
"""Why attempts are lost without a batch that came to nothing."""


class AttemptOutcome(StrEnum):
    """How an attempt ended.

    Attributes:
        COMMITTED: It was committed.
        FAILED: A component failed it.
        CASCADED: A transaction before it failed, and so it failed as well.
        LOST: A batch came to nothing while it was active.
        GIVEN_UP: Its transaction had failed too often: nothing of it was processed.
    """

    COMMITTED = "committed"
    FAILED = "failed"
    CASCADED = "cascaded"
    LOST = "lost"
    GIVEN_UP = "given_up"


@dataclass(frozen=True)
class EndedAttempt:
    """An attempt that is active no more.

    Attributes:
        attempt: Which.
        phase: In which phase it ended.
        outcome: How.
        seconds: How long it was in each of its phases.
        reason: Why it was not committed.
    """

    attempt: TransactionAttempt
    phase: Phase
    outcome: AttemptOutcome
    seconds: Mapping[Phase, float]
    reason: str = ""


@dataclass
class TransactionTotals:
    """Everything about transactions since this driver started.

    Attributes:
        ledger: What is durable of them.
        active: The attempts on their way, by txid.
        lags: How many messages of each source are in no transaction yet, where that is known.
        attempts: How many attempts ended in each way.
        phases: How long attempts that were committed were in each phase, and in all of them.
        recent: The last attempts that have ended.
        last_failure: About the last attempt that failed or was lost; "" if none was.
    """

    ledger: Ledger = field(default_factory=Ledger)
    active: Mapping[int, Active] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    attempts: Counter[AttemptOutcome] = field(default_factory=Counter)
    phases: dict[str, TimeHistogram] = field(
        default_factory=lambda: {phase: TimeHistogram() for phase in (*Phase, COMPLETE)}
    )
    recent: deque[EndedAttempt] = field(default_factory=lambda: deque(maxlen=ATTEMPTS_KEPT))
    last_failure: str = ""

    @property
    def lag(self) -> int | None:
        """How many messages of all sources are in no transaction yet; None: not known."""
        return sum(self.lags.values()) if self.lags else None

    # What happens

    def begin(
        self, ledger: Ledger, active: Mapping[int, Active], lags: Mapping[str, int], now: float
    ) -> None:
        """Begin a batch.

        Args:
            ledger: What is durable.
            active: The attempts on their way in it.
            lags: What the sources say.
            now: In seconds of the driver's steady clock.
        """
        is_left = {one.attempt for one in active.values()}
        self._lose((one for one in self._by_txid if one.attempt not in is_left), PLANNED_ANEW, now)
        self.ledger, self.active, self.lags = ledger, dict(active), lags

    def nothing(self, reason: str, now: float) -> None:
        """Note a failed batch: all active attempts come again as new ones."""
        self._lose(self._by_txid, reason, now)
        self.active = {}

    def add(self, outcome: Outcome, now: float) -> Sequence[float]:
        """The batch counted.

        Args:
            outcome: What it means.
            now: When its commit was done, in seconds of the driver's steady clock.

        Returns:
            How long each attempt took that it committed.
        """
        is_known = {one.attempt for one in (*outcome.active.values(), *outcome.committed)}
        given_up = outcome.given_up
        failed = {one.attempt: one for one in reversed(outcome.failed)}
        first = min(failed, default=None)
        for one in self._by_txid:
            attempt = one.attempt
            if attempt in is_known:
                continue
            if given_up is not None and attempt.txid == given_up.txid:
                self._end(one, AttemptOutcome.GIVEN_UP, now, given_up.reason)
            elif attempt == first:
                failure = failed[attempt]
                reason = f"{failure.component!r}, task {failure.task}: {failure.reason}"
                is_loss = failure.is_loss
                what = AttemptOutcome.LOST if is_loss else AttemptOutcome.FAILED
                self._end(one, what, now, reason)
                self.last_failure = f"transaction {attempt.txid} failed: {reason}"
            else:
                reason = "" if first is None else f"transaction {first.txid} failed"
                self._end(one, AttemptOutcome.CASCADED, now, reason)
        times = [self._commit(one, now) for one in outcome.committed]
        self.ledger, self.active = outcome.ledger, dict(outcome.active)
        return times

    def _commit(self, one: Active, now: float) -> float:
        seconds = one.seconds(now)
        for phase, spent in seconds.items():
            self.phases[phase].add(spent)
        complete = sum(seconds.values())
        self.phases[COMPLETE].add(complete)
        self._end(one, AttemptOutcome.COMMITTED, now)
        return complete

    def _lose(self, attempts: Iterable[Active], reason: str, now: float) -> None:
        for one in attempts:
            self._end(one, AttemptOutcome.LOST, now, reason)
            self.last_failure = f"transaction {one.attempt.txid} was lost: {reason}"

    def _end(self, one: Active, outcome: AttemptOutcome, now: float, reason: str = "") -> None:
        self.attempts[outcome] += 1
        self.recent.append(EndedAttempt(one.attempt, one.phase, outcome, one.seconds(now), reason))

    @property
    def _by_txid(self) -> list[Active]:
        return sorted(self.active.values(), key=lambda one: one.attempt)

    # What there is to tell

    @property
    def committed(self) -> int:
        """The last txid that is committed; 0: none."""
        return self.ledger.committed

    @property
    def head_failures(self) -> int:
        """How many attempts of the first transaction that is not committed have failed."""
        return self.ledger.failures.get(self.ledger.head, 0)

    @property
    def head_reason(self) -> str:
        """Why the last one of these did."""
        return self.ledger.reasons.get(self.ledger.head, "")

    @property
    def head(self) -> str:
        """A sentence: it holds up all others; "": it has not failed."""
        if not (n := self.head_failures):
            return ""
        times = "once" if n == 1 else f"{n:,} times"
        who = f"transaction {self.ledger.head} has failed {times}"
        return f"{who}, and holds up all behind it: {self.head_reason}"

    @property
    def ended(self) -> int:
        """How many attempts have ended."""
        return self.attempts.total()

    def active_in(self, phase: Phase) -> int:
        """How many attempts are in a phase."""
        return attempts_in(self.active.values(), phase)

    def copy(self) -> TransactionTotals:
        """Copy it: the copy does not change with this."""
        return replace(
            self,
            attempts=self.attempts.copy(),
            phases={phase: histogram.copy() for phase, histogram in self.phases.items()},
            recent=self.recent.copy(),
        )

    def report(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "committed_txid": self.committed,
            "active": len(self.active),
            "attempts": {str(outcome): self.attempts[outcome] for outcome in AttemptOutcome},
            "given_up": [
                {"txid": one.txid, "failures": one.failures, "reason": one.reason}
                for one in self.ledger.given_up
            ],
            "head_failures": self.head_failures,
            "head": self.head,
            "last_failure": self.last_failure,
            "lag": self.lag,
        }
