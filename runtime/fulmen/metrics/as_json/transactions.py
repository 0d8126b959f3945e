"""The transactions of a topology as JSON: a part of `topology`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fulmen.engine.batches.ledger import GivenUp, shown_metadata
from fulmen.engine.batches.transactions import Active, Phase
from fulmen.engine.totals.transaction_totals import (
    COMPLETE,
    AttemptOutcome,
    EndedAttempt,
    TransactionTotals,
)

ATTEMPTS_SHOWN = 20
"""Of those that are active, the first ones; of those that have ended, the last ones."""
GIVEN_UP_SHOWN = 20
_REASON_CHARACTERS = 1000

Json = dict[str, Any]


def transactions_json(now: TransactionTotals, before: TransactionTotals, moment: float) -> Json:
    """The JSON of transactions, without rates.

    Args:
        now: The totals.
        before: Those of some seconds earlier: times are of what was committed since.
        moment: Now, in seconds of the driver's steady clock.
    """
    active = sorted(now.active.values(), key=lambda one: one.attempt)
    return {
        "committed_txid": now.committed,
        "active": {phase: now.active_in(phase) for phase in Phase},
        "attempts": {outcome: now.attempts[outcome] for outcome in AttemptOutcome},
        "phases_ms": {phase: _mean(now, before, phase) for phase in (*Phase, COMPLETE)},
        "lag": now.lag,
        "head_failures": now.head_failures,
        "head": now.head[:_REASON_CHARACTERS],
        "last_failure": now.last_failure[:_REASON_CHARACTERS],
        "recent": [
            *(_active(one, now, moment) for one in active[:ATTEMPTS_SHOWN]),
            *(_ended(one) for one in reversed(now.recent)),
        ],
        "given_up": [_given_up(one) for one in reversed(now.ledger.given_up[-GIVEN_UP_SHOWN:])],
    }


def _mean(now: TransactionTotals, before: TransactionTotals, phase: str) -> float | None:
    """Milliseconds, of the last seconds; of all time if nothing was committed in these."""
    lately = now.phases[phase].since(before.phases[phase])
    millis = (lately if lately.counts else now.phases[phase]).millis
    return None if millis is None else round(millis, 3)


def _active(one: Active, now: TransactionTotals, moment: float) -> Json:
    txid, attempt = one.attempt.txid, one.attempt.attempt
    failures, reason = now.ledger.failures.get(txid, 0), now.ledger.reasons.get(txid, "")
    again = f"{failures} failed before, the last one: {reason}" if failures else ""
    return _attempt(txid, attempt, one.phase, None, one.seconds(moment), again)


def _ended(one: EndedAttempt) -> Json:
    txid, attempt = one.attempt.txid, one.attempt.attempt
    return _attempt(txid, attempt, one.phase, one.outcome, one.seconds, one.reason)


def _attempt(
    txid: int,
    attempt: int,
    phase: Phase,
    outcome: AttemptOutcome | None,
    seconds: Mapping[Phase, float],
    reason: str,
) -> Json:
    return {
        "txid": txid,
        "attempt": attempt,
        "phase": phase,
        "outcome": outcome,
        "phases_ms": {of: round(1000 * seconds[of], 3) if of in seconds else None for of in Phase},
        "reason": reason[:_REASON_CHARACTERS],
    }


@lru_cache(maxsize=GIVEN_UP_SHOWN)
def _shown(metadata: tuple[tuple[str, bytes], ...]) -> str:
    return shown_metadata(dict(metadata))


def _given_up(one: GivenUp) -> Json:
    return {
        "txid": one.txid,
        "metadata": _shown(tuple(one.metadata.items())),
        "failures": one.failures,
        "reason": one.reason[:_REASON_CHARACTERS],
    }
