"""The rows of a sink among the chunks of its batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from fulmen.engine.tuples.chunk import Chunk

LONGEST_REASON = 500


def values_of(chunks: Sequence[Chunk]) -> Sequence[Any]:
    """The values of all tuples, in the order of the first chunk's fields."""
    fields = chunks[0].fields
    if len(chunks) == 1:
        return list(chunks[0].rows)
    values: list[Any] = []
    for chunk in chunks:
        if chunk.fields == fields:
            values.extend(chunk.rows)
        else:
            order = [chunk.fields.index(name) for name in fields]
            values.extend([row[i] for i in order] for row in chunk.rows)
    return values


def with_streams(chunks: Sequence[Chunk]) -> Sequence[Any]:
    """The values of all tuples for `ANY_STREAM`."""
    return [
        [chunk.component, chunk.stream, dict(zip(chunk.fields, row, strict=True))]
        for chunk in chunks
        for row in chunk.rows
    ]


def by_chunk(
    chunks: Sequence[Chunk], failed: Mapping[int, str]
) -> Sequence[tuple[Chunk, dict[int, str]]]:
    """Each chunk with the reasons of its rows that failed."""
    firsts = [0, *accumulate(len(chunk) for chunk in chunks)]
    pairs: list[tuple[Chunk, dict[int, str]]] = [(chunk, {}) for chunk in chunks]
    for i, reason in failed.items():
        at = bisect_right(firsts, i) - 1
        pairs[at][1][i - firsts[at]] = reason[:LONGEST_REASON]
    return pairs
