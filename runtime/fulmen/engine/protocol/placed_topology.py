"""The part that is constant while a plan is in force: pickled once into each stage's function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from fulmen.api.components.combiner import COMBINED
from fulmen.api.declarer import DEAD_LETTER_FIELDS, DEAD_LETTERS, Stream
from fulmen.api.times.event_time import LATE, LATE_FIELDS
from fulmen.engine.protocol.limits import LIMITS, EngineLimits
from fulmen.engine.protocol.sampling import Sampling
from fulmen.engine.tuples.chunk import Tasks
from fulmen.expressions.selection import steps_of
from fulmen.expressions.steps import Steps
from fulmen.plan import Plan, task_key, task_of_key
from fulmen.topology.resource.received import received
from fulmen.topology.resource.spec import (
    ACKER,
    BoltSpec,
    Grouping,
    SpoutSpec,
    Through,
    Topology,
    TransactionalSpoutSpec,
)
from fulmen.topology.resource.spec.event_time import EventTime

RESERVED = {DEAD_LETTERS: DEAD_LETTER_FIELDS, LATE: LATE_FIELDS}
"""Streams that no class declares."""


@dataclass(frozen=True)
class Subscription:
    """One input of one bolt.

    Attributes:
        number: Its place in `PlacedTopology.subscriptions`; rows between stages name it.
        source: The component that emits.
        stream: Its stream.
        fields: The fields that the bolt receives: that stream's, or those of its `select`.
        target: The bolt that receives.
        grouping: How the bolt's tasks are chosen.
        steps: What is done to the stream's rows first; None: nothing.
        through: What makes other rows of these; None: nothing.
        is_combined: Whether rows of it stand for several tuples each. Their fields are others:
            see `fields_of`.
    """

    number: int
    source: str
    stream: str
    fields: tuple[str, ...]
    target: str
    grouping: Grouping
    steps: Steps | None = None
    through: Through | None = None
    is_combined: bool = False

    def fields_of(self, rows: Sequence[Any]) -> tuple[str, ...]:
        """The fields of rows that have arrived."""
        if not (self.is_combined and rows):
            return self.fields
        return COMBINED, *map(str, range(1, len(rows[0])))


@dataclass(frozen=True)
class UnusedState:
    """State of a component that is not in the topology.

    Attributes:
        tasks: How many tasks the component had.
        until: The moment at which it is removed, for people; "": it is kept for good.
    """

    tasks: int
    until: str = ""


@dataclass(frozen=True)
class PlacedTopology:
    """A topology and where its tasks are.

    Attributes:
        run: Random, new whenever a driver starts or plans anew: tasks of another run are thrown
            away.
        topology: The resource.
        plan: Tasks, executors, workers and stages.
        streams: The output streams of each component.
        origins: The number in root ids of each task at which trees begin, by task key; given once
            and never again to another.
        checkpoint: URI of the store.
        code_folder: Where the classes are; None: installed packages.
        workers: Numbers of the workers that there are: all, but those that are lost.
        shows_emits: Whether summaries tell every tuple that was emitted. For tests.
        limits: Sizes and pauses of the engine.
        sampling: Which trees are traced; None: none.
        kept: Components that are not in the topology, whose state the checkpoint keeps, and how
            many tasks they had.
        in_any_order: Names of the bolts that take their streams in any order.
        by_clock: Names of the bolts whose watermark is the time of day.
        known_as: Component -> the name by which stores and brokers know it, as it was renamed.
    """

    run: str
    topology: Topology
    plan: Plan
    streams: Mapping[str, Mapping[str, Stream]]
    origins: Mapping[str, int]
    checkpoint: str
    code_folder: Path | None
    workers: tuple[int, ...] = ()
    shows_emits: bool = False
    limits: EngineLimits = LIMITS
    sampling: Sampling | None = None
    kept: Mapping[str, UnusedState] = field(default_factory=dict)
    known_as: Mapping[str, str] = field(default_factory=dict)
    in_any_order: frozenset[str] = frozenset()
    by_clock: frozenset[str] = frozenset()

    @cached_property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """Every input of every bolt."""
        inputs = []
        for bolt in self.topology.spec.bolts:
            for wanted in bolt.inputs:
                of = wanted.from_, wanted.stream
                steps = steps_of(self._stream(*of), wanted.where, wanted.select, self.kept_fields)
                fields = received(self._stream(*of), steps, wanted.through, self.kept_fields).fields
                inputs.append((*of, fields, bolt.name, wanted.grouping, steps, wanted.through))
        return tuple(Subscription(i, *one) for i, one in enumerate(inputs))

    def _stream(self, component: str, stream: str) -> Stream:
        fields = RESERVED.get(stream)
        return self.streams[component][stream] if fields is None else Stream(fields)

    @property
    def kept_fields(self) -> int:
        """How many fields each input keeps: in a transactional topology, the attempt."""
        return 1 if self.emitters else 0

    def received(self, subscription: Subscription) -> Stream:
        """The stream that the bolt of a subscription receives."""
        stream = self._stream(subscription.source, subscription.stream)
        return received(stream, subscription.steps, subscription.through, self.kept_fields)

    @cached_property
    def sent(self) -> tuple[Subscription, ...]:
        """Subscriptions between stages: `subscriptions`, and again each of them combined."""
        plain = self.subscriptions
        combined = [replace(s, number=s.number + len(plain), is_combined=True) for s in plain]
        return *plain, *combined

    def subscribers(self, component: str, stream: str) -> list[Subscription]:
        """The subscriptions to `stream` of `component`."""
        return [s for s in self.subscriptions if s.source == component and s.stream == stream]

    def component(self, name: str) -> SpoutSpec | TransactionalSpoutSpec | BoltSpec:
        """The spec of a component."""
        return self._components[name]

    @cached_property
    def _components(self) -> dict[str, SpoutSpec | TransactionalSpoutSpec | BoltSpec]:
        return {component.name: component for component in self.topology.spec.components}

    @cached_property
    def event_times(self) -> Mapping[str, EventTime]:
        """Declared event times, by component. Empty: nothing is done about them."""
        return {
            component.name: component.event_time
            for component in self.topology.spec.components
            if component.event_time is not None
        }

    @cached_property
    def inputs(self) -> Mapping[str, list[str]]:
        """Bolt -> the components that it receives tuples from. Each is behind all of these."""
        bolts = {bolt.name: [i.from_ for i in bolt.inputs] for bolt in self.topology.spec.bolts}
        return {
            name: bolts[name] for name in TopologicalSorter(bolts).static_order() if name in bolts
        }

    @cached_property
    def spouts(self) -> frozenset[str]:
        """Names of the spouts."""
        return frozenset(spout.name for spout in self.topology.spec.spouts)

    @cached_property
    def spout_tasks(self) -> Sequence[int]:
        """The tasks of all spouts, by the names of these."""
        return [task for name in sorted(self.spouts) for task in self.plan.tasks(name)]

    @cached_property
    def emitters(self) -> tuple[str, ...]:
        """Names of the transactional spouts; none: the topology has no transactions."""
        return tuple(source.name for source in self.topology.spec.transactional)

    @cached_property
    def sources(self) -> frozenset[str]:
        """Names of the components that make tuples of nothing: spouts, and emitters."""
        return self.spouts.union(self.emitters)

    def known_key_of(self, task: int) -> str:
        """The name of a task that stays also if its component is renamed."""
        component, index = task_of_key(self.plan.key_of(task))
        return task_key(self.known_as.get(component, component), index)

    def who(self, component: str, task: int) -> str:
        """How messages name a task of a component."""
        kind = "spout" if component in self.sources else "bolt"
        return f"{kind} {component!r}, task {task}"

    @cached_property
    def commit_phase(self) -> frozenset[str]:
        """Names of the bolts that finish a transaction when it is committed."""
        return self.topology.spec.commit_phase

    @property
    def ackers(self) -> range:
        """The task ids of `__acker`; none: acking is off."""
        return self.plan.tasks(ACKER) if self.acking else range(0)

    @cached_property
    def acking(self) -> bool:
        """Whether the topology has ackers."""
        return ACKER in self.plan.component_tasks

    @cached_property
    def task_worker(self) -> Tasks:
        """The worker of each task, by task id."""
        return np.array(self.plan.task_workers, np.int32)

    def keeps_results(self, bolt: str) -> bool:
        """Whether what a bolt emits by itself is to be kept until its trees are acked."""
        spec = self.component(bolt)
        return isinstance(spec, BoltSpec) and spec.track_results

    def component_of_origin(self, origin: int) -> str:
        """The component whose task has that origin; if it is gone, a name with the origin."""
        task = self.task_of_origin.get(origin)
        return self.plan.component_of(task) if task is not None else f"__origin_{origin}"

    @cached_property
    def task_of_origin(self) -> dict[int, int]:
        """The task id of each origin."""
        tasks = (task for of_one in self.plan.component_tasks.values() for task in of_one)
        keys = ((self.plan.key_of(task), task) for task in tasks)
        return {self.origins[key]: task for key, task in keys if key in self.origins}

    @cached_property
    def tasks_by_key(self) -> dict[str, int]:
        """The task id of each task key."""
        tasks = (task for of_one in self.plan.component_tasks.values() for task in of_one)
        return {self.plan.key_of(task): task for task in tasks}

    @cached_property
    def tasks_by_known_key(self) -> dict[str, int]:
        """The task id of each key that may be in what is kept of direct emits."""
        return {self.known_key_of(task): task for task in self.tasks_by_key.values()}

    @cached_property
    def result_bolts(self) -> frozenset[str]:
        """The bolts whose results have trees."""
        origins = self.task_of_origin.values()
        return frozenset(map(self.plan.component_of, origins)) - self.spouts


@dataclass
class CurrentTopology:
    """The placed topology that is in force: one object, which all in the driver look at.

    The planner alone replaces what is in it.
    """

    placed: PlacedTopology

    def copy(self) -> CurrentTopology:
        """Copy it as it is in force now."""
        return CurrentTopology(self.placed)
