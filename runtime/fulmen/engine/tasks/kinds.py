"""Which kind of task a component's class needs."""

from __future__ import annotations

from fulmen.api.components import ArrowBolt, BasicBolt
from fulmen.api.transactions import BatchBolt
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.tasks.arrow_bolt_task import ArrowBoltTask
from fulmen.engine.tasks.batch_bolt_task import BatchBoltTask, TransactionalBasicBoltTask
from fulmen.engine.tasks.bolt_task import AnchoringBoltTask, BasicBoltTask, BoltTask
from fulmen.engine.tasks.task_base import ComponentFailed
from fulmen.errors import CodeError
from fulmen.topology.code.loading import create, load_class


def kind_of_bolt(placed: PlacedTopology, task: int) -> type[BoltTask]:
    """What runs a task of a bolt, by the bolt's class.

    Args:
        placed: The topology.
        task: The id of the task.

    Raises:
        ComponentFailed: The class can't be loaded.
    """
    component = placed.plan.component_of(task)
    spec = placed.component(component)
    try:
        if spec.instance is None:
            cls = load_class(spec.class_, placed.code_folder)
        else:
            cls = type(create(spec, placed.code_folder))
    except CodeError as e:
        raise ComponentFailed(ErrorReport(component, task, str(e), fatal=True)) from e
    if placed.emitter is not None:
        return BatchBoltTask if issubclass(cls, BatchBolt) else TransactionalBasicBoltTask
    if issubclass(cls, ArrowBolt):
        return ArrowBoltTask
    return BasicBoltTask if issubclass(cls, BasicBolt) else AnchoringBoltTask
