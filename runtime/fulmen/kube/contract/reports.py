"""What a driver tells of its topology while it runs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import Field

from fulmen.kube.contract import SCHEMA_VERSION
from fulmen.kube.load import Load
from fulmen.kube.message import ContractModel


def executor_name(component: str, first: int, last: int) -> str:
    """An executor as status and reports name it: `split[3-4]`, the ids of its tasks."""
    return f"{component}[{first}-{last}]"


class Hosted(ContractModel):
    """The executors that one worker hosts.

    Attributes:
        worker: The worker's number; -1 is the driver, which hosts pinned spouts.
        pod: Its pod; empty if it is planned only.
        executors: Its executors, as `executor_name` names them, by ascending task ids.
    """

    worker: int
    pod: str = ""
    executors: tuple[str, ...] = ()


class DriverPhase(StrEnum):
    """The phase of a driver."""

    STARTING = "Starting"
    ACTIVE = "Active"
    INACTIVE = "Inactive"
    DRAINING = "Draining"
    REBALANCING = "Rebalancing"
    FINISHED = "Finished"


class ReportedError(ContractModel):
    """An error of a component.

    Attributes:
        component: The spout or bolt.
        task: The id of the task.
        message: What happened, in one line.
        time: The time of the last occurrence, in seconds of the Unix clock.
        count: The number of occurrences.
    """

    component: str
    task: int
    message: str
    time: float
    count: int = 1


OutageReason = Literal["CheckpointUnreachable", "ServiceUnavailable"]


class Outage(ContractModel):
    """A service that the driver waits for, because it can't do without it.

    Attributes:
        reason: For programs, as in a condition: an `OutageReason`, or one of a newer driver.
        message: What it waits for, since when and why, in one line.
    """

    reason: str
    message: str


class ReportedSavepoints(ContractModel):
    """The savepoints of the checkpoint.

    Attributes:
        count: How many there are.
        name: The newest one.
        commit: The commit whose state it is.
        time: When it was made, in seconds of the Unix clock.
        why: What it was made for.
        trouble: What is wrong with savepoints; may be empty.
    """

    count: int = 0
    name: str = ""
    commit: int = 0
    time: float = 0.0
    why: str = ""
    trouble: str = ""


class Report(ContractModel):
    """A driver's report, in the annotation REPORT_ANNOTATION of its own pod.

    Attributes:
        phase: The driver's phase.
        generation: The generation of the revision that it runs.
        epoch: Its epoch in the checkpoint; 0: not claimed yet.
        batch: The number of the last commit.
        committed: Whether this driver itself has run a batch to its end.
        workers: Observed placement.
        planned: The placement by the driver's own plan if all workers were there; empty: as
            `workers`.
        tasks: The number of tasks of each component, `__acker` included.
        errors: The newest ones.
        message: What a person should know now; may be empty.
        outage: A longer wait for a service; no batch is committed meanwhile.
        refused: Why the newest revision is not taken over while the driver runs; empty: it is.
        savepoints: Those that there are. None: it is not known yet.
        load: The latest load, if it decides about the number of workers. None: it is not known yet,
            or not asked for.
        hands_over: Whether it has drained, and only keeps its clients until the next driver is
            ready.
    """

    schema_version: int = SCHEMA_VERSION
    phase: DriverPhase
    generation: int
    epoch: int = 0
    batch: int = 0
    committed: bool = False
    workers: tuple[Hosted, ...] = ()
    planned: tuple[Hosted, ...] = ()
    tasks: Mapping[str, int] = Field(default_factory=dict)
    errors: tuple[ReportedError, ...] = ()
    message: str = ""
    outage: Outage | None = None
    refused: str = ""
    savepoints: ReportedSavepoints | None = None
    load: Load | None = None
    hands_over: bool = False
