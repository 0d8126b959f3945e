"""What may be done about a driver, and what is said of it. Plain values.

A step is one of `Start`, `StartEmpty`, `Stop`, `Clear`, `Stay`, `Wait`, `Overdue` and `Stall`, with
the state of the topology after it. `next_step` decides which.
"""

from dataclasses import dataclass

from fulmen.kube import contract
from fulmen.topology.resource.status import State
from fulmen_operator.reasons import AnyReason
from fulmen_operator.reconcile.pod_states import Ending


@dataclass(frozen=True)
class Start:
    """Make the pod of a new driver.

    Attributes:
        cause: Why the driver before ended, if the new one is started because of it.
    """

    cause: Ending | None = None


@dataclass(frozen=True)
class StartEmpty(Start):
    """The same, with an empty checkpoint: the user has accepted that what was there is lost."""


@dataclass(frozen=True)
class Stop:
    """Delete the driver's pod, although it has not ended."""


@dataclass(frozen=True)
class Clear:
    """Delete all pods: the topology is suspended, and its driver has ended."""


@dataclass(frozen=True)
class Stay:
    """Leave the driver alone, or wait until it is time for the next one."""


@dataclass(frozen=True)
class Wait:
    """Wait for a driver that has not started, or for its first worker.

    Attributes:
        trouble: What keeps pods from starting, if it is known: the reason and Kubernetes' words.
    """

    trouble: tuple[AnyReason, str] | None = None


@dataclass(frozen=True)
class Overdue:
    """The same, for longer than it may last.

    Attributes:
        trouble: What keeps pods from starting: the reason and Kubernetes' words.
    """

    trouble: tuple[AnyReason, str]


@dataclass(frozen=True)
class Stall:
    """Nothing can be done until the user changes something."""


Does = Start | Stop | Clear | Stay | Wait | Overdue | Stall


@dataclass(frozen=True)
class Step:
    """What is done about the driver, and what to say about it.

    Attributes:
        state: What the topology is doing.
        reason: Why, for programs.
        message: Why, for people.
        directive: For the revision.
        attempt: The number of the driver, after this step.
        does: What is done.
        hopeless: Why a version that never worked fails again and again: the last reason and words.
        failures: How many failures in a row there are, after this step.
        report: What the driver says about itself.
        again_in: Seconds after which to look again although nothing happened, if so.
    """

    state: State
    reason: AnyReason
    message: str
    directive: contract.Directive
    attempt: int
    does: Does = Stay()
    hopeless: tuple[AnyReason, str] | None = None
    failures: int = 0
    report: contract.Report | None = None
    again_in: float | None = None

    @property
    def cause(self) -> Ending | None:
        """Why the driver before ended, if a new one is started because of it."""
        return self.does.cause if isinstance(self.does, Start) else None

    @property
    def trouble(self) -> tuple[AnyReason, str] | None:
        """What keeps pods from starting, if that is waited for: the reason and the words."""
        return self.does.trouble if isinstance(self.does, Wait | Overdue) else None

    @property
    def is_stalled(self) -> bool:
        """Whether nothing can be done until the user changes something."""
        return isinstance(self.does, Stall)
