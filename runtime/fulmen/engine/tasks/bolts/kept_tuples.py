"""Tuples that a bolt keeps for later: how that is seen, and what is left without their chunk."""

from __future__ import annotations

from sys import getrefcount

from fulmen.api.tuples import Held
from fulmen.engine.tuples.chunk import Chunk


def _own_references() -> int:
    tup = object()
    return getrefcount(tup)


OURS = _own_references()
"""References to a tuple that only the loop over its chunk has: a local name, and getrefcount's own
argument. Then the next tuple may be the same object: three times as fast as a new one."""


def held(chunk: Chunk, i: int, xor: int) -> Held:
    """The origin of tuple `i` without its chunk."""
    roots, edges, _ = chunk.lineage(i)
    task = chunk.source_task(i)
    began = chunk.began_at(i)
    return Held(chunk.component, chunk.stream, chunk.fields, task, roots, edges, xor, began)
