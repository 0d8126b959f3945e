"""Steps that an input has: they run in the task that emits, ahead of the grouping. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from fulmen.api import Stream
from fulmen.streams.bolts.ahead import StepsAhead
from fulmen.streams.bolts.loops import StepsLoop, typed
from fulmen.streams.compiling.declared import wrong
from fulmen.streams.graph.nodes import (
    Config,
    GroupedNode,
    MergeNode,
    Node,
    StepNode,
    digest_of,
)
from fulmen.streams.rows.folding import RowSource, after


def fits(chain: Sequence[StepNode], sources: Sequence[RowSource], of_use: Collection[Node]) -> bool:
    """Whether steps run in the task that emits.

    They do for one input alone, else they would run for each; and where the author does not have
    rows divided in front of them.

    Args:
        chain: The steps, one after another.
        sources: Where their rows come from.
        of_use: All nodes that lead somewhere.
    """
    first, last = chain[0], chain[-1]
    before = first.parents[0]
    return not (
        isinstance(before, GroupedNode)
        or first.is_async
        or last.operator == "for_each"
        or _inputs_behind(last, of_use) != 1
        # of merged streams, functions get rows of the first one's class
        or any(one.ahead and one.ahead[-1].row is not before.row for one in sources)
    )


def _inputs_behind(node: Node, of_use: Collection[Node]) -> int:
    """How many inputs have the rows of a node."""
    behind = [one for one in of_use for parent in one.parents if parent is node]
    return sum(
        _inputs_behind(one, of_use) if isinstance(one, MergeNode | GroupedNode) else 1
        for one in behind
    )


def with_steps(chain: Sequence[StepNode], source: RowSource) -> RowSource:
    """Rows behind steps that the input has.

    Raises:
        ValidationFailed: A class has fields that the rows have not.
    """
    before = source.received if source.before is None else source.before
    steps = (*source.ahead, *chain)
    return replace(source, received=behind(steps, before), ahead=steps, before=before)


def apart(
    inputs: Sequence[Sequence[RowSource]], bolt_of: Callable[[RowSource], RowSource]
) -> list[list[RowSource]]:
    """Inputs of which no two have the same stream: a bolt of its own is a stream of its own."""
    counts = Counter((one.component, one.stream) for some in inputs for one in some)
    direct: set[tuple[str, str]] = set()

    def alone(one: RowSource) -> RowSource:
        place = one.component, one.stream
        if counts[place] > 1 and (one.ahead or place in direct):
            return bolt_of(one)
        direct.add(place)
        return one

    return [[alone(one) for one in some] for some in inputs]


def through(source: RowSource, pipeline: str) -> Config:
    """What an input says in the topology of its steps."""
    return {
        "class": f"{StepsAhead.__module__}.{StepsAhead.__name__}",
        "config": found_again(source.ahead, pipeline),
        "fields": list(source.received.fields),
        "types": dict(source.received.types),
    }


def found_again(steps: Sequence[StepNode], pipeline: str) -> Config:
    """What a worker needs to find the functions of steps."""
    names = [step.name for step in steps]
    return {"pipeline": pipeline, "steps": names, "digest": digest_of(steps)}


def behind(steps: Sequence[StepNode], stream: Stream) -> Stream:
    """The stream behind steps.

    Raises:
        ValidationFailed: A class has fields that the rows have not.
    """
    try:
        StepsLoop(steps, stream)
    except ValueError as error:
        raise wrong(str(error), "") from error
    for step in steps:
        if step.is_text:
            stream = after(stream, step.expressions(stream.fields)).stream
        else:
            stream = typed([step], stream)
    return stream
