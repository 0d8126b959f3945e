"""Mistakes in `spec.autoscale`."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from fulmen.topology.problems import Problem
from fulmen.topology.reading.partial_document import ComponentPart
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.resource.spec.autoscale import Autoscale
from fulmen.topology.validation.classes.event_times import time_zone

_FIELD = "autoscale"
_PATH = f"spec.{_FIELD}"


def autoscaling(
    spec: TopologySpec,
    wrong: Collection[str],
    parts: Sequence[ComponentPart],
    checkpoint_tasks: Mapping[str, int],
) -> Iterator[Problem]:
    """Numbers of workers that contradict each other, or the rest of the topology.

    Args:
        spec: The spec without its components.
        wrong: The fields that are wrong by themselves.
        parts: The components.
        checkpoint_tasks: The number of tasks of each component that has a checkpoint.
    """
    scale = spec.autoscale
    if scale is None:
        return
    if f"{_FIELD}.maxWorkers" not in wrong:
        yield from _most(spec, scale)
        yield from _beyond_tasks(scale.max_workers, parts, checkpoint_tasks)
    if not scale.max_lag_seconds:
        message = "a maxLag of 0 is never kept, as every message waits a little"
        yield Problem(f"{_PATH}.maxLag", message, "Write one such as 30s.")
    yield from _schedule(scale)


def _most(spec: TopologySpec, scale: Autoscale) -> Iterator[Problem]:
    """Numbers that contradict maxWorkers."""
    most = scale.max_workers
    if scale.min_workers > most:
        message = f"minWorkers is {scale.min_workers}, but maxWorkers is {most}"
        yield Problem(f"{_PATH}.minWorkers", message, f"Write at most {most}.")
    if spec.workers > most:
        message = f"workers is {spec.workers}, but maxWorkers is {most}: it begins with {most}"
        yield Problem("spec.workers", message, "", "warning")
    if spec.is_single_pod and most > spec.slots:
        message = (
            f"maxWorkers is {most}, but deployment: single-pod has room for slots: {spec.slots}"
        )
        yield Problem(f"{_PATH}.maxWorkers", message, f"Write slots: {most}.")


def _beyond_tasks(
    most: int, parts: Sequence[ComponentPart], checkpoint_tasks: Mapping[str, int]
) -> Iterator[Problem]:
    """More workers than there are tasks."""
    models = [part.model for part in parts if part.model is not None]
    tasks = sum(m.num_tasks or checkpoint_tasks.get(m.name, m.tasks) for m in models)
    if most > tasks and len(models) == len(parts):
        message = (
            f"maxWorkers is {most}, but all components together have {tasks} tasks: the other"
            " workers would host nothing"
        )
        cure = f"Write maxWorkers: {tasks}, or give components a larger numTasks."
        yield Problem(f"{_PATH}.maxWorkers", message, cure)


def _schedule(scale: Autoscale) -> Iterator[Problem]:
    for number, hours in enumerate(scale.schedule):
        path = f"{_PATH}.schedule[{number}]"
        if hours.min_workers > scale.max_workers:
            message = f"minWorkers is {hours.min_workers}, but maxWorkers is {scale.max_workers}"
            yield Problem(f"{path}.minWorkers", message, f"Write at most {scale.max_workers}.")
        if hours.start == hours.end:
            message = f"the hours begin and end at {hours.end}"
            cure = "Write another time; for all hours, write minWorkers of autoscale."
            yield Problem(f"{path}.end", message, cure)
        yield from time_zone(f"{path}.timezone", "", hours.timezone)
