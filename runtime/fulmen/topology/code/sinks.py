"""What sinks ask of a topology: a guarantee that their class can keep, and inputs alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fulmen.api import Sink, Stream

GUARANTEE = "guarantee"


def guarantee_of(
    cls: type[Sink], options: Any, config: Mapping[str, Any], *, is_transactional: bool
) -> Any:
    """The guarantee that a sink is to keep.

    Args:
        cls: The sink's class.
        options: Its validated `config_model`; None if the class has none.
        config: Its `config`.
        is_transactional: Whether it is in a transactional topology, where the default is another.
    """
    return getattr(options, GUARANTEE, config.get(GUARANTEE, _default(cls, is_transactional)))


def with_guarantee(cls: type, config: dict[str, Any]) -> dict[str, Any]:
    """The `config` of a bolt of a transactional topology: a sink's guarantee is exactly-once."""
    known = getattr(getattr(cls, "config_model", None), "model_fields", ())
    if not issubclass(cls, Sink) or GUARANTEE not in known:
        return config
    return {GUARANTEE: _default(cls, is_transactional=True), **config}


def _default(cls: type[Sink], is_transactional: bool) -> str:
    is_exact = is_transactional and "exactly-once" in cls.guarantees
    return "exactly-once" if is_exact else cls.guarantees[0]


def without_attempt(stream: Stream) -> Stream:
    """What a sink gets of a stream of a transactional topology: all but the first field."""
    return replace(stream, fields=stream.fields[1:])


def with_attempt(stream: Stream) -> Stream:
    """What a sink declares as a stream of a transactional topology, where it has the attempt."""
    return replace(stream, fields=("tx", *stream.fields))


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
