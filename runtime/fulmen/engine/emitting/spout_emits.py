"""Emits of spouts in a batch: how many at most, and one stream's part of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fulmen.engine.emitting.routes import Chosen
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.tuples.tuple_rows import TupleRows

EMIT_BYTES_PER_SECOND = 128 << 20
"""Bytes per second of a batch's target: the spouts on one worker emit about so much a batch."""
LEAST_EMIT_BYTES, MOST_EMIT_BYTES = 32 << 20, 256 << 20
"""Limits of that, whatever the target is. What a batch has in it is in memory, more than once."""


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
    """How many bytes all spout tasks of one worker together may emit in a batch."""
    target = placed.topology.spec.batch_target_millis / 1000
    return int(min(MOST_EMIT_BYTES, max(LEAST_EMIT_BYTES, EMIT_BYTES_PER_SECOND * target)))
