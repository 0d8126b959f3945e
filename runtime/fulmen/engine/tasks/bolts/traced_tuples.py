"""Notes of bolt tasks about tuples whose trees are traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fulmen.engine.acking.root_ids import TRACED, TRACED_BIT, traced_among
from fulmen.engine.protocol.figures.trace_notes import Ran, TraceNotes
from fulmen.engine.tuples.chunk import Chunk, Lineage


def note_executed(
    notes: TraceNotes,
    component: str,
    chunk: Chunk,
    seconds: float,
    failed: Sequence[tuple[int, str]],
) -> None:
    """Note that a bolt has executed a chunk: all its tuples had to wait until that was done."""
    lineage = chunk.lineage_columns
    if not isinstance(lineage, Lineage):  # of trees that are not told apart none is traced
        return
    if not len(roots := traced_among(lineage.roots)):
        return
    reasons: dict[int, str] = {}
    for i, reason in failed:
        for root in lineage.of(i)[0]:
            if root & TRACED_BIT:
                reasons.setdefault(root, reason)
    ended = chunk.began + seconds
    notes.executed(component, roots.tolist(), chunk.began, ended, len(chunk), reasons)


def note_late(
    notes: TraceNotes, component: str, roots: Sequence[int], at: float, reason: str | None
) -> None:
    """Note that a bolt acked or failed a tuple that it had kept.

    Args:
        notes: Takes the notes.
        component: The bolt.
        roots: Of the tuple.
        at: When, in seconds of time.time().
        reason: Why it failed; None: it was acked.
    """
    for root in roots:
        if root & TRACED_BIT:
            notes.add(root, component, Ran(at, at, acked_late=1, failed=reason or ""))


def traced_rows(chunk: Chunk) -> Iterator[tuple[int, int]]:
    """The position and the root of each tuple that belongs to a traced tree; of several, to one."""
    lineage = chunk.lineage_columns
    if not isinstance(lineage, Lineage):
        return
    places = np.flatnonzero(lineage.roots & TRACED)
    at = places
    if lineage.offsets is not None and len(places):
        at = np.searchsorted(lineage.offsets, places, "right") - 1
    last = -1
    for i, root in zip(at.tolist(), lineage.roots[places].tolist(), strict=True):
        if i != last:
            yield i, root
        last = i
