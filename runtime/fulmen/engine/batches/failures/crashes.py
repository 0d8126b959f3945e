"""Finds the tuple that kills its workers, and no other: who is suspected, and what is proof. Pure.

A batch that keeps failing is tried with fewer and fewer tuples, down to one of one spout task. That
this one fails as well proves nothing yet: processes, pods and nodes are lost for other reasons too.
So it is tried in turn with a batch that has no tuple of a spout. It is dropped when it has failed
its batch twice, alone, and the batch without it has succeeded after each time.

When the batch without it fails, the tuple is not to blame, and what it was suspected of is
forgotten. There may be nothing to find then: whoever loses workers again and again for other
reasons goes on trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

FAILURES_BEFORE_HALVING = 2
FAILURES_ALONE = 2
"""So often a tuple has to fail its batch alone, with a success without it after each time."""
TRACEBACK_CHARACTERS = 4000
"""So many are kept of a traceback: the last ones, as it ends with what happened."""


class Probe(Enum):
    """The kinds of attempts while a tuple is suspected."""

    SOME = auto()
    """Fewer tuples than before, from some spout tasks."""
    ALONE = auto()
    """One tuple of one spout task."""
    WITHOUT = auto()
    """No tuple at all."""
    DROPPING = auto()
    """One tuple, which is dropped instead of sent."""


@dataclass
class Crashes:
    """The failed batches, and the search for the tuple that crashes them.

    Attributes:
        failures: Failed attempts in a row.
        limit: Tuples of all spout tasks together; None: no tuple is suspected.
        trial: What the next attempt is made of, while there is a limit.
        turn: Which spout task may emit while the limit is below their number.
        alone: How often the suspected tuple has failed its batch alone.
        successes: Successful batches with the limit as it is.
        rounds: How many spout tasks were suspected in vain, in a row.
        cause: Why the last attempt with the suspected tuple failed.
        traceback: Of that failure, if there is one.
    """

    failures: int = 0
    limit: int | None = None
    trial: Probe = Probe.SOME
    turn: int = 0
    alone: int = 0
    successes: int = 0
    rounds: int = 0
    cause: str = ""
    traceback: str = ""

    def failed(self, likely: int, cause: str, traceback: str = "") -> None:
        """Note a failed attempt."""
        self.failures += 1
        self.successes = 0
        if self.trial is not Probe.WITHOUT:
            self.cause, self.traceback = cause, traceback[-TRACEBACK_CHARACTERS:]
        if self.limit is None:
            if self.failures >= FAILURES_BEFORE_HALVING:
                self._narrow(max(1, likely // 2))
        elif self.trial is Probe.SOME:
            self._narrow(self.limit // 2)
        elif self.trial is Probe.ALONE:
            self.alone += 1
            self.trial = Probe.WITHOUT
        else:  # it failed without that tuple: it is another one, or none
            self._acquit()

    def _narrow(self, limit: int) -> None:
        self.limit = limit
        self.trial = Probe.ALONE if limit == 1 else Probe.SOME

    def _acquit(self) -> None:
        self.alone = 0
        self.turn += 1
        self.rounds += 1
        self.trial = Probe.ALONE

    def succeeded(self, enough: float) -> bool:
        """A batch counted. Returns whether no tuple is suspected any more.

        Args:
            enough: A limit of so many tuples is none.
        """
        if self.limit is None:
            return True
        self.failures = self.rounds = 0
        if self.trial is Probe.WITHOUT:
            self.trial = Probe.DROPPING if self.alone >= FAILURES_ALONE else Probe.ALONE
            return False
        was_dropped = self.trial is Probe.DROPPING
        self.alone = 0
        self.successes += 1
        self.turn += self.limit
        if self.successes > 1 or was_dropped:
            self.limit *= 2
            self.successes = 0
        self.trial = Probe.ALONE if self.limit == 1 else Probe.SOME
        return self.limit >= enough

    def permits(self, tasks: Sequence[int]) -> tuple[dict[int, int] | None, tuple[int, ...]]:
        """How many tuples each spout task may emit, and the tasks whose first one is to be dropped.

        Returns:
            None, if every task may emit as much as ever.
        """
        if self.limit is None or not tasks:
            return None, ()
        if self.trial is Probe.WITHOUT:
            return dict.fromkeys(tasks, 0), ()
        if self.limit > len(tasks):
            return dict.fromkeys(tasks, self.limit // len(tasks)), ()
        turn = [tasks[(self.turn + i) % len(tasks)] for i in range(self.limit)]
        return dict.fromkeys(turn, 1), tuple(turn) if self.trial is Probe.DROPPING else ()
