"""Which tasks receive what a task emits on one stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fulmen.api.components.sinks import ERRORS_STREAM, MALFORMED_FIELDS
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.engine.emitting.input_steps import InputSteps, RowsFunction, Taken
from fulmen.engine.grouping.choosers import Chooser, choose_one, make_chooser
from fulmen.engine.protocol.placed_topology import PlacedTopology, Subscription
from fulmen.engine.time.event_times import StreamTimes
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.expressions.selection import selected
from fulmen.topology.code.loading import create_grouping, create_input_function
from fulmen.topology.configuration.options import Configuration, configured

Chosen = Mapping[int, Sequence[tuple[int, Sequence[int]]]]
"""Emit number -> (subscription, tasks), of the emits whose tasks were chosen at once."""


class Routes:
    """How one task's emits on one stream reach their tasks.

    Attributes:
        runs_functions: Whether an input has functions that make rows of these.
        times: Reads their event times; None: they have none.
        late: Where those go whose time can't be used.
        are_unread: Whether messages that can't be read are emitted here, and no bolt gets them.
    """

    times: StreamTimes | None = None
    late: Routes | None = None

    def __init__(
        self,
        placed: PlacedTopology,
        task: int,
        stream: str,
        declared: Stream,
        rng: np.random.Generator,
    ) -> None:
        component = placed.plan.component_of(task)
        self.component = component
        self.stream = stream
        self.fields = declared.fields
        self.direct = declared.direct
        self.subscriptions = placed.subscribers(component, stream)
        self.choosers: list[Chooser | None] = [
            self._chooser(placed, task, s, rng) for s in self.subscriptions
        ]
        self._steps = [self._steps_of(placed, task, s, declared) for s in self.subscriptions]
        is_of_malformed = stream == ERRORS_STREAM and (*self.fields[-3:],) == MALFORMED_FIELDS
        self.are_unread = is_of_malformed and not self.subscriptions
        self.runs_functions = any(s.through is not None for s in self.subscriptions)
        self._direct = [
            placed.plan.tasks(s.target) if s.grouping.type == "direct" else range(0)
            for s in self.subscriptions
        ]

    @staticmethod
    def _steps_of(
        placed: PlacedTopology, task: int, subscription: Subscription, declared: Stream
    ) -> InputSteps | None:
        if subscription.steps is None and subscription.through is None:
            return None
        function = None
        if subscription.through is not None:
            made = create_input_function(subscription.through, placed.code_folder)
            taken = selected(subscription.steps, declared).stream.fields
            made.prepare(taken[placed.kept_fields :])
            function = RowsFunction(made, task, placed.kept_fields)
        return InputSteps(subscription.steps, function)

    def _chooser(
        self,
        placed: PlacedTopology,
        task: int,
        subscription: Subscription,
        rng: np.random.Generator,
    ) -> Chooser | None:
        grouping = subscription.grouping
        if grouping.type == "direct":
            return None
        targets = list(placed.plan.tasks(subscription.target))
        worker = placed.plan.worker_of(task)
        custom = None
        if grouping.type == "custom":
            custom = create_grouping(grouping, placed.code_folder)
            context = context_of(placed, task, configuration_of(placed, task))
            custom.prepare(context, (subscription.source, subscription.stream), targets)
        return make_chooser(
            grouping.type,
            targets=targets,
            local=[t for t in targets if placed.plan.worker_of(t) == worker],
            fields=[subscription.fields.index(name) for name in grouping.fields],
            rng=rng,
            source_task=task,
            custom=custom,
        )

    def state(self) -> list[Any]:
        """The state of the groupings."""
        return [None if c is None else c.state() for c in self.choosers]

    def restore(self, state: Sequence[Any]) -> None:
        """Set what `state` gave. A topology whose inputs have changed starts its groupings anew."""
        if len(state) == len(self.choosers):
            for chooser, one in zip(self.choosers, state, strict=True):
                if chooser is not None and one is not None:
                    chooser.restore(one)

    def taken(self, k: int, emitted: TupleRows) -> Taken:
        """The rows that subscription number `k` takes of some emits."""
        steps = self._steps[k]
        return Taken(emitted) if steps is None else steps.take(emitted)

    def choose_now(self, row: Sequence[Any]) -> list[tuple[int, list[int]]]:
        """The tasks of an emit that must know them: (number of the subscription, task ids).

        Subscriptions are numbered as in `subscriptions`.
        """
        return [
            (k, [int(t) for t in choose_one(chooser, taken)])
            for k, chooser in enumerate(self.choosers)
            if chooser is not None
            for taken in self.taken(k, TupleRows([row])).rows
        ]

    def direct_to(self, task: int) -> list[tuple[int, list[int]]]:
        """The targets of a direct emit; empty if `task` does not subscribe."""
        return [(k, [task]) for k, tasks in enumerate(self._direct) if task in tasks]


def configuration_of(placed: PlacedTopology, task: int) -> Configuration:
    """The `config` of a task as it is in this process. Raises what `configured` does."""
    component = placed.plan.component_of(task)
    return configured(placed.topology, component, placed.code_folder)


def context_of(placed: PlacedTopology, task: int, configuration: Configuration) -> TopologyContext:
    """The context for the author's code of a task."""
    component = placed.plan.component_of(task)
    own = [s for s in placed.subscriptions if s.target == component]
    return TopologyContext(
        topology=placed.topology.metadata.name,
        component=component,
        task_id=task,
        task_index=task - placed.plan.tasks(component).start,
        worker=placed.plan.worker_of(task),
        config=configuration.config,
        options=configuration.options,
        component_tasks=placed.plan.component_tasks,
        streams=placed.streams,
        sources=tuple((s.source, s.stream) for s in own),
        selected={(s.source, s.stream): placed.received(s) for s in own if s.steps or s.through},
        max_spout_pending=placed.topology.spec.max_spout_pending,
        is_traced=placed.sampling is not None,
        first_names=placed.known_as,
    )
