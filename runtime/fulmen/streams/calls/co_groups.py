"""Rows of two streams by key and window, each side as a list: steps in front of one window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fulmen.streams.calls import components, steps
from fulmen.streams.calls.components import Keys
from fulmen.streams.calls.words import refusal
from fulmen.streams.graph.nodes import ComponentNode, Config, Node
from fulmen.streams.rows.shapes import mapping_of
from fulmen.windows import Aggregate

SIDES = ("left", "right")


def co_group(
    left: Node, right: Node, on: Keys, window: Config, name: str | None, parallelism: int,
    options: Config,
) -> ComponentNode:  # fmt: skip
    """Lists of the rows of both streams, for each key and window.

    Raises:
        ValidationFailed: It is not known which field has the event time, and the clock is not it.
    """
    pairs = on if isinstance(on, Mapping) else {n: n for n in ([on] if isinstance(on, str) else on)}
    is_by_clock = options.get("by") == "clock"
    time = None if is_by_clock else options.get("time") or _time_of(left)
    if time is None and not is_by_clock:
        raise refusal(
            "co_group needs the event time of the rows",
            'Give it: event_time="at" of the source, or time="at" here: a field of both streams.'
            ' For windows by the clock: by="clock".',
        )
    front = [*pairs] if time is None or time in pairs else [*pairs, time]
    fields = [*front, *SIDES]
    sides = [
        steps.of_results(of, "map", _packed(names, time, side), (), fields, None)
        for of, names, side in ((left, [*pairs], 0), (right, [*pairs.values()], 1))
    ]
    kept = {side: f"list({side})" for side in SIDES}
    derived = f"{components.origin(left)}-co-group-{components.origin(right)}"
    of = steps.merged(sides)
    more = {"window": window, **options}
    return components.windowed(of, [*pairs], more, kept, name or derived, parallelism)


def _packed(key: Sequence[str], time: str | None, side: int) -> Callable[[Any], list[Any]]:
    """A function that makes a row of key, any time and the whole row in the list of its side."""

    def packed(row: Any) -> list[Any]:
        values = mapping_of(row)
        front = [values[name] for name in key]
        if time is not None and time not in key:
            front.append(values[time])
        return [*front, None, values] if side else [*front, values, None]

    return packed


def _time_of(node: Node) -> str | None:
    """The field with the event time, as the component in front has it."""
    while not isinstance(node, ComponentNode) and node.parents:
        node = node.parents[0]
    if not isinstance(node, ComponentNode):
        return None
    if node.cls is Aggregate:
        return "window_end"
    arguments, _ = node.says.get("set_event_time", ((None,), {}))
    return arguments[0] if isinstance(arguments[0], str) else None
