"""A topology with another number of workers than its spec begins with."""

from typing import TypeVar

from fulmen.topology.resource.spec import ComponentSpec, Topology

C = TypeVar("C", bound=ComponentSpec)


def executors_on(workers: int, parallelism: int, tasks: int) -> int:
    """How many executors a component has: as many on each worker, and none without a task."""
    return min(tasks, workers * -(-parallelism // workers))


def scaled(topology: Topology, workers: int | None) -> Topology:
    """The topology with so many workers, and executors for them.

    Args:
        topology: With `parallelism` as its author wrote it. The numbers of tasks stay.
        workers: None: as many as the topology says, which then is left as it is.
    """
    if workers is None:
        return topology

    def spread(component: C) -> C:
        tasks = component.tasks
        executors = executors_on(workers, component.parallelism, tasks)
        return component.model_copy(update={"num_tasks": tasks, "parallelism": executors})

    spec = topology.spec
    update = {
        "workers": workers,
        "spouts": tuple(map(spread, spec.spouts)),
        "transactional": tuple(map(spread, spec.transactional)),
        "bolts": tuple(map(spread, spec.bolts)),
    }
    return topology.model_copy(update={"spec": spec.model_copy(update=update)})
