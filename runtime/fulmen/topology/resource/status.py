"""What the operator says about a topology: `status` of the resource. No Kubernetes here.

The docstring under a field becomes its description in the CRD and in the docs. Everything is
bounded: with 1,000 executors the whole stays below 100 KiB.
"""

from typing import Annotated, Literal

from pydantic import Field

from fulmen.topology.resource.base import Model

State = Literal[
    "Pending",
    "Starting",
    "Active",
    "Inactive",
    "Rebalancing",
    "Draining",
    "Suspended",
    "Failed",
]

MAX_ERRORS = 10
MAX_MESSAGE = 1024
MAX_CONDITION_MESSAGE = 8192
"""Room for all mistakes of a spec."""

Name = Annotated[str, Field(max_length=253)]
Number = Annotated[int, Field(ge=0, le=2**53)]
Message = Annotated[str, Field(max_length=MAX_MESSAGE)]
Time = Annotated[str, Field(max_length=32)]
ExecutorName = Annotated[str, Field(max_length=128)]


class Condition(Model):
    """One aspect of the topology's health, as in every Kubernetes resource."""

    type: Annotated[str, Field(max_length=63)]
    """`Ready`, `Reconciling`, `Stalled`, `SpecAccepted` or `Placed`."""

    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""

    reason: Annotated[str, Field(max_length=63)]
    """Why, for programs: one word."""

    message: Annotated[str, Field(max_length=MAX_CONDITION_MESSAGE)] = ""
    """Why, for people."""

    observed_generation: Number
    """The generation of the spec that this is about."""

    last_transition_time: Time
    """When `status` changed."""


class WorkerCounts(Model):
    """How many workers there are."""

    desired: Number = 0
    """How many the accepted spec asks for."""

    ready: Number = 0
    """How many run and host executors."""


class ComponentStatus(Model):
    """A spout, bolt or the ackers."""

    name: Name
    """The component."""

    tasks: Number
    """Its number of tasks, fixed when it was first accepted."""

    executors: Number
    """Its number of executors."""


class Placement(Model):
    """What one worker hosts."""

    worker: Annotated[int, Field(ge=-1, le=1_000_000)]
    """The worker's number; -1 is the driver, which hosts pinned spouts."""

    pod: Name = ""
    """Its pod, as the driver says; empty if there is none."""

    slot: Annotated[int, Field(ge=0, le=63)] = 0
    """Its slot in the pod: 0 unless workers share pods."""

    planned: tuple[ExecutorName, ...] = Field((), max_length=10_000)
    """The executors that it should host, as `component[first-last]` with their task ids. Left out
    where it equals `executors` if the whole would be too long."""

    executors: tuple[ExecutorName, ...] = Field((), max_length=10_000)
    """The executors that it hosts, as the driver says."""


class Restarts(Model):
    """Drivers that had to be started again."""

    count: Number = 0
    """How many, since the topology was made."""

    failures: Number = 0
    """How many in a row without ten minutes of being Active between them: the next one waits
    longer."""

    cause: Annotated[str, Field(max_length=63)] = ""
    """Why the last one ended, for programs."""

    message: Message = ""
    """Why the last one ended, for people."""

    time: Time = ""
    """When the last one ended."""


class ComponentError(Model):
    """An error that a component reported."""

    component: Name
    """Whose."""

    task: Number
    """The task's id."""

    message: Message
    """One line."""

    time: Time
    """When it came last."""

    count: Number = 1
    """How often this driver has met it."""


class TopologyStatus(Model):
    """How the topology is. Written by the operator only."""

    observed_generation: Number = 0
    """The generation of the spec that the operator has looked at."""

    state: State = "Pending"
    """What the topology is doing, in a word."""

    state_since: Time = ""
    """Since when it does that."""

    message: Message = ""
    """What to know now, in a line."""

    attempt: Number = 0
    """The number of the driver: each has one of its own, which is part of its pods' names."""

    driver_pod: Name = ""
    """The driver's pod of this attempt, once it was seen."""

    active_since: Time = ""
    """Since when this attempt's driver processes batches."""

    epoch: Number = 0
    """The driver's number in the checkpoint: only the highest one can commit."""

    last_batch: Number = 0
    """The last batch that was committed."""

    workers: WorkerCounts = WorkerCounts()
    """How many workers there are."""

    selector: Annotated[str, Field(max_length=512)] = ""
    """The labels of the workers' pods, for `kubectl scale` and autoscalers."""

    executors: Number = 0
    """How many executors there are, those of ackers included."""

    tasks: Number = 0
    """How many tasks there are, ackers included."""

    ackers: Number = 0
    """How many of the tasks are ackers."""

    components: tuple[ComponentStatus, ...] = Field((), max_length=501)
    """Every spout and bolt, and `__acker`."""

    assignment: tuple[Placement, ...] = Field((), max_length=1001)
    """What each worker hosts, planned and observed."""

    assignment_truncated: bool = False
    """Whether entries of `assignment` are left out because the whole would be too long."""

    restarts: Restarts = Restarts()
    """Drivers that had to be started again."""

    errors: tuple[ComponentError, ...] = Field((), max_length=MAX_ERRORS)
    """The last errors of components."""

    conditions: tuple[Condition, ...] = Field((), max_length=16)
    """Ready, Reconciling, Stalled, SpecAccepted and Placed."""
