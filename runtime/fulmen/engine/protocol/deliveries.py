"""How trees ended, as spout tasks are told it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fulmen.engine.tuples.chunk import Ranges

DELIVERIES = "deliveries"
"""The section of a commit with what spouts are still to be told: valid until the next commit."""


@dataclass(frozen=True)
class Deliveries:
    """How trees ended, for one spout task.

    Attributes:
        acked: Ranges [first, end) of sequence numbers.
        failed: Sequence number and reason.
        causes: Reason -> which task failed a tuple for it, and the traceback; of those that are
            known, if messages may be given up.
    """

    acked: Ranges
    failed: tuple[tuple[int, str], ...] = ()
    causes: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def plus(self, later: Deliveries) -> Deliveries:
        """Both together."""
        acked = np.concatenate([self.acked, later.acked])
        return Deliveries(acked, self.failed + later.failed, {**self.causes, **later.causes})

    def after(self, first: Deliveries) -> Deliveries:
        """The rest of these after `first`, with which they begin (see `plus`)."""
        failed = self.failed[len(first.failed) :]
        return Deliveries(self.acked[len(first.acked) :], failed, self.causes)

    def __len__(self) -> int:
        return len(self.failed) + int((self.acked[:, 1] - self.acked[:, 0]).sum())

    def split(self, n: int) -> tuple[Deliveries, Deliveries]:
        """The first `n`, failed ones before acked ones, and the rest."""
        left = max(0, n - len(self.failed))
        ends = np.cumsum(self.acked[:, 1] - self.acked[:, 0])
        now, later = self.acked[ends <= left], self.acked[ends > left]
        started = left - (int(ends[len(now) - 1]) if len(now) else 0)
        if started and len(later):
            first, end = later[0].tolist()
            now = np.concatenate([now, [[first, first + started]]])
            later = np.concatenate([[[first + started, end]], later[1:]])
        causes = self.causes
        return (
            Deliveries(now, self.failed[:n], causes),
            Deliveries(later, self.failed[n:], causes),
        )


NOTHING_ENDED = Deliveries(np.empty((0, 2), np.int64))


def pack_deliveries(deliveries: Mapping[int, Deliveries]) -> bytes:
    """Deliveries as bytes, for a header or a commit."""
    told = {origin: (d.acked, d.failed, d.causes) for origin, d in deliveries.items()}
    return pickle.dumps(told, 5)


def unpack_deliveries(data: bytes) -> dict[int, Deliveries]:
    """Read what `pack_deliveries` made."""
    return {origin: Deliveries(*parts) for origin, parts in pickle.loads(data).items()}


def undelivered(transient: Mapping[str, bytes]) -> dict[int, Deliveries]:
    """The deliveries that a commit still owes to spouts.

    Args:
        transient: The commit's sections that are valid until the next one.
    """
    data = transient.get(DELIVERIES)
    return unpack_deliveries(data) if data else {}


def merged(ranges: Ranges) -> Ranges:
    """Ranges in ascending order, those that touch made one."""
    if len(ranges) < 2:
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    starts = np.flatnonzero(np.concatenate(([True], ranges[1:, 0] != ranges[:-1, 1])))
    return np.stack(
        [ranges[starts, 0], ranges[np.append(starts[1:] - 1, len(ranges) - 1), 1]], axis=1
    )
