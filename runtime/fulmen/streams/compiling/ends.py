"""Which nodes of a pipeline matter, and what is said of the others."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from fulmen.streams.graph.nodes import ComponentNode, Graph, MergeNode, Node, StepNode


def live(graph: Graph, only: ComponentNode | None) -> set[Node]:
    """Components, what ends in a function, and all that is in front of them; or of `only`."""
    ends = [n for n in graph.nodes if isinstance(n, ComponentNode) or is_end(n)]
    return with_parents(graph, [only] if only else ends)


def with_parents(graph: Graph, ends: Iterable[Node]) -> set[Node]:
    """These nodes, and all that is in front of them."""
    found = set(ends)
    for node in reversed(graph.nodes):
        if node in found:
            found |= set(node.parents)
    return found


def is_end(node: Node) -> bool:
    """Whether nothing is behind a step."""
    return isinstance(node, StepNode) and node.operator == "for_each"


def warn(graph: Graph, among: set[Node]) -> None:
    """Warn of loose ends, and of names that other steps may change, at the author's lines.

    Args:
        graph: The pipeline.
        among: The nodes whose rows arrive somewhere.
    """
    for node in graph.nodes:
        text = ""
        if node not in among and not graph.is_in_notebook:  # where one tries
            text = f"nothing is behind {node.name!r}: no sink gets its rows"
        elif isinstance(node, ComponentNode) and node.is_derived and not is_stable(node):
            text = (
                f"{node.name!r} has a name that follows from a derived one or from a merge, so"
                f" other steps may change it, and its state would stay behind. Give"
                f" name={node.name!r}"
            )
        if text:
            warnings.warn_explicit(text, UserWarning, node.place.file, node.place.line)


def is_stable(node: ComponentNode) -> bool:
    """Whether a derived name follows from names that were given, and from the step itself."""
    todo = list(node.parents)
    while todo:
        one = todo.pop()
        if isinstance(one, MergeNode) or (isinstance(one, ComponentNode) and one.is_derived):
            return False
        todo += () if isinstance(one, ComponentNode) else one.parents
    return True
