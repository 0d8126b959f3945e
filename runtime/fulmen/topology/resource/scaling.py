"""A topology with another number of workers than its spec begins with."""

from typing import Any

from fulmen.topology.resource.spec import ComponentSpec, Topology


def executors_on(workers: int, parallelism: int, tasks: int) -> int:
    """The number of executors of a component: as many on each worker, and none without a task."""
    return min(tasks, workers * -(-parallelism // workers))


def scaled(topology: Topology, workers: int | None) -> Topology:
    """The topology with so many workers, and executors for them.

    Args:
        topology: With `parallelism` as its author wrote it. The numbers of tasks stay.
        workers: None: the topology is left as it is.
    """
    if workers is None:
        return topology

    def spread(component: ComponentSpec) -> dict[str, Any]:
        tasks = component.tasks
        executors = executors_on(workers, component.parallelism, tasks)
        return {"num_tasks": tasks, "parallelism": executors}

    return topology.with_each(spread, workers=workers)
