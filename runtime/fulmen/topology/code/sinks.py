"""What sinks ask of a topology: a guarantee that their class can keep, and inputs alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fulmen.api import Sink, Stream

GUARANTEE = "guarantee"


def no_guarantee(cls: type[Sink], chosen: Any) -> str:
    """What is wrong about a guarantee that a class can't keep."""
    kept = " or ".join(cls.guarantees)
    return f"guarantee {chosen!r} is not what {cls.__name__} can keep: {kept}"


def takes_any_stream(options: Any, config: Mapping[str, Any]) -> bool:
    """Whether a sink's inputs may have different fields.

    Args:
        options: Its validated `config_model`; None if the class has none.
        config: Its `config`.
    """
    return bool(getattr(options, "any_stream", config.get("anyStream", False)))


def unlike_inputs(inputs: Mapping[str, Stream]) -> Iterator[str]:
    """What is wrong about the fields that a sink gets.

    Args:
        inputs: What it receives, by the name of where it comes from.
    """
    first, fields = "", frozenset[str]()
    for name, stream in inputs.items():
        if not first:
            first, fields = name, frozenset(stream.fields)
        elif fields != frozenset(stream.fields):
            yield (
                f"a sink gets the same fields from all inputs, but {first} has {sorted(fields)},"
                f" and {name} has {sorted(stream.fields)}: with anyStream: true it takes both"
            )
