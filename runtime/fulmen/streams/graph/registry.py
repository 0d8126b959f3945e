"""The pipelines of this process, by the modules whose import makes them.

A worker that imports the author's module makes the same nodes again: so a function is found by the
name of its step, and never pickled.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from fulmen.errors import CodeError, ValidationFailed
from fulmen.streams.graph.nodes import ComponentNode, Graph
from fulmen.streams.graph.places import AuthorLine, author, building_module
from fulmen.topology.code.loading import load_named
from fulmen.topology.problems import Problem

_graphs: dict[str, Graph] = {}


def new_graph(name: str, spec: Mapping[str, Any]) -> Graph:
    """A pipeline, to be found by its module and name.

    Raises:
        ValidationFailed: The module has a pipeline of that name already.
    """
    place, frame = author()
    module, scope = building_module(frame)
    names = frame.f_globals
    is_typed = names.get("__name__") == "__main__" and "__file__" not in names
    graph = Graph(name, module, scope, spec, is_in_notebook=is_typed)
    known = _graphs.get(graph.key)
    if known is not None and scope is not None and known.scope is scope:
        message = f"{place}: the module {module!r} has two pipelines {name!r}"
        raise ValidationFailed([Problem("", message, "Give one of them another name.")])
    _graphs[graph.key] = graph
    return graph


def find_graph(key: str) -> Graph:
    """The pipeline `module:name`; its module is imported if need be.

    Raises:
        CodeError: The import fails, or builds no such pipeline.
    """
    module = key.partition(":")[0]
    found = _graphs.get(key)
    if found is None or (found.scope is not None and not _is_loaded(module, found.scope)):
        load_named(f"{module}.__name__")
        found = _graphs.get(key)
    if found is None:
        built = [name for name in _graphs if name.startswith(f"{module}:")]
        raise CodeError(
            f"the import of module {module!r} builds no pipeline {key!r}: {built or 'none'}",
            "Write Streams(...) and its steps at module level, not behind if __name__ or in a"
            " function that nobody calls during the import.",
        )
    return found


def place_of(topology: str, component: str) -> AuthorLine | None:
    """Where a component of a topology was written, if a pipeline of this process has it."""
    for graph in _graphs.values():
        if graph.name == topology:
            for node in graph.nodes:
                if isinstance(node, ComponentNode) and node.name == component:
                    return node.place
    return None


def _is_loaded(module: str, scope: Mapping[str, Any]) -> bool:
    return getattr(sys.modules.get(module), "__dict__", None) is scope
