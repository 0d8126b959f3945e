"""Which kind of task a component's class needs."""

from __future__ import annotations

from inspect import iscoroutinefunction

from fulmen.api.components import BasicBolt
from fulmen.api.components.arrow import ArrowBolt
from fulmen.api.components.sinks import Sink
from fulmen.api.transactions import BatchBolt
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.tasks.author.errors import ComponentFailed
from fulmen.engine.tasks.bolts.anchoring_bolt_task import AnchoringBoltTask
from fulmen.engine.tasks.bolts.arrow_bolt_task import ArrowBoltTask
from fulmen.engine.tasks.bolts.async_bolt_task import AsyncBasicBoltTask, AsyncBoltTask
from fulmen.engine.tasks.bolts.basic_bolt_task import BasicBoltTask
from fulmen.engine.tasks.bolts.sink_task import SinkTask
from fulmen.engine.tasks.spouts.spout_task import SpoutTask
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.transactional.batch_bolt_task import (
    BatchBoltTask,
    TransactionalBasicBoltTask,
)
from fulmen.engine.tasks.transactional.emitter_task import EmitterTask
from fulmen.engine.tasks.transactional.spout_parts import class_of
from fulmen.engine.tasks.transactional.transactional_sink_task import TransactionalSinkTask
from fulmen.errors import CodeError


def kind_of(placed: PlacedTopology, component: str) -> type[Task]:
    """The class that runs the tasks of a spout or a bolt.

    Raises:
        ComponentFailed: The class can't be loaded.
    """
    if component in placed.spouts:
        return SpoutTask
    if component in placed.emitters:
        return EmitterTask
    try:
        cls = class_of(placed.component(component), placed.code_folder)
    except CodeError as e:
        task = placed.plan.tasks(component).start
        raise ComponentFailed(ErrorReport(component, task, str(e), fatal=True)) from e
    if placed.emitters:
        if issubclass(cls, Sink):
            return TransactionalSinkTask
        return BatchBoltTask if issubclass(cls, BatchBolt) else TransactionalBasicBoltTask
    if issubclass(cls, Sink):
        return SinkTask
    if issubclass(cls, ArrowBolt):
        return ArrowBoltTask
    is_async = iscoroutinefunction(getattr(cls, "execute", None))
    if issubclass(cls, BasicBolt):
        return AsyncBasicBoltTask if is_async else BasicBoltTask
    return AsyncBoltTask if is_async else AnchoringBoltTask
