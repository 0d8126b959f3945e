"""Spouts and bolts in the spec, and the inputs of bolts."""

from typing import Annotated, Literal

from pydantic import Field

from fulmen.topology.resource.base import (
    ClassPath,
    Count,
    FieldName,
    JsonMap,
    Model,
    Name,
)
from fulmen.topology.resource.spec.event_time import EventTime
from fulmen.topology.resource.spec.keyed_state import BoltKeyedState

ACKER = "__acker"
"""The system component that tracks tuple trees. Its tasks are numbered like any other's."""

GroupingType = Literal[
    "shuffle",
    "fields",
    "partial-key",
    "all",
    "global",
    "none",
    "direct",
    "local-or-shuffle",
    "custom",
]


class Grouping(Model):
    """How the tuples of a stream are divided among the tasks of the bolt that subscribes to it."""

    type: GroupingType
    """`shuffle`: evenly, in random order. `fields`: equal values of `fields` go to the same task.
    `partial-key`: to one of two tasks for equal values, the one that was sent less. `all`: to every
    task. `global`: to the task with the lowest id. `none`: to any task. `direct`: to the task that
    the emitter names; the stream must be declared direct. `local-or-shuffle`: evenly among the
    tasks in the emitter's own worker if there are any, else among all. `custom`: to the tasks that
    `class` chooses."""

    fields: tuple[FieldName, ...] = Field((), max_length=64)
    """For `fields` and `partial-key`: the stream's fields to group by."""

    class_: ClassPath | None = None
    """For `custom`: a class derived from `fulmen.CustomStreamGrouping`, as `module.Class`."""

    config: JsonMap = Field({})
    """For `custom`: any values for the class, which finds them in `self.config`."""


class Through(Model):
    """What makes the rows of an input of those of a stream, in the task that emits them."""

    class_: ClassPath
    """A class derived from `fulmen.api.input_function.InputFunction`, as `module.Class`."""

    config: JsonMap = Field({})
    """Any values for the class, which finds them in `self.config`."""

    fields: tuple[FieldName, ...] = Field(min_length=1, max_length=200)
    """The fields of the rows that it makes, which `grouping` may name."""

    types: dict[FieldName, Annotated[str, Field(max_length=100)]] = Field({}, max_length=200)
    """Their types, as far as they are known."""


class Input(Model):
    """A bolt's subscription to one stream of another component."""

    from_: Name
    """The spout or bolt whose tuples to receive."""

    stream: FieldName = "default"
    """The stream of that component. Every spout also has the stream `__dead_letters`, with the
    fields stream, values, msg_id, failures and reason: messages that were given up after
    `maxReplays`. So has every bolt that emits: results that were given up."""

    where: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    """The condition of the tuples to receive, as an expression of SQL over the stream's fields,
    such as `amount > 0 and kind = 'buy'`. Others are left out where they are emitted: they are
    acked, and never sent. Default: all."""

    select: (
        Annotated[
            dict[FieldName, Annotated[str, Field(min_length=1, max_length=10_000)]],
            Field(min_length=1, max_length=200),
        ]
        | None
    ) = None
    """The fields to receive instead of the stream's, each with an expression of SQL over these,
    such as `{user: user, euros: price * 0.908}`. They are computed where the tuple is emitted, so
    `grouping` may name them. Default: the stream's own."""

    through: Through | None = None
    """Functions that make rows of what `where` and `select` leave, in the task that emits. Streams
    in Python write it. Default: none."""

    grouping: Grouping
    """How the tuples are divided among this bolt's tasks."""


class ComponentSpec(Model):
    """What spouts and bolts have in common."""

    name: Name
    """The name of the component, unique among all spouts and bolts. Names that begin with `__` are
    reserved."""

    class_: ClassPath
    """The Python class, as `module.Class`. One instance of it is made for each task."""

    parallelism: Count = 1
    """The number of executors: the tasks are divided into so many parts, which are dealt to the
    workers. It may be changed while the topology runs. A number above `numTasks` means as many
    executors as tasks."""

    num_tasks: Count | None = None
    """The number of tasks: instances of the class, each with its own part of the state. When it is
    changed, Fulmen moves keys of state to the tasks that have them from then on, or refuses the
    change and says why. Default: as many as the checkpoint has, else `parallelism`."""

    config: JsonMap = Field({})
    """Any values for this component. `open` and `prepare` receive the topology's `config` with
    these values on top of it."""

    tick_seconds: (
        Annotated[float, Field(strict=True, gt=0, le=7 * 24 * 3600, allow_inf_nan=False)] | None
    ) = None
    """Seconds between two tick tuples to each task of a bolt. Default: no ticks."""

    event_time: EventTime | None = None
    """Which field of the tuples that the component emits says when something happened. Windows and
    timers of the bolts behind it need it. Default: they have no event time."""

    instance: Annotated[str, Field(max_length=256 * 1024)] | None = None
    """`TopologyBuilder` writes this for a component that was given as an object with fields: the
    object, pickled and in base64. Tasks are copies of the object, and `class` only names its
    class."""

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return self.parallelism if self.num_tasks is None else self.num_tasks

    @property
    def executors(self) -> int:
        """The number of executors: never more than tasks, as in Storm."""
        return min(self.parallelism, self.tasks)


class SpoutSpec(ComponentSpec):
    """A source of tuples."""


class TransactionalSpoutSpec(ComponentSpec):
    """A source of a transactional topology. `parallelism` is that of its emitters."""


class BoltSpec(ComponentSpec):
    """Receives tuples, and may emit others."""

    blocking: Annotated[bool, Field(strict=True)] = False
    """Whether `execute` waits for something outside (a database, an HTTP service). The executors of
    the bolt then run as threads beside each other in their worker, instead of one after another."""

    committer: Annotated[bool, Field(strict=True)] = False
    """In a transactional topology: whether this BatchBolt is a committer, whose `finish_batch` is
    called in the strict order of the transactions. A class with the marker `fulmen.Committer` is
    one anyway."""

    keyed_state: BoltKeyedState | None = None
    """Where `self.state` is kept while it runs: in memory, or on disk. Default: as the
    topology's `keyedState` says."""

    track_results: Annotated[bool, Field(strict=True)] = True
    """Whether what the bolt emits by itself (at a tick, by a timer, in `end_batch` or `drain`, at
    the end of a window) is kept until all its tuples are acked, and emitted again if they are not.
    `false` is faster, and such a result is lost if it fails."""

    inputs: tuple[Input, ...] = Field((), max_length=64)
    """The streams that the bolt receives; at least one."""
