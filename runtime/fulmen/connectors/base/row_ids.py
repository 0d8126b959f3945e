"""Ids of rows by which another system knows what was sent again."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from typing import Any

from fulmen.api.components.sinks import Rows
from fulmen.api.context import TopologyContext


def sink_identity(context: TopologyContext, kept: str) -> str:
    """What tells a task of a sink from all others, at random.

    Args:
        context: That of the task.
        kept: The one that a durable field has; empty: there is none yet.
    """
    if kept:
        return kept
    # the instance after this one has it too, if no batch counts before
    name = f"identity of {context.component} {context.task_index}"
    return context.shared(name, lambda: secrets.token_hex(8))


class RowIds:
    """Ids of the rows of one batch.

    An id says which tuple trees of which task a row is of, and what is in it. So a row that is sent
    again since its batch came to nothing has the same id, whatever else is in the batch then; and
    no other row has it, which the other system would drop.
    """

    def __init__(self, identity: str, batch: int, rows: Rows) -> None:
        self._identity, self._batch, self._rows = identity, batch, rows
        self._times: Counter[bytes] = Counter()

    def next_id(self, i: int, body: bytes, *parts: Any) -> str:
        """The id of row `i`. Called once for each row, in their order.

        Args:
            i: The position of the row.
            body: What is sent.
            parts: What else tells it from others.
        """
        origin = self._rows.roots(i) or self._batch  # what is not tracked is told by its batch
        content = repr((origin, *parts)).encode() + body
        digest = hashlib.blake2b(content, digest_size=16).digest()
        self._times[digest] += 1
        return f"{self._identity}-{digest.hex()}-{self._times[digest] - 1}"
