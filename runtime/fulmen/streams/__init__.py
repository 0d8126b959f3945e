"""Streams in Python: filter, map, key, window, join, write, as a topology of bolts.

A thin layer over `topology`, `windows` and `expressions`: what it builds is the resource that a
file in YAML would be, so all below knows nothing of it but two kinds of bolts, whose functions it
finds again in the author's module. Used by authors, and by `cli` to read their files. `run` and
`test` use `testing`.
"""

from fulmen.streams import agg
from fulmen.streams.pipeline import Streams
from fulmen.streams.spans import calendar, counting, cumulative, session, sliding, tumbling
from fulmen.streams.stream import DataStream, KeyedStream, WindowedStream

__all__ = [
    "DataStream",
    "KeyedStream",
    "Streams",
    "WindowedStream",
    "agg",
    "calendar",
    "counting",
    "cumulative",
    "session",
    "sliding",
    "tumbling",
]
