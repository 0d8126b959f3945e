"""When a driver is to stop, and what it is to do until then."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fulmen.topology.resource.spec import Topology


@dataclass
class Stop:
    """When to stop; read before each batch, so any thread (or a signal handler) may set it.

    Attributes:
        drain: Spouts stop now; go on until nothing is pending and bolts have had their last turn.
        interrupted: Somebody waits: if a call hangs while it drains, end as failed at once.
        cut_off: Unwinds the driver's thread, from another one, if a call in its own process hangs
            then. None: nothing does.
        now: Stop after the batch at hand.
        after_seconds: Drain then.
        when_drained: Drain when every spout is exhausted, or nothing has happened for some batches.
        more_seconds: For so long no spout may have emitted anything, before `when_drained` takes
            that for the end of those that don't say it.
        more_may_come: Event time does not end when it is drained, as more may come in another run:
            what its end would emit are early results.
        give_up_seconds: While it drains, or is to when it is drained: end as failed if for so long
            nothing is acked and nothing new emitted. None: never.
        drain_seconds: While it drains because it was told to: the same, if transactions can't be
            committed, a bolt holds the spouts, or the checkpoint is away. None: never.
        active: Whether spouts may emit. None: as the topology says.
        topology: Go on as this one, with other numbers of workers, executors or ackers, or other
            limits. The driver takes it from here when it does.
        refused: Why the driver has not become that; "": it has, or will.
    """

    drain: bool = False
    interrupted: bool = False
    cut_off: Callable[[], None] | None = None
    now: bool = False
    after_seconds: float | None = None
    when_drained: bool = False
    more_seconds: float = 0.0
    more_may_come: bool = False
    give_up_seconds: float | None = None
    drain_seconds: float | None = None
    active: bool | None = None
    topology: Topology | None = None
    refused: str = ""

    @property
    def patience(self) -> float:
        """For how long it may be held up while it drains: only if it was told to drain."""
        is_told = self.drain and (self.interrupted or not self.when_drained)
        return math.inf if self.drain_seconds is None or not is_told else self.drain_seconds


@dataclass(frozen=True)
class AssumedEnd:
    """The spouts that `when_drained` took for ended, though they don't say it.

    Attributes:
        spouts: Their names.
        seconds: For so long no spout had emitted anything.
    """

    spouts: Sequence[str]
    seconds: float
