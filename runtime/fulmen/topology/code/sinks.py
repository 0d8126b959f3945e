"""Requirements of sinks: a guarantee that their class can keep, and inputs with equal fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fulmen.api import Sink, Stream

GUARANTEE = "guarantee"


def guarantee_of(
    cls: type[Sink], options: Any, config: Mapping[str, Any], *, is_transactional: bool
) -> Any:
    """The guarantee of a sink.

    Args:
        cls: The sink's class.
        options: Its validated `config_model`; None if the class has none.
        config: Its `config`.
        is_transactional: Whether its topology is transactional, which has another default.
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
    """The stream as a sink of a transactional topology gets it: without the first field."""
    return replace(stream, fields=stream.fields[1:])


def with_attempt(stream: Stream) -> Stream:
    """The stream that a sink declares in a transactional topology: with the attempt first."""
    return replace(stream, fields=("tx", *stream.fields))


def no_guarantee(cls: type[Sink], chosen: Any) -> str:
    """The message about a guarantee that a class can't keep."""
    kept = " or ".join(cls.guarantees)
    return f"guarantee {chosen!r} is not what {cls.__name__} can keep: {kept}"


def takes_any_stream(options: Any, config: Mapping[str, Any]) -> bool:
    """Whether a sink's inputs may have different fields. `options`: None if the class has none."""
    return bool(getattr(options, "any_stream", config.get("anyStream", False)))


def unlike_inputs(inputs: Mapping[str, Stream]) -> Iterator[str]:
    """Find inputs of a sink with different fields. `inputs`: by the name of their source."""
    first, fields = "", frozenset[str]()
    for name, stream in inputs.items():
        if not first:
            first, fields = name, frozenset(stream.fields)
        elif fields != frozenset(stream.fields):
            yield (
                f"a sink gets the same fields from all inputs, but {first} has {sorted(fields)},"
                f" and {name} has {sorted(stream.fields)}: with anyStream: true it takes both"
            )
