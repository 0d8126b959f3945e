"""Whether a topology gets on, or the same failures come again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fulmen.engine.protocol.figures.statistics import EMITTED, REPLAYED
from fulmen.engine.totals.failures import resting_by_component, resting_sentence
from fulmen.engine.totals.totals import Totals


class Progress:
    """What has happened since something was acked, committed, given up or newly emitted.

    Attributes:
        failures: Trees or attempts of transactions that have failed since then.
        batches: Batches that have counted since then.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._mark = -1, -1, -1
        self._since, self._failed, self._batches = steady(), 0, 0
        self.failures = self.batches = 0

    def look(self, totals: Totals) -> float:
        """Look again. Returns the seconds since there was progress."""
        trees, transactions = totals.trees, totals.transactions
        counts, spouts = totals.counts, totals.placed.spouts
        new = sum(n for (name, what, _), n in counts.items() if what == EMITTED and name in spouts)
        of_spouts = ((what, n) for (name, what, _), n in counts.items() if name in spouts)
        replayed = sum(n for what, n in of_spouts if what == REPLAYED)
        committed = 0 if transactions is None else transactions.committed
        failed = trees.failed + trees.timed_out
        if transactions is not None:
            failed += sum(transactions.attempts.values())
        if transactions is None:
            mark = trees.acked, trees.dead_lettered, new - replayed
        else:
            mark = committed, 0, 0
        if mark != self._mark:
            self._mark, self._since = mark, self._steady()
            self._failed, self._batches = failed, totals.batches
        self.failures, self.batches = failed - self._failed, totals.batches - self._batches
        return self._steady() - self._since


def waits_for(totals: Totals) -> Iterator[str]:
    """What a topology that is to be drained still waits for."""
    plan = totals.placed.plan
    for name, resting in resting_by_component(totals.resting, plan).items():
        yield resting_sentence(name, resting.messages, resting.failures, resting.reason)
    if totals.trees.pending:
        yield f"{totals.trees.pending:,} trees are pending: bolts have not acked them yet"
    transactions = totals.transactions
    if transactions is not None and transactions.head_failures:
        yield (
            f"transaction {transactions.ledger.head} has failed {transactions.head_failures:,}"
            f" times, the last time because {transactions.head_reason}"
        )
    for name, reason in totals.failures.last():
        yield f"{name}: {reason.count:,} failed, such as: {reason.example}"
    for out in totals.waits.left_out.values():
        yield f"spout {out.component!r}, task {out.task}, is left out: {out.reason}"
    for away in totals.waits.away.values():
        yield f"{away.component!r} can't reach {away.name}: {away.reason}"
