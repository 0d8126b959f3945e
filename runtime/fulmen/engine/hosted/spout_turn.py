"""The emits of one turn of a pinned spout, and which part of them goes into which batch.

A batch that keeps failing is given fewer and fewer tuples, until the one that is to blame is alone.
A spout on a worker emits anew with each attempt. What a pinned one has emitted can't be taken back,
so it is divided: a batch gets its next messages, as many as it may have, and the rest is for later
ones.

The messages to ackers all go with the first part, as the spout's state does. So what is not sent
yet is pending already, and times out if the driver dies before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.checkpoint.rewriting import Update
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.emitting.parcels import groups
from fulmen.engine.protocol.figures.statistics import DROPPED
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Measured, Summary
from fulmen.engine.state.letters import shown_values
from fulmen.engine.tasks.parts.message_trees import CRASH_REASON
from fulmen.engine.tuples import wire
from fulmen.plan.model import DRIVER

Rows = list[tuple[int, bytes]]
"""Rows for the first stage, each with its worker."""


@dataclass
class SpoutTurn:
    """The emits of one turn of one task.

    Attributes:
        placed: Whose plan the rows are for.
        rows: All rows of the turn.
        summary: Of this task alone.
        records: What the commit has to write of its state.
        is_told: Whether the summary and the messages to ackers are committed.
        begin: How many messages are committed.
        end: How many will be if the attempt at hand is committed; None: all.
    """

    placed: PlacedTopology
    rows: Rows
    summary: Summary
    records: Mapping[str, Update] = field(default_factory=dict)
    is_told: bool = False
    begin: int = 0
    end: int | None = None

    def attempt(self, placed: PlacedTopology, permit: int | None) -> Rows:
        """The rows for an attempt: of the messages that are not committed yet, so many at most."""
        if placed is not self.placed:
            self.rows = [r for _, row in self.rows for r in rerouted(row, placed)]
            self.placed = placed
        if permit is None and not self.is_told:
            self.end = None
            return self.rows
        self.end = None if permit is None else min(self._count, self.begin + permit)
        rows = [] if self.is_told else [r for r in self.rows if r[1][:1] == wire.ACKS]
        for parcel, at in self._chosen():
            rows += routed(parcel.take(at), placed)
        return rows

    def poisoned_attempt(
        self, placed: PlacedTopology, cause: str, rng: np.random.Generator
    ) -> tuple[Rows, Summary]:
        """The attempt with the next message dropped instead of sent, and a summary that says so."""
        rows = [r for r in self.attempt(placed, 1) if r[1][:1] == wire.ACKS]
        outbox = Outbox(placed, DRIVER, rng, Measured())
        summary = replace(self.summary, counts=Counter(self.summary.counts))
        for parcel, at in self._chosen():
            if parcel.lineage is not None and len(roots := parcel.lineage.take(at).roots):
                outbox.messages.fails = [(int(roots[0]), CRASH_REASON)]
            row = [shown_values.shown(value) for value in first_row(parcel, at)]
            text = shown_values.message(row, cause)
            (task,) = set(parcel.sources.tolist())
            component = placed.plan.component_of(task)
            summary.errors = [*summary.errors, ErrorReport(component, task, text)]
            summary.counts[component, DROPPED, ""] = 1
        outbox.pack_messages()
        return rows + outbox.take_rows(), summary

    def next_messages(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield stream and values of one message of each parcel of the attempt."""
        for parcel, at in self._chosen():
            yield self.placed.subscriptions[parcel.subscription].stream, first_row(parcel, at)

    def committed(self) -> bool:
        """Note that the attempt was committed. Returns whether there are messages left."""
        if self.end is None:
            return False
        self.is_told, self.begin = True, self.end
        return self.begin < self._count

    @property
    def left(self) -> int:
        """Messages that are not part of the attempt."""
        return 0 if self.end is None else self._count - self.end

    def _chosen(self) -> list[tuple[wire.Parcel, npt.NDArray[np.int64]]]:
        """Find the places in the parcels of the messages of the attempt."""
        end = self._count if self.end is None else self.end
        places = [np.flatnonzero((of >= self.begin) & (of < end)) for _, of in self._parcels]
        return [(p, at) for (p, _), at in zip(self._parcels, places, strict=True) if len(at)]

    @cached_property
    def _parcels(self) -> Sequence[tuple[wire.Parcel, npt.NDArray[np.int64]]]:
        """The tuples, each with the number of its message: tracked ones first, in their order."""
        parcels = [wire.unpack_tuples(row) for _, row in self.rows if row[:1] == wire.TUPLES]
        roots = [root_of_each(parcel) for parcel in parcels]
        tracked = np.unique(np.concatenate([*roots, np.empty(0, np.uint64)]))
        tracked = tracked[tracked > 0]
        count, numbers = len(tracked), []
        for of_parcel in roots:
            number = np.searchsorted(tracked, of_parcel).astype(np.int64)
            untracked = np.flatnonzero(of_parcel == 0)
            number[untracked] = count + np.arange(len(untracked))
            count += len(untracked)
            numbers.append(number)
        return list(zip(parcels, numbers, strict=True))

    @cached_property
    def _count(self) -> int:
        return max((int(of.max()) + 1 for _, of in self._parcels), default=0)


def root_of_each(parcel: wire.Parcel) -> npt.NDArray[np.uint64]:
    """The root of each tuple of a spout's; 0: it is not tracked."""
    lineage = parcel.lineage
    if lineage is None:
        return np.zeros(len(parcel), np.uint64)
    if lineage.offsets is None:
        return lineage.roots
    roots = np.zeros(len(parcel), np.uint64)
    roots[np.diff(lineage.offsets) > 0] = lineage.roots
    return roots


def first_row(parcel: wire.Parcel, at: npt.NDArray[np.int64]) -> list[Any]:
    """The values of the first of some tuples."""
    return list(parcel.rows[int(at[0])])


def rerouted(row: bytes, placed: PlacedTopology) -> Rows:
    """A row of tuples or of messages to an acker, as rows of another plan."""
    if row[:1] == wire.ACKS:
        acker = wire.unpack(row)[0]
        return [(placed.plan.worker_of(acker), row)]
    return routed(wire.unpack_tuples(row), placed)


def routed(parcel: wire.Parcel, placed: PlacedTopology) -> Rows:
    """The rows of a parcel whose tuples may go to several workers."""
    return [
        (worker, part)
        for worker, at in groups(placed.task_worker[parcel.targets])
        for part in wire.pack_tuples(
            parcel if at is None else parcel.take(at), placed.limits.row_tuples
        )
    ]
