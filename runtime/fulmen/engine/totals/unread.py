"""What went to a stream `errors` that no bolt subscribes to, such as malformed rows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fulmen.api.sinks import ERRORS_STREAM
from fulmen.engine.protocol.figures.statistics import EMITTED, CountKey
from fulmen.engine.protocol.placed_topology import PlacedTopology


def unread_errors(placed: PlacedTopology, counts: Counter[CountKey]) -> Mapping[str, int]:
    """Component -> how many tuples it has emitted to its `errors`, if nobody gets them."""
    return {
        name: n
        for name, streams in placed.streams.items()
        if ERRORS_STREAM in streams and not placed.subscribers(name, ERRORS_STREAM)
        if (n := counts[name, EMITTED, ERRORS_STREAM])
    }


def unread_sentence(component: str, number: int) -> str:
    """A sentence: nobody gets the tuples of a stream `errors`."""
    tuples = f"{number:,} tuples" if number > 1 else "1 tuple"
    return f"{component}: {tuples} on stream {ERRORS_STREAM!r}, which no bolt reads"
