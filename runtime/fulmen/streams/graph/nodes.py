"""What an author's calls say, before they become a topology. Pure.

Each call makes a node, which knows its place in the author's file. Nodes never change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any

from fulmen.errors import CodeError
from fulmen.streams.graph.places import AuthorLine
from fulmen.streams.rows.folding import RowSource, quoted
from fulmen.streams.rows.shapes import Shape

Config = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Division:
    """How rows are divided among tasks: a grouping.

    Attributes:
        method: The method of `BoltDeclarer`.
        fields: The fields of a fields grouping.
        is_kept: Whether it only keeps the order that rows have by key: without these fields, any
            other will do.
    """

    method: str = "local_or_shuffle_grouping"
    fields: tuple[str, ...] = ()
    is_kept: bool = False


LOCAL = Division()
ALL_TO_ONE = Division("global_grouping")


def by_fields(fields: Sequence[str], *, is_kept: bool = False) -> Division:
    """Rows with equal values of fields come to one task."""
    return Division("fields_grouping", tuple(fields), is_kept)


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One call of an author's.

    Attributes:
        graph: All nodes of the pipeline.
        parents: The nodes whose rows come here.
        place: Where it was called.
        name: Its name: of a component that of the topology, of a step one for people.
        row: The class of what functions get; None: rows with the fields as attributes.
    """

    graph: Graph
    parents: tuple[Node, ...] = ()
    place: AuthorLine
    name: str
    row: type | None = None

    def __post_init__(self) -> None:
        if isinstance(self, ComponentNode):
            self.graph.make_again(self.name, self.place, self.parents)
        self.graph.nodes.append(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class ComponentNode(Node):
    """A spout, bolt or sink.

    Attributes:
        code: Its class, or an object of it.
        says: What is called on its declarer: methods, each with its arguments.
        parallelism: The number of executors.
        groupings: How each parent's rows are divided.
        configure: Makes its `config` of what each parent gives.
        is_spout: Whether it is a source.
        is_sink: Whether nothing is behind it.
        is_derived: Whether its name follows from those of others.
        is_on_time: Whether it gives on the rows of its first parent before their watermark has
            passed them: a window behind it may go by their event time.
    """

    code: Any
    says: Mapping[str, tuple[tuple[Any, ...], Config]] = field(default_factory=dict)
    parallelism: int = 1
    groupings: tuple[Division, ...] = ()
    configure: Callable[[Sequence[Sequence[RowSource]]], Config] = lambda _: {}
    is_spout: bool = False
    is_sink: bool = False
    is_derived: bool = False
    is_on_time: bool = False

    @property
    def cls(self) -> type:
        """Its class."""
        return self.code if isinstance(self.code, type) else type(self.code)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldNode(ComponentNode):
    """A function that keeps something for each key.

    Attributes:
        function: The author's, of what is kept and a row.
        initial: What is kept before the first row; `UNSET`: the first row itself.
        shape: Of what is kept, and emitted behind the key.
    """

    function: Callable[..., Any]
    initial: Any = None
    shape: Shape | None = None


UNSET = object()


@dataclass(frozen=True, eq=False, kw_only=True)
class StepNode(Node):
    """What is done to one row at a time, without state.

    Attributes:
        operator: The author's word: filter, map, where and so on.
        functions: The author's functions; by the field that each gives, or "" for the only one.
        texts: Expressions of SQL; by the field that each gives, or "" for a condition.
        shape: What a function's results are; None: the step gives rows as it gets them.
    """

    operator: str
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    shape: Shape | None = None

    @property
    def is_text(self) -> bool:
        """Whether it needs no function."""
        return not self.functions and self.operator != "for_each"

    @property
    def is_async(self) -> bool:
        """Whether its function is async: then it has a bolt of its own."""
        return any(iscoroutinefunction(one) for one in self.functions.values())

    def expressions(self, fields: Sequence[str]) -> dict[str, str]:
        """Its expressions over rows with some fields; those that with_fields keeps among them."""
        if self.operator != "with_fields":
            return dict(self.texts)
        return {name: quoted(name) for name in fields} | dict(self.texts)

    @property
    def words(self) -> str:
        """The step for people."""
        named = [f"{name}=" if name else "" for name in (*self.functions, *self.texts)]
        what = [
            *(getattr(f, "__name__", type(f).__name__) for f in self.functions.values()),
            *(repr(text) for text in self.texts.values()),
        ]
        shown = ", ".join(f"{a}{b}" for a, b in zip(named, what, strict=True))
        return f"{self.operator}({shown})"


@dataclass(frozen=True, eq=False, kw_only=True)
class MergeNode(Node):
    """The rows of several streams that have the same fields."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SideNode(Node):
    """Another stream of a component or of a step: its errors, what is late."""

    stream: str


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupedNode(Node):
    """The same rows, divided in another way among the tasks of the next step."""

    grouping: Division
    parallelism: int | None = None


@dataclass(eq=False)
class Graph:
    """All nodes of a pipeline, in the order of the calls.

    Attributes:
        name: The topology's name.
        module: The module whose import makes the pipeline.
        scope: The names of that module; None: a function made the pipeline, so no import does.
        spec: Fields of the topology.
        shown: Nodes whose rows were printed, so that they are no loose ends.
        is_in_notebook: Whether no file makes it: cells of a notebook, or what is typed.
    """

    name: str
    module: str
    scope: Mapping[str, Any] | None
    spec: Mapping[str, Any] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    shown: list[Node] = field(default_factory=list)
    is_in_notebook: bool = False

    def make_again(self, name: str, place: AuthorLine, parents: Sequence[Node] = ()) -> None:
        """In a notebook, forget what a cell that runs again had made, and all that is behind it.

        Two of one name in one cell, or one that is made of the other, stay: that is a mistake.

        Args:
            name: Of the component or step that is made.
            place: Where.
            parents: What it is made of.
        """
        if not self.is_in_notebook:
            return
        gone: set[Node] = set()
        for node in self.nodes:
            is_named = node.name == name and isinstance(node, ComponentNode | StepNode)
            is_made_again = is_named and (node.place == place or node.place.file != place.file)
            if is_made_again or not gone.isdisjoint(node.parents):
                gone.add(node)
        if gone.isdisjoint(parents):
            self.nodes = [node for node in self.nodes if node not in gone]

    @property
    def key(self) -> str:
        """What the topology says for functions to be found: module and pipeline."""
        return f"{self.module}:{self.name}"

    def unique(self, name: str) -> str:
        """A name for a step, with a number if it is taken: nothing durable depends on it."""
        taken = {node.name for node in self.nodes}
        numbered = (f"{name}-{n}" for n in range(2, len(taken) + 3))
        return name if name not in taken else next(n for n in numbered if n not in taken)

    def steps(self, names: Sequence[str], digest: str) -> list[StepNode]:
        """The steps of these names.

        Raises:
            CodeError: What was built here is something else.
        """
        found = {node.name: node for node in self.nodes if isinstance(node, StepNode)}
        for name in names:
            if name not in found:
                message = f"pipeline {self.key!r} has no step {name!r} here: {list(found)}"
                raise CodeError(message, _SAME)
        steps = [found[name] for name in names]
        if digest_of(steps) != digest:
            message = f"pipeline {self.key!r}: steps {list(names)} are others here"
            raise CodeError(message, _SAME)
        return steps

    def component(self, name: str) -> ComponentNode:
        """The component of that name.

        Raises:
            CodeError: There is none.
        """
        for node in self.nodes:
            if isinstance(node, ComponentNode) and node.name == name:
                return node
        raise CodeError(f"pipeline {self.key!r} has no component {name!r} here", _SAME)


_SAME = (
    "The import of the module must build the same pipeline everywhere: it may not depend on the"
    " environment, on arguments of the command or on the order of a set."
)


def digest_of(steps: Sequence[StepNode]) -> str:
    """What tells steps from others, but for what functions do."""
    said = [
        (s.name, s.operator, [*s.functions], [*s.texts.items()], s.shape and s.shape.fields)
        for s in steps
    ]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]
