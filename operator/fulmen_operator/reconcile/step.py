"""The steps of a driver, and their reasons. Plain values.

A step is one of `Start`, `StartEmpty`, `QueueDriver`, `StopDriver`, `Clear`, `Stay`, `AwaitDriver`,
`Overdue` and `Stall`, with the state of the topology after it. `next_step` decides which.
"""

from dataclasses import dataclass, replace
from typing import Final

from fulmen.kube.contract.reports import Report
from fulmen.kube.contract.revisions import Directive
from fulmen.topology.resource.status import State
from fulmen_operator.reasons import AnyReason, Reason, Trouble
from fulmen_operator.reconcile.pod_states import Ending

WITH_WORKERS: Final = ("Starting", "Active", "Inactive", "Rebalancing")
"""States in which there should be workers."""


@dataclass(frozen=True)
class Start:
    """Make the pod of a new driver.

    Attributes:
        cause: Why the driver before ended, if the new one is started because of it.
    """

    cause: Ending | None = None


@dataclass(frozen=True)
class StartEmpty(Start):
    """Start with an empty checkpoint: the user has accepted the loss of the old one."""


@dataclass(frozen=True)
class QueueDriver:
    """Number a new driver, but make its pod only when fewer of other topologies start.

    Attributes:
        start: What is done then.
    """

    start: Start


@dataclass(frozen=True)
class StopDriver:
    """Delete the driver's pod, although it has not ended."""


@dataclass(frozen=True)
class Clear:
    """Delete all pods: the topology is suspended, and its driver has ended."""


@dataclass(frozen=True)
class Stay:
    """Leave the driver alone, or wait until it is time for the next one."""


@dataclass(frozen=True)
class AwaitDriver:
    """Wait for a driver that has not started, or for its first worker.

    Attributes:
        trouble: Why pods don't start, if it is known: the reason and Kubernetes' words.
    """

    trouble: Trouble | None = None


@dataclass(frozen=True)
class Overdue:
    """Wait, for longer than is allowed.

    Attributes:
        trouble: Why pods don't start: the reason and Kubernetes' words.
    """

    trouble: Trouble


@dataclass(frozen=True)
class Stall:
    """Nothing can be done until the user changes something."""


Does = Start | QueueDriver | StopDriver | Clear | Stay | AwaitDriver | Overdue | Stall


@dataclass(frozen=True)
class Step:
    """The step of a driver, and its description.

    Attributes:
        state: The topology's state.
        reason: For programs.
        message: For people.
        directive: For the revision.
        attempt: The number of the driver, after this step.
        does: The step.
        hopeless: Why a version that never worked fails again and again: the last reason and words.
        failures: The number of failures in a row, after this step.
        report: The driver's report.
        again_in: Seconds after which to look again although nothing happened, if so.
    """

    state: State
    reason: AnyReason
    message: str
    directive: Directive
    attempt: int
    does: Does = Stay()
    hopeless: Trouble | None = None
    failures: int = 0
    report: Report | None = None
    again_in: float | None = None

    @property
    def cause(self) -> Ending | None:
        """Why the driver before ended, if a new one is started because of it."""
        return self.start.cause if self.start is not None else None

    @property
    def start(self) -> Start | None:
        """The start of a new driver, now or when there is room for it; None: there is none."""
        if isinstance(self.does, QueueDriver):
            return self.does.start
        return self.does if isinstance(self.does, Start) else None

    @property
    def trouble(self) -> Trouble | None:
        """Why pods don't start, if they are waited for: the reason and the words."""
        return self.does.trouble if isinstance(self.does, AwaitDriver | Overdue) else None

    @property
    def is_stalled(self) -> bool:
        """Whether nothing can be done until the user changes something."""
        return isinstance(self.does, Stall)


def queued(step: Step, start: Start) -> Step:
    """The start put off: only its number is noted, and the next look goes on from there."""
    message = (
        f"driver {step.attempt} waits: as many drivers of this namespace are starting as may at"
        " once. It starts when another one is ready, has ended, or has been starting for five"
        " minutes"
    )
    waiting = replace(step, state="Pending", reason=Reason.WAITS_TO_START, message=message)
    return replace(waiting, does=QueueDriver(start), again_in=None)
