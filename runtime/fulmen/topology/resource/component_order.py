"""The order of a topology's components, who follows whom, and cycles: as plain names."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter


def find_cycle(sources: Mapping[str, Iterable[str]]) -> list[str]:
    """The components of one cycle in the direction of the tuples, the first again as the last.

    Args:
        sources: Component -> the components that it receives from.

    Returns:
        An empty list if there is no cycle.
    """
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]  # each is a source of the next
        start = cycle.index(min(cycle))
        return [*cycle[start:-1], *cycle[:start], cycle[start]]
    return []


def find_cycles(sources: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Cycles until none is left: of those that share a component, the first that is found."""
    rest = {name: list(inputs) for name, inputs in sources.items()}
    cycles = []
    while cycle := find_cycle(rest):
        cycles.append(cycle)
        rest = {
            name: [source for source in inputs if source not in cycle]
            for name, inputs in rest.items()
            if name not in cycle
        }
    return cycles


def depth_order(sources: Mapping[str, Iterable[str]]) -> list[str]:
    """All components, each after its sources; else in the order of `sources`.

    Raises:
        ValueError: There is a cycle.
    """
    depths: dict[str, int] = {}
    try:
        for name in TopologicalSorter(sources).static_order():
            depths[name] = 1 + max((depths[source] for source in sources[name]), default=-1)
    except CycleError as error:
        raise ValueError(f"a cycle: {' -> '.join(find_cycle(sources))}") from error
    return sorted(sources, key=lambda name: depths[name])


def with_followers(some: Iterable[str], sources: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """These components, and all that receive from them, directly or through others.

    Args:
        some: The components to begin with.
        sources: Component -> the components that it receives from. There is no cycle.
    """
    found = set(some)
    for name in depth_order(sources):
        if found.intersection(sources[name]):
            found.add(name)
    return frozenset(found)
