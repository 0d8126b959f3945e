"""All reasons that the operator gives for a condition or an event, and who must be told of each.

docs/conditions.md explains each of them. The operator passes on reasons of others as well: see
`AnyReason`.
"""

from enum import Enum, StrEnum, auto
from typing import NewType, Self

from fulmen.kube.contract.endings import EndReason
from fulmen.kube.contract.reports import OutageReason
from fulmen.topology.resource.status import State


class News(Enum):
    """The audience of the news that the condition Ready or Placed is false for a reason.

    EXPECTED: nobody. PASSING: it belongs to a topology's life; an event tells it if Ready was true
    before. TROUBLE: there is a warning event.
    """

    EXPECTED = auto()
    PASSING = auto()
    TROUBLE = auto()


class Reason(StrEnum):
    """A reason that the operator finds itself."""

    news: News

    def __new__(cls, text: str, news: News) -> Self:
        """Make a member of a text; each must say who is told of it."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.news = news
        return member

    # of SpecAccepted, and what follows from it

    ACCEPTED = "Accepted", News.EXPECTED
    """The newest spec is running."""
    ACCEPTED_WITH_WARNINGS = "AcceptedWithWarnings", News.EXPECTED
    """The spec is accepted, but there is something to think about."""
    CHECKING = "Checking", News.TROUBLE
    """The change is validated. Ready has this reason only together with SpecAccepted."""
    INVALID_SPEC = "InvalidSpec", News.TROUBLE
    """There are mistakes in the spec or the code. Drivers and preflights give it as well."""
    CODE_NOT_FOUND = "CodeNotFound", News.TROUBLE
    """The ConfigMap of the code is missing or empty."""
    CODE_TOO_BIG = "CodeTooBig", News.TROUBLE
    """The ConfigMap of the code is too big."""
    POD_REFUSED = "PodRefused", News.TROUBLE
    """The API server would refuse the new pods."""
    PREFLIGHT_FAILED = "PreflightFailed", News.TROUBLE
    """The pod that validates the new image and code failed."""
    PREFLIGHT_TIMEOUT = "PreflightTimeout", News.TROUBLE
    """The pod that validates the new image and code does not end."""
    ROLLED_BACK = "RolledBack", News.TROUBLE
    """The new version made no commit; the last one that worked is back."""

    # of Ready

    SUSPENDING = "Suspending", News.PASSING
    """The driver drains, to be suspended."""
    REPLACING = "Replacing", News.PASSING
    """The driver drains, to be replaced."""
    EARLIER_TOPOLOGY_ENDS = "EarlierTopologyEnds", News.PASSING
    """Objects of a deleted topology of the same name are still there."""
    DRIVER_ENDING = "DriverEnding", News.TROUBLE
    """The driver's pod was told to end, not by the operator."""
    WAITS_TO_START = "WaitsToStart", News.PASSING
    """As many drivers of the namespace are starting as may at once."""
    WAITS_FOR_ROOM = "WaitsForRoom", News.TROUBLE
    """The driver has given its room back: an older topology finds none, either."""
    START_TIMEOUT = "StartTimeout", News.TROUBLE
    """The first batch did not end in time."""
    REFUSED = "Refused", News.TROUBLE
    """The API server does not let the operator make something."""
    BEING_DELETED = "BeingDeleted", News.TROUBLE
    """Something that the topology stands on is being deleted while it is in use."""
    OBJECT_IN_THE_WAY = "ObjectInTheWay", News.TROUBLE
    """Somebody else's object has the name of one that the topology needs."""
    PROBE_FAILED = "ProbeFailed", News.TROUBLE
    """A driver did not answer its probes in time."""
    OOM_KILLED = "OOMKilled", News.TROUBLE
    """The driver's memory was not enough."""
    DRIVER_GONE = "DriverGone", News.TROUBLE
    """Somebody deleted the driver's pod."""
    POD_LOST = "PodLost", News.TROUBLE
    """The driver's pod is gone, and Kubernetes does not say why."""

    # of events alone

    SAVEPOINT_MADE = "SavepointMade", News.EXPECTED
    """There is a new savepoint."""
    SAVEPOINT_FAILED = "SavepointFailed", News.TROUBLE
    """A savepoint can't be read, or one that was asked for can't be made."""

    # of Placed

    AS_PLANNED = "AsPlanned", News.EXPECTED
    """Every worker hosts what it should."""
    MOVING = "Moving", News.EXPECTED
    """Executors are not where they should be yet."""
    NOT_ACCEPTED = "NotAccepted", News.EXPECTED
    """No spec was ever accepted."""
    WORKERS_MISSING = "WorkersMissing", News.EXPECTED
    """There are fewer workers than asked for."""
    WORKER_REFUSED = "WorkerRefused", News.TROUBLE
    """The API server refuses a further worker."""
    WORKER_FAILED = "WorkerFailed", News.TROUBLE
    """A worker's pod has ended, and none that takes its place runs."""
    VOLUMES_NOT_MOUNTED = "VolumesNotMounted", News.TROUBLE
    """A pod has a node, but not its volumes."""

    # of Reconciling and Stalled

    APPLYING = "Applying", News.EXPECTED
    """The driver applies the change."""
    PAUSED = "Paused", News.EXPECTED
    """The operator is not to touch the topology."""
    AS_EXPECTED = "AsExpected", News.EXPECTED
    """The condition is false, as it should be."""


Foreign = NewType("Foreign", str)
"""A reason in Kubernetes' own words, or one that was read from a status."""

AnyReason = Reason | State | EndReason | OutageReason | Foreign
"""The reasons of a condition: the operator's, a state of the topology, the driver's, or others'.

mypy accepts no other text, so a new reason must become a member of `Reason`."""

Trouble = tuple[AnyReason, str]
"""(reason for programs, words for people): why pods don't start."""

ON_THE_WAY: tuple[State, ...] = ("Pending", "Starting", "Rebalancing", "Draining")
"""States in which a topology is not ready, but will be."""


def news_of(reason: str) -> News:
    """The audience of a reason, of the operator's or of others."""
    if reason in ON_THE_WAY:
        return News.PASSING
    if reason == "Failed":
        return News.EXPECTED  # of Placed only: Ready says why
    return next((known.news for known in Reason if known == reason), News.TROUBLE)
