"""Storm's numbering of tasks, and its division of them into executors."""

from collections.abc import Mapping
from itertools import chain

from fulmen.plan.model import Executor
from fulmen.topology.resource.spec import ACKER, Topology


def integer_divided(total: int, pieces: int) -> dict[int, int]:
    """Divide into pieces as even as whole numbers can be: 10 in 4 is {2: 2, 3: 2}."""
    base, bigger = divmod(total, pieces)
    sizes = {base: pieces - bigger}
    if bigger:
        sizes[base + 1] = bigger
    return sizes


def number_tasks(counts: Mapping[str, int]) -> dict[str, range]:
    """The task ids of each component: sorted by name, numbered from 1."""
    numbered, first = {}, 1
    for name in sorted(counts):
        numbered[name] = range(first, first + counts[name])
        first += counts[name]
    return numbered


def divide(component: str, tasks: range, executors: int) -> list[Executor]:
    """The executors of a component: consecutive tasks, bigger chunks first, none without a task."""
    if not tasks:
        return []
    sizes = integer_divided(len(tasks), executors)
    chunks = chain.from_iterable([size] * sizes[size] for size in sorted(sizes, reverse=True))
    divided, first = [], tasks.start
    for size in chunks:
        if size:
            divided.append(Executor(component, first, first + size - 1))
            first += size
    return divided


def executors_of(topology: Topology) -> list[Executor]:
    """List all executors of a topology, those of `__acker` among them, by ascending task ids."""
    spec = topology.spec
    tasks = {component.name: component.tasks for component in spec.components}
    executors = {component.name: component.executors for component in spec.components}
    if spec.acker_tasks:
        tasks[ACKER] = executors[ACKER] = spec.acker_tasks
    numbered = number_tasks(tasks)
    return [e for name in numbered for e in divide(name, numbered[name], executors[name])]
