"""Steps without state, and groupings: their nodes, as far as these follow from a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fulmen.streams.calls.words import checked, refusal, with_arguments
from fulmen.streams.graph.nodes import Division, GroupedNode, MergeNode, Node, SideNode, StepNode
from fulmen.streams.graph.places import author
from fulmen.streams.rows.shapes import Shape, fields_of, result_class

Fields = str | Sequence[str]
Function = Callable[..., Any]


def of_function(
    parent: Node, operator: str, function: Function, args: tuple[Any, ...], name: str | None
) -> StepNode:
    """A step that gives rows as it gets them: filter, peek, for_each."""
    functions = {"": with_arguments(checked(operator, function), args)}
    return _step(parent, operator, name, functions=functions, row=parent.row)


def of_texts(
    parent: Node, operator: str, texts: Mapping[str, Any], name: str | None, row: type | None
) -> StepNode:
    """A step of expressions.

    Raises:
        ValidationFailed: One is no text.
    """
    for text in texts.values():
        if not isinstance(text, str):
            cure = "Write filter for a function." if operator == "where" else ""
            raise refusal(f"{operator} takes expressions of SQL, and not {text!r}", cure)
    return _step(parent, operator, name, texts=dict(texts), row=row)


def of_results(
    parent: Node, operator: str, function: Function, args: tuple[Any, ...], fields: Fields | None,
    name: str | None,
) -> StepNode:  # fmt: skip
    """A step whose function makes new rows: map, flat_map.

    Raises:
        ValidationFailed: Their fields are not known.
    """
    checked(operator, function)
    shape = shape_of(operator, function, fields, of_many=operator == "flat_map")
    functions = {"": with_arguments(function, args)}
    return _step(parent, operator, name, functions=functions, shape=shape, row=shape.cls)


def shape_of(
    operator: str, function: Function, fields: Fields | None, *, of_many: bool = False
) -> Shape:
    """What a function's results are: by `fields`, or by its annotation.

    Raises:
        ValidationFailed: That is not known.
    """
    if fields is not None:
        return Shape(
            [fields] if isinstance(fields, str) else fields, is_one=isinstance(fields, str)
        )
    cls = result_class(function, of_many=of_many)
    if isinstance(function, type) and fields_of(function):
        cls = function
    found = fields_of(cls)
    if found is None:
        raise refusal(
            f"{operator} needs the fields of the new rows",
            'Add fields=["user", "amount"], or a function whose annotation says that it returns'
            " a NamedTuple or dataclass.",
        )
    return Shape(found, cls)


def with_fields(parent: Node, given: Mapping[str, Any], row: type | None) -> StepNode:
    """A step that adds fields, by functions or by expressions.

    Raises:
        ValidationFailed: There are some of both.
    """
    functions = {name: one for name, one in given.items() if not isinstance(one, str)}
    texts = {name: one for name, one in given.items() if isinstance(one, str)}
    if functions and texts:
        raise refusal(
            f"with_fields has texts {list(texts)} and functions {list(functions)}",
            "Write two with_fields: the second one sees the fields of the first.",
        )
    if not functions:
        return of_texts(parent, "with_fields", texts, None, row)
    for one in functions.values():
        checked("with_fields", one)
    return _step(parent, "with_fields", None, functions=functions, row=row)


def grouped(parent: Node, grouping: Division, parallelism: int | None = None) -> GroupedNode:
    """The same rows, divided in another way."""
    return GroupedNode(
        graph=parent.graph, place=author()[0], parents=(parent,), row=parent.row,
        name=parent.graph.unique("grouped"), grouping=grouping, parallelism=parallelism,
    )  # fmt: skip


def merged(parents: Sequence[Node]) -> MergeNode:
    """The rows of several streams, with the class of the first one's."""
    first = parents[0]
    return MergeNode(
        graph=first.graph, place=author()[0], parents=tuple(parents), row=first.row,
        name=first.graph.unique("merge"),
    )  # fmt: skip


def side(parent: Node, stream: str) -> SideNode:
    """Another stream of the same component or step."""
    return SideNode(
        graph=parent.graph, place=author()[0], parents=(parent,), stream=stream,
        name=f"{parent.name}:{stream}",
    )  # fmt: skip


def _step(parent: Node, operator: str, name: str | None, **said: Any) -> StepNode:
    graph, place = parent.graph, author()[0]
    if name is not None:
        graph.make_again(name, place, [parent])
    if name is not None and name in [node.name for node in graph.nodes]:
        raise refusal(f"there is a {name!r} already", "Give the step another name.")
    return StepNode(
        graph=graph, parents=(parent,), place=place,
        name=name or graph.unique(f"{parent.name}.{operator}"), operator=operator, **said,
    )  # fmt: skip
