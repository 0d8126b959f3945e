"""The streams of a component as those behind it get them, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fulmen.api import Component, Stream, output_streams
from fulmen.api.declarer import StreamTime
from fulmen.errors import DeclarationError, ValidationFailed
from fulmen.streams.graph.nodes import ComponentNode, Division
from fulmen.streams.rows.folding import WINDOW_LAST, RowSource
from fulmen.topology.configuration.options import CheckedOptions, check_options
from fulmen.topology.problems import Problem, did_you_mean, shown, there_are
from fulmen.windows import Aggregate, WindowJoin


def declared(node: ComponentNode, code: Any, config: Mapping[str, Any]) -> dict[str, Stream]:
    """The streams of a component, with their event times.

    Args:
        node: The component.
        code: Its class, or an object of it, which may be another than the call says.
        config: Its options.

    Raises:
        ValidationFailed: Its class is none, or declares nothing that can be.
    """
    cls, checked = _checked(node, code, config)
    options = checked.options or checked.mended
    if checked.problems and options is None and cls.config_model is not None:
        return {}
    try:
        streams = dict(output_streams(code, options))
    except DeclarationError as error:
        raise wrong(str(error), "") from error
    if "set_event_time" in node.says:
        (field,), more = node.says["set_event_time"]
        times = field if isinstance(field, Mapping) else {more.get("stream", "default"): field}
        for name, one in times.items():
            if name in streams:
                time = StreamTime(one, more.get("unit"), more.get("timezone", "UTC"))
                streams[name] = replace(streams[name], time=time)
    elif code in (Aggregate, WindowJoin):  # each row has a window_end
        streams["default"] = replace(streams["default"], time=StreamTime(WINDOW_LAST))
    return streams


def mistaken_options(node: ComponentNode) -> list[Problem]:
    """The mistakes in the options of a component whose input is not known.

    Raises:
        ValidationFailed: Its class is none.
    """
    if not node.is_sink:  # others may be configured by what they get
        return []
    _, checked = _checked(node, node.code, node.configure(()))
    return [Problem("", f"{node.place}: {one.message}", one.cure) for one in checked.problems]


def _checked(
    node: ComponentNode, code: Any, config: Mapping[str, Any]
) -> tuple[type[Component], CheckedOptions]:
    kind = "spout" if node.is_spout else "bolt"
    cls = code if isinstance(code, type) else type(code)
    if not issubclass(cls, Component):
        raise wrong(f"{shown(code)} is no {kind}", "Give its class, or an object of it.")
    return cls, check_options(cls, config, "", f"{kind} {node.name!r}")


def check_key(taps: Sequence[RowSource], grouping: Division) -> None:
    """Find fields of a grouping that rows don't have.

    Raises:
        ValidationFailed: There is one.
    """
    for tap in taps:
        for name in () if grouping.is_kept else grouping.fields:
            if name not in tap.received.fields:
                cure = did_you_mean(name, tap.received.fields) or there_are(tap.received.fields)
                raise wrong(f"the rows have no field {name!r}", cure)


def wrong(message: str, cure: str) -> ValidationFailed:
    """What is wrong with a node, whose place whoever catches it adds."""
    return ValidationFailed([Problem("", message, cure)])
