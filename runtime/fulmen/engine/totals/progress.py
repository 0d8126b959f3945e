"""Whether a topology gets on, or the same failures come again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fulmen.engine.protocol.figures.statistics import EMITTED, REPLAYED
from fulmen.engine.protocol.summary import Resting
from fulmen.engine.totals.failures import resting_by_component, resting_sentence
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.waits import lag_of


class Progress:
    """What has happened since something was acked, committed, given up or newly emitted.

    Attributes:
        failures: Trees or attempts of transactions that have failed since then.
        batches: Batches that have counted since then.
        resting: Task -> what has failed since then and came again, or will: all of it, also if
            some is on its way at this moment.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._mark = -1, -1, -1
        self._since, self._failed, self._batches = steady(), 0, 0
        self.failures = self.batches = 0
        self.resting: dict[int, Resting] = {}

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
            self._failed, self._batches, self.resting = failed, totals.batches, {}
        for task, found in totals.resting.items():
            if task not in self.resting or found.messages >= self.resting[task].messages:
                self.resting[task] = found
        self.failures, self.batches = failed - self._failed, totals.batches - self._batches
        return self._steady() - self._since


def waits_for(
    totals: Totals, resting: Mapping[int, Resting], *, for_spouts: bool = True
) -> Iterator[str]:
    """What a topology that is to be drained still waits for.

    Args:
        totals: What it has done.
        resting: Task -> what has failed and comes again.
        for_spouts: Whether spouts may still emit something new.
    """
    plan, waits = totals.placed.plan, totals.waits
    if for_spouts:
        yield from _without_end(totals)
    for task, why in waits.holds.items():
        yield f"{plan.component_of(task)!r} holds the spouts: {why}"
    for name, found in resting_by_component(resting, plan).items():
        yield resting_sentence(name, found.messages, found.failures, found.reason)
    if totals.trees.pending:
        yield f"{_number(totals.trees.pending, 'tree')} pending: bolts have not acked all tuples"
    transactions = totals.transactions
    if transactions is not None and transactions.head_failures:
        yield (
            f"transaction {transactions.ledger.head} has failed {transactions.head_failures:,}"
            f" times, the last time because {transactions.head_reason}"
        )
    for name, reason in totals.failures.last():
        yield f"{name}: {reason.count:,} failed, such as: {reason.example}"
    for out in waits.left_out.values():
        yield f"{out.component!r}, task {out.task}, is left out: {out.reason}"
    for away in waits.away.values():
        yield f"{away.component!r} can't reach {away.name}: {away.reason}"


def _without_end(totals: Totals) -> Iterator[str]:
    """Spouts that know their end, and have not come to it."""
    plan, waits = totals.placed.plan, totals.waits
    tasks = [task for task, is_over in waits.exhausted.items() if is_over is False]
    for name in sorted({plan.component_of(task) for task in tasks} & {*totals.placed.spouts}):
        lag = lag_of(waits.lags, plan.tasks(name))
        behind = "" if lag is None or not lag.messages else f", and is {lag.messages:,} behind"
        yield f"spout {name!r} has not said that it is at its end{behind}"


def _number(number: int, what: str) -> str:
    return f"1 {what} is" if number == 1 else f"{number:,} {what}s are"
