"""Emits of spouts in a batch: how many at most, and one stream's part of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fulmen.engine.emitting.routes import Chosen
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.tuples.tuple_rows import TupleRows

EMIT_BYTES_PER_SECOND = 128 << 20
"""Bytes per second of a batch's target: so much of what the spouts on one worker emit may leave it,
or wait for the end of the batch. That is in memory, more than once."""
LEAST_EMIT_BYTES, MOST_EMIT_BYTES = 32 << 20, 256 << 20
"""Limits of that, whatever the target is."""
MOST_AT_ONCE = 1 << 30
"""Bytes that the spouts on one worker emit in a batch at most, with what is dealt with at once: of
that, only a slice is in memory at a time, and message ids."""


class EmitRoom:
    """How many bytes a spout task may emit in a batch: more of what is dealt with at once."""

    def __init__(
        self, placed: PlacedTopology, tasks: int, kept: Callable[[], int] | None = None
    ) -> None:
        """Begin a batch's turn.

        Args:
            placed: Says how large batches are.
            tasks: The number of spout tasks that share the worker's room.
            kept: Says how many bytes of the batch have left the worker or wait for its end. None:
                all that is emitted.
        """
        self._most_kept, self._most = emit_bytes(placed) // tasks, MOST_AT_ONCE // tasks
        self._emitted = 0
        self._kept = kept or (lambda: self._emitted)
        self._before = self._kept()

    @property
    def left(self) -> int:
        """Bytes that it may still emit; 0 or less: none."""
        return min(self._most - self._emitted, self._most_kept - (self._kept() - self._before))

    def emitted(self, size: int) -> None:
        """So many bytes were emitted."""
        self._emitted += size


@dataclass(frozen=True)
class Emits:
    """The emits of a spout on one stream, in its order.

    Attributes:
        stream: Which.
        rows: The values.
        msg_ids: As many, None among them for those that are not tracked; None: none is tracked.
        chosen: Emits whose tasks were chosen already.
    """

    stream: str
    rows: TupleRows
    msg_ids: Sequence[Any] | None
    chosen: Chosen = field(default_factory=dict)

    def take(self, positions: list[int]) -> Emits:
        """The emits at `positions` alone."""
        return Emits(
            self.stream,
            self.rows.take(np.array(positions, np.int64)),
            None if self.msg_ids is None else [self.msg_ids[i] for i in positions],
            {new: self.chosen[old] for new, old in enumerate(positions) if old in self.chosen},
        )


def emit_bytes(placed: PlacedTopology) -> int:
    """How many bytes that all spout tasks of one worker emit may be kept within a batch."""
    target = placed.topology.spec.batch_target_millis / 1000
    return int(min(MOST_EMIT_BYTES, max(LEAST_EMIT_BYTES, EMIT_BYTES_PER_SECOND * target)))
