"""The stream `errors`: what Fulmen's own code emits there has to fit what an author declares."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isabstract
from typing import Any

from fulmen.api import Sink, Stream, output_streams
from fulmen.api.components.sinks import ERRORS_STREAM

_CONNECTORS = "fulmen.connectors."


def mistaken_errors(
    cls: type, streams: Mapping[str, Stream], options: Any
) -> tuple[str, str] | None:
    """Check the stream `errors` that a class declares: (message, cure), or None.

    Without this, a mistake shows only at the first refused tuple, which may take months.

    Args:
        cls: A class of an author's, maybe derived from one of Fulmen's.
        streams: The streams that it declares.
        options: Its validated `config_model`; None if it has none.
    """
    declared, emitted = streams.get(ERRORS_STREAM), _emitted(cls, options)
    if declared is None or emitted is None:
        return None
    if len(declared.fields) == len(emitted) and not declared.direct:
        return None
    what = "as direct" if declared.direct else f"with the fields {list(declared.fields)}"
    message = f"it declares stream {ERRORS_STREAM!r} {what}, but emits {list(emitted)} on it"
    return message, f"Declare it with {list(emitted)}, or with as many names of your own."


def _emitted(cls: type, options: Any) -> tuple[str, ...] | None:
    """The fields that code of Fulmen's emits on `errors` for a class; None: it emits nothing."""
    if issubclass(cls, Sink):
        return tuple(Sink.outputs[ERRORS_STREAM])
    for base in cls.__mro__:
        if base.__module__.startswith(_CONNECTORS) and not isabstract(base):
            stream = None if base is cls else output_streams(base, options).get(ERRORS_STREAM)
            return None if stream is None else stream.fields
    return None
