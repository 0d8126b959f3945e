"""Who is told what happens in a running topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fulmen.engine.batches.done import Done
from fulmen.engine.protocol.sampling import Sampling
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.totals.totals import Totals


class Observer(Protocol):
    """Is told what happens, to show it."""

    def batch(self, totals: Totals, done: Done) -> None:
        """A batch counted."""

    def error(self, error: ErrorReport) -> None:
        """A component reported an error."""

    def attempt_failed(self, number: int, reason: str) -> None:
        """An attempt of batch `number` came to nothing, and is repeated."""

    def note(self, text: str) -> None:
        """Tell a person about something else."""


class Silent(Observer):
    """An observer that does nothing: neither do the methods of the protocol."""


@dataclass(frozen=True)
class Moments:
    """When a batch did what, in seconds of time.time().

    Attributes:
        began: Its attempt that counted.
        ran: All stages had run.
        committed: It was committed.
    """

    began: float
    ran: float
    committed: float


class Tracer(Protocol):
    """Is told of trees that are traced. What it does must not take long: batches wait for it.

    Attributes:
        sampling: Which trees are traced.
    """

    sampling: Sampling

    def batch(self, done: Done, moments: Moments) -> None:
        """A batch counted."""

    def attempt_failed(self, number: int, reason: str, at: float) -> None:
        """An attempt of batch `number` came to nothing, at that time of the day."""
