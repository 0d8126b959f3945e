"""The operator's report about a topology: `status` of the resource. No Kubernetes here.

The docstring under a field becomes its description in the CRD and in the docs. Everything is
bounded: with 1,000 executors the whole stays below 100 KiB.
"""

from typing import Annotated, Literal

from pydantic import Field

from fulmen.topology.resource.base import Model
from fulmen.topology.resource.spec import ACKER

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
Pressure = Literal["None", "Up", "Down"]
ExecutorName = Annotated[str, Field(max_length=128)]


class Condition(Model):
    """One aspect of the topology's health, as in every Kubernetes resource."""

    type: Annotated[str, Field(max_length=63)]
    """`Ready`, `Reconciling`, `Stalled`, `SpecAccepted` or `Placed`."""

    status: Literal["True", "False", "Unknown"]
    """Whether the condition holds."""

    reason: Annotated[str, Field(max_length=63)]
    """The reason for programs, one word."""

    message: Annotated[str, Field(max_length=MAX_CONDITION_MESSAGE)] = ""
    """The reason for people."""

    observed_generation: Number
    """The generation of the spec that the condition is about."""

    last_transition_time: Time
    """When `status` changed."""


class WorkerCounts(Model):
    """How many workers there are."""

    desired: Number = 0
    """The number of workers that the accepted spec asks for."""

    ready: Number = 0
    """The number of workers that run and host executors."""


class ComponentStatus(Model):
    """A spout, bolt or the ackers."""

    name: Name
    """The component's name."""

    tasks: Number
    """The component's number of tasks, as the driver reports. Another `numTasks` counts when the
    driver has taken it over."""

    executors: Number
    """The component's number of executors."""


class Placement(Model):
    """What one worker hosts."""

    worker: Annotated[int, Field(ge=-1, le=1_000_000)]
    """The worker's number; -1 is the driver, which hosts pinned spouts."""

    pod: Name = ""
    """The worker's pod, as the driver reports; empty if there is none."""

    slot: Annotated[int, Field(ge=0, le=63)] = 0
    """The worker's slot in the pod: 0 unless workers share pods."""

    planned: tuple[ExecutorName, ...] = Field((), max_length=10_000)
    """The executors that the worker should host, as `component[first-last]` with their task ids. If
    the status would be too long, this is left out where it equals `executors`."""

    executors: tuple[ExecutorName, ...] = Field((), max_length=10_000)
    """The executors that the worker hosts, as the driver reports."""


class Restarts(Model):
    """Drivers that had to be started again."""

    count: Number = 0
    """The number of restarts since the topology was made."""

    failures: Number = 0
    """The number of restarts in a row, without ten minutes of being Active between them. Each makes
    the next one wait longer."""

    cause: Annotated[str, Field(max_length=63)] = ""
    """Why the last driver ended, for programs."""

    message: Message = ""
    """Why the last driver ended, for people."""

    time: Time = ""
    """When the last driver ended."""


class ComponentError(Model):
    """An error that a component reported."""

    component: Name
    """The component that reported the error."""

    task: Number
    """The id of the task."""

    message: Message
    """The error, in one line."""

    time: Time
    """When the error came last."""

    count: Number = 1
    """How often the error has come since this driver started."""


class SavepointStatus(Model):
    """The savepoints of the topology's checkpoint, as the driver reports."""

    count: Number = 0
    """How many there are."""

    newest: Name = ""
    """The name of the newest one; empty: there is none."""

    commit: Number = 0
    """The commit whose state it is."""

    time: Time = ""
    """When it was made."""

    why: Message = ""
    """What it was made for."""

    trouble: Message = ""
    """What is wrong with savepoints, such as one that can't be read; empty: nothing."""


class TriedWorkers(Model):
    """The last larger number of workers, as long as it is not known whether it helps."""

    before: Number = 0
    """The number of workers before; 0: there is nothing to find out."""

    nanos: Number = 0
    """Nanoseconds that batches took for each tuple then."""

    foreseen: Number = 0
    """Nanoseconds that they were to take with more workers."""


class RememberedWorkers(Model):
    """A number of workers that was found to be a limit, for a while."""

    workers: Number = 0
    """The number of workers; 0: there is no limit."""

    until: Time = ""
    """When the limit is forgotten."""

    times: Number = 0
    """How often in a row it was found."""

    nanos: Number = 0
    """What batches took for each tuple with so many workers, in nanoseconds; 0: not known."""


class AutoscaleStatus(Model):
    """How many workers `spec.autoscale` has chosen, and why."""

    workers: Number
    """The number of workers that there are to be."""

    since: Time
    """When that number was chosen."""

    last_change: Message = ""
    """Why that number was chosen."""

    direction: Pressure = "None"
    """Whether that number is more or less than the one before, by the load. `None`: it was chosen
    for another reason."""

    reason: Annotated[str, Field(max_length=63)]
    """What is thought of that number now, for programs."""

    message: Message = ""
    """What is thought of that number now, for people."""

    begun_with: Number
    """`spec.workers`, as it was when the operator looked. Another number begins anew with that."""

    pressure: Pressure = "None"
    """Whether there should be more or fewer workers, if that lasts."""

    pressure_since: Time = ""
    """Since when it is so."""

    pressure_lag: Number = 0
    """With `Up`: for how many seconds the oldest message waited then."""

    enough: Number = 0
    """With `Down`: how many workers were enough all that time."""

    tried: TriedWorkers = TriedWorkers()
    """The last larger number of workers, as long as it is not known whether it helps."""

    most: RememberedWorkers = RememberedWorkers()
    """More workers than this were found to be no faster."""

    least: RememberedWorkers = RememberedWorkers()
    """Fewer workers than this were found to be too few, although they had seemed enough."""


class TopologyStatus(Model):
    """How the topology is. Written by the operator only."""

    observed_generation: Number = 0
    """The generation of the spec that the operator has looked at."""

    state: State = "Pending"
    """What the topology is doing, in a word."""

    state_since: Time = ""
    """Since when the topology is in that state."""

    message: Message = ""
    """What a person should know now, in one line."""

    attempt: Number = 0
    """The number of the driver. Each driver has another number; its pods' names contain it."""

    driver_pod: Name = ""
    """The driver's pod of this attempt, as soon as the operator has seen it."""

    active_since: Time = ""
    """Since when the driver of this attempt processes batches."""

    epoch: Number = 0
    """The driver's number in the checkpoint: only the highest one can commit."""

    last_batch: Number = 0
    """The last batch that was committed."""

    workers: WorkerCounts = WorkerCounts()
    """How many workers there are."""

    autoscale: AutoscaleStatus | None = None
    """The number of workers that `spec.autoscale` has chosen. None without it."""

    selector: Annotated[str, Field(max_length=512)] = ""
    """The labels of the workers' pods, for `kubectl scale` and autoscalers."""

    executors: Number = 0
    """The number of executors, those of ackers included."""

    tasks: Number = 0
    """The number of tasks, those of ackers included."""

    ackers: Number = 0
    """The number of acker tasks."""

    components: tuple[ComponentStatus, ...] = Field((), max_length=501)
    """Every spout and bolt, and `__acker`."""

    assignment: tuple[Placement, ...] = Field((), max_length=1001)
    """What each worker hosts, planned and observed."""

    assignment_truncated: bool = False
    """Whether entries of `assignment` are left out because the status would be too long."""

    restarts: Restarts = Restarts()
    """Drivers that had to be started again."""

    errors: tuple[ComponentError, ...] = Field((), max_length=MAX_ERRORS)
    """The last errors of components."""

    savepoints: SavepointStatus = SavepointStatus()
    """The newest savepoint of the checkpoint, and what is wrong with any."""

    conditions: tuple[Condition, ...] = Field((), max_length=16)
    """Ready, Reconciling, Stalled, SpecAccepted and Placed."""

    @property
    def kept_tasks(self) -> dict[str, int]:
        """The numbers of tasks that components have: none before there is a checkpoint."""
        if self.epoch == 0:  # what there is was not looked at yet: it may be of other numbers
            return {}
        return {c.name: c.tasks for c in self.components if c.name != ACKER}
