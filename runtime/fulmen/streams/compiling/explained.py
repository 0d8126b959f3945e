"""What became of calls, for people."""

from __future__ import annotations

from collections.abc import Sequence

from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.streams.graph.nodes import ComponentNode, Division
from fulmen.streams.rows.folding import RowSource


class ExplainedPipeline(str):
    """A text of several lines, which a prompt and a notebook show as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        """The text."""
        return str(self)


def explained(
    name: str, taps: Sequence[RowSource], grouping: Division | None, steps: Sequence[str],
    node: ComponentNode | None = None,
) -> list[str]:  # fmt: skip
    """The lines about a component.

    Args:
        name: Its name.
        taps: Where its rows come from.
        grouping: How they are divided.
        steps: What is done to them, or notes.
        node: The call that it stands for; None: several steps in one bolt.
    """
    lines = [f"{name}  {node.cls.__name__}  ({node.place})" if node else f"{name}  fused"]
    for tap in taps:
        stream = "" if tap.stream == DEFAULT_STREAM else f":{tap.stream}"
        how = grouping.method.removesuffix("_grouping").replace("_", "-") if grouping else ""
        of = f" {', '.join(grouping.fields)}" if grouping and grouping.fields else ""
        where = f" where {tap.where}" if tap.where else ""
        select = f" select {', '.join(tap.select)}" if tap.select else ""
        lines.append(f"  from {tap.component}{stream} by {how}{of}{where}{select}")
        if tap.ahead:
            lines.append(f"    in the tasks of {tap.component}, so that only what is left is sent:")
            lines += [f"    {step.words}  ({step.place})" for step in tap.ahead]
    return [*lines, *(f"  {step}" for step in steps)]
