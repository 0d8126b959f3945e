"""The stream that a bolt gets from an input."""

from __future__ import annotations

from fulmen.api.declarer import Stream
from fulmen.expressions.selection import ANY_FIELDS, selected
from fulmen.expressions.steps import Steps
from fulmen.topology.resource.spec import Through


def received(stream: Stream, steps: Steps | None, through: Through | None, kept: int = 0) -> Stream:
    """What `where`, `select` and `through` of an input make of a stream.

    Args:
        stream: The stream that is subscribed to.
        steps: Its `where` and `select`; None: there are none.
        through: Its `through`.
        kept: How many of the first fields the input keeps by itself.
    """
    taken = selected(steps, stream).stream
    if through is None or stream is ANY_FIELDS:
        return taken
    time = taken.time if taken.time and taken.time.field in through.fields else None
    front = stream.fields[:kept]
    types = {name: stream.types[name] for name in front if name in stream.types}
    return Stream((*front, *through.fields), types={**types, **through.types}, time=time)
