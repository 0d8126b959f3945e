"""The part of the spec that makes the number of workers follow the load."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from fulmen.api.times.event_time import milliseconds
from fulmen.topology.resource.base import Model
from fulmen.topology.resource.spec.event_time import Duration

Workers = Annotated[int, Field(strict=True, ge=1, le=1000)]
CLOCK_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
ClockTime = Annotated[str, Field(pattern=CLOCK_TIME, max_length=5)]
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


class ScheduledWorkers(Model):
    """Hours in which there are more workers than the load needs."""

    days: tuple[Day, ...] = Field((), max_length=7)
    """The days on which the hours begin. Default: every day."""

    start: ClockTime
    """When the hours begin, such as `07:30`."""

    end: ClockTime
    """When the hours end. A time before `start` is one of the next day."""

    timezone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """The time zone of both, such as `Europe/Berlin`."""

    min_workers: Workers
    """The least number of workers in these hours."""


class Autoscale(Model):
    """How the number of workers follows the load, on Kubernetes.

    `spec.workers` is the number to begin with. Executors follow the workers: a component has as
    many executors on each worker as its `parallelism` asks for, up to `numTasks` in all.
    """

    min_workers: Workers = 1
    """The least number of workers."""

    max_workers: Workers
    """The largest number of workers. More workers than a component has tasks do nothing for it, so
    give components enough `numTasks`."""

    target_capacity: Annotated[float, Field(strict=True, ge=0.1, le=0.95, allow_inf_nan=False)] = (
        0.7
    )
    """The share of the time that batches may take for work. Above it there are too few workers. It
    is the sum over the stages of a batch of the time of the slowest worker."""

    max_lag: Duration = "30s"
    """How long a message of a source may wait. Beyond it, workers that are less busy than
    `targetCapacity` count as too few, too. Only sources that tell their lag in seconds have one."""

    up_after: Duration = "1m"
    """For how long there must be too few workers before there are more."""

    down_after: Duration = "10m"
    """For how long fewer workers must be enough before there are fewer."""

    schedule: tuple[ScheduledWorkers, ...] = Field((), max_length=32)
    """Hours in which the least number of workers is larger. Of several that hold, the largest
    counts."""

    @property
    def max_lag_seconds(self) -> float:
        """`max_lag` in seconds."""
        return milliseconds(self.max_lag) / 1000

    @property
    def up_seconds(self) -> float:
        """`up_after` in seconds."""
        return milliseconds(self.up_after) / 1000

    @property
    def down_seconds(self) -> float:
        """`down_after` in seconds."""
        return milliseconds(self.down_after) / 1000


class ScalingReason(StrEnum):
    """What the operator thinks of a number of workers. docs/operations.md explains each."""

    CHANGED = "Changed"
    MEASURING = "Measuring"
    WORKERS_MISSING = "WorkersMissing"
    ENOUGH = "Enough"
    TOO_FEW = "TooFew"
    TOO_MANY = "TooMany"
    AT_MAXIMUM = "AtMaximum"
    TASKS_ARE_THE_LIMIT = "TasksAreTheLimit"
    HOT_KEY = "HotKey"
    SOURCE_IS_THE_LIMIT = "SourceIsTheLimit"
    NO_FASTER = "NoFaster"
    NODES_ARE_FULL = "NodesAreFull"
    WORKERS_ARE_NOT_THE_LIMIT = "WorkersAreNotTheLimit"


LIMITED: Final = {
    ScalingReason.AT_MAXIMUM: "raise `maxWorkers`",
    ScalingReason.TASKS_ARE_THE_LIMIT: "give it a larger `numTasks`",
    ScalingReason.HOT_KEY: "group by more fields, or use a partial-key grouping",
    ScalingReason.SOURCE_IS_THE_LIMIT: "give its source more parts, such as partitions of a topic",
    ScalingReason.NO_FASTER: "make what it waits for faster. A bolt that waits for something"
    " outside can have `blocking: true` and more `parallelism` instead of more workers",
    ScalingReason.NODES_ARE_FULL: "give the cluster more nodes, or the topology's pods more CPU."
    " A larger `batchIntervalMillis` makes all topologies of a node cheaper",
    ScalingReason.WORKERS_ARE_NOT_THE_LIMIT: "see what the source waits for. If batches hold few"
    " slow tuples each, raise `batchTargetMillis`",
}
"""Reasons for which the number of workers does not follow the load, and the cures."""
