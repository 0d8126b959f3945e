"""Whether a topology gets on, or the same failures come again and again."""

from __future__ import annotations

from collections.abc import Callable

from fulmen.engine.protocol.figures.statistics import EMITTED, REPLAYED
from fulmen.engine.protocol.summary import Resting
from fulmen.engine.totals.totals import Totals


class Progress:
    """Failures since something was acked, committed, given up or newly emitted.

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
        if transactions is None:
            spouts = totals.placed.spouts
            new = sum(totals.sum(EMITTED, s) - totals.sum(REPLAYED, s) for s in spouts)
            mark, failed = (trees.acked, trees.dead_lettered, new), trees.failed + trees.timed_out
        else:
            mark, failed = (transactions.committed, 0, 0), transactions.ended
        if mark != self._mark:
            self._mark, self._since = mark, self._steady()
            self._failed, self._batches, self.resting = failed, totals.batches, {}
        for task, rest in totals.resting.items():
            if task not in self.resting or rest.messages >= self.resting[task].messages:
                self.resting[task] = rest
        self.failures, self.batches = failed - self._failed, totals.batches - self._batches
        return self._steady() - self._since
