"""The reasons why more workers would not help. Pure."""

from typing import Final

from fulmen.topology.resource.spec.autoscale import ScalingReason
from fulmen.topology.resource.status import AutoscaleStatus
from fulmen_operator.reconcile.scaling.forecast import Limit
from fulmen_operator.reconcile.scaling.scene import Scene

LATE: Final = 0.7
"""While messages wait too long, workers count as too few from this share of the target on: batches
also take time that is no work."""
MOST_LEAP: Final = 2
"""The largest factor by which the number of workers grows at once: forecasts may be wrong."""
GAIN: Final = 0.9
"""More workers are worth a rebalance if batches take at most that share of the time."""


def limited(scene: Scene, before: AutoscaleStatus) -> tuple[ScalingReason, str] | None:
    """Why more workers would not help, if so."""
    forecast, most = scene.forecast, scene.scale.max_workers
    if forecast.now <= LATE * scene.scale.target_capacity:
        message = f"{scene.why}, but batches have time: more workers would not make them faster"
        return ScalingReason.WORKERS_ARE_NOT_THE_LIMIT, message
    if before.most.workers and before.workers >= before.most.workers:
        return _no_faster(scene, before)
    if before.workers < most and forecast.at(most) <= GAIN * forecast.now:
        return None
    if forecast.at(MOST_LEAP * most) > GAIN * forecast.now:
        return _bottleneck(scene, MOST_LEAP * most)
    return ScalingReason.AT_MAXIMUM, f"{scene.why}, and maxWorkers is {most}"


def _no_faster(scene: Scene, before: AutoscaleStatus) -> tuple[ScalingReason, str]:
    if scene.is_starved:
        reason, cause = ScalingReason.NODES_ARE_FULL, ", as they have too little of a processor"
    else:
        reason = ScalingReason.NO_FASTER
        cause = ", as they wait for something outside" if scene.waits else ""
    message = (
        f"{scene.why}, but more than {before.most.workers} workers were no faster{cause}. They"
        f" are tried again after {before.most.until}"
    )
    return reason, message


def _bottleneck(scene: Scene, workers: int) -> tuple[ScalingReason, str]:
    found = scene.forecast.bottleneck(workers)
    if found is None:
        message = f"{scene.why}, but no component can be divided among more workers"
        return ScalingReason.WORKERS_ARE_NOT_THE_LIMIT, message
    limit, part = found
    match limit:
        case Limit.HOT_TASK:
            message = (
                f"{scene.why}, but one task of {part.name!r} has much more to do than the others,"
                " and a task is on one worker. If it is for a key that comes more often than"
                " others: group by more fields, or use partial-key"
            )
            return ScalingReason.HOT_KEY, message
        case Limit.SOURCE:
            message = (
                f"{scene.why}, but only {part.active} of {part.tasks} tasks of {part.name!r} have"
                " something to emit: its source has no more parts, such as partitions"
            )
            return ScalingReason.SOURCE_IS_THE_LIMIT, message
        case Limit.TASKS:
            message = (
                f"{scene.why}, but also with {workers} workers one would have"
                f" {scene.forecast.tasks_on(part, workers)} of the {part.tasks} tasks of"
                f" {part.name!r}. Give it a larger numTasks"
            )
            return ScalingReason.TASKS_ARE_THE_LIMIT, message
