"""The components that a pipeline has come to so far: their names, lines and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fulmen.streams.compiling import ahead
from fulmen.streams.compiling.declared import wrong
from fulmen.streams.graph.nodes import LOCAL, ComponentNode, Division, Graph, StepNode
from fulmen.streams.graph.places import AuthorLine
from fulmen.streams.rows.folding import RowSource
from fulmen.topology.builder import BoltDeclarer, TopologyBuilder
from fulmen.topology.problems import Problem


class DeclaredComponents:
    """Declares the components of a pipeline.

    Attributes:
        builder: What they are declared to.
        places: Component -> the author's line that it comes of.
    """

    def __init__(self, graph: Graph, builder: TopologyBuilder) -> None:
        self._graph, self.builder = graph, builder
        self.places: dict[str, AuthorLine] = {}
        self._spouts: list[str] = []
        self._bolts: list[str] = []

    def check_name(self, node: ComponentNode) -> None:
        """See that the name of a component is free.

        Raises:
            ValidationFailed: Another component has it.
        """
        if node.name in self.places:
            cure = "Give name= to one of them." if node.is_derived else "Choose another."
            raise wrong(f"the name is taken, at {self.places[node.name]}", cure)

    def name_of_steps(self, tap: RowSource, chain: Sequence[StepNode]) -> str:
        """A free name for a bolt of steps behind a source of rows."""
        of_input = [word for word in ("where", "select") if getattr(tap, word)] or ["again"]
        words = dict.fromkeys(step.operator.replace("_", "-") for step in chain) or of_input
        name = "-".join([tap.component, *words])
        name, taken = name[:60], {node.name for node in self._graph.nodes} | {*self._bolts}
        numbered = (f"{name}-{n}" for n in range(2, 1000))
        return name if name not in taken else next(n for n in numbered if n not in taken)

    def component(self, node: ComponentNode, code: Any) -> Any:
        """Declare a component of the author's."""
        set_component = self.builder.set_spout if node.is_spout else self.builder.set_bolt
        declarer = set_component(node.name, code, node.parallelism)
        (self._spouts if node.is_spout else self._bolts).append(node.name)
        self.places[node.name] = node.place
        return declarer

    def steps(self, name: str, code: Any, parallelism: int, place: AuthorLine) -> BoltDeclarer:
        """Declare a bolt of steps."""
        self._bolts.append(name)
        self.places[name] = place
        return self.builder.set_bolt(name, code, parallelism)

    def subscribe(self, declarer: BoltDeclarer, tap: RowSource, grouping: Division) -> None:
        """Declare an input: rows, what is done to them ahead of it, and how they are divided."""
        if grouping.is_kept and not {*grouping.fields} <= {*tap.received.fields}:
            grouping = LOCAL
        fields = [list(grouping.fields)] if grouping.fields else []
        getattr(declarer, grouping.method)(tap.component, *fields, stream=tap.stream)
        if tap.where is not None:
            declarer.where(tap.where)
        if tap.select is not None:
            declarer.select(tap.select)
        if tap.ahead:
            declarer.through(ahead.through(tap, self._graph.key))

    def with_place(self, problem: Problem) -> Problem:
        """With the line of the component that a problem is about."""
        for section, names in (
            ("spouts", self._spouts),
            ("transactional", self._spouts),
            ("bolts", self._bolts),
        ):
            for number, name in enumerate(names):
                if problem.path.startswith(f"spec.{section}[{number}]"):
                    message = f"{self.places[name]}: {problem.message}"
                    return replace(problem, message=message)
        return problem
