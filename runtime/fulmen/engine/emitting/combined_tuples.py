"""Tuples that were combined before they leave their worker, and the trees that they belong to.

A row that stands for several tuples has the edges of all of them. So nothing else has to know: it
is acked or failed as these would be, and each tree has as many edges as its emitter has counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fulmen.api.components.combiner import IN_ORDER, Combiner
from fulmen.engine.emitting.parcels import Copies
from fulmen.engine.protocol.placed_topology import PlacedTopology, Subscription
from fulmen.engine.tuples.chunk import Ids, Lineage, Positions
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import FulmenError
from fulmen.topology.code.loading import load_class
from fulmen.topology.configuration.options import configured

BY_KEY = ("fields", "global")
"""Groupings by which equal keys always go to the same task."""
_NO_ROWS = TupleRows(())


class CombinedTuples:
    """Combined tuples of one subscription in one batch.

    Attributes:
        is_overtaken: Whether what is sent as it is must come after the rows so far.
    """

    def __init__(self, combiner: Combiner) -> None:
        self._combiner = combiner
        self.is_overtaken = False
        self._numbers: list[Positions] = []
        self._taken: list[Copies] = []

    def add(self, copies: Copies) -> Positions | None:
        """Combine tuples.

        Returns:
            The positions of those that are sent as they are; None: all are.
        """
        columns = copies.emitted.columns
        if copies.index is not None:
            at = copies.index.tolist()
            columns = [[column[i] for i in at] for column in columns]
        positions = self._combiner.add(columns) if columns else None
        if positions is None:
            self.is_overtaken = True
            return None
        numbers = np.array(positions, np.int64)
        self.is_overtaken = bool((numbers == IN_ORDER).any())
        rest = np.flatnonzero(numbers < 0)
        if len(rest) == len(numbers):
            return None
        taken = copies
        if len(rest):
            at = np.flatnonzero(numbers >= 0)
            numbers, taken = numbers[at], copies.take(at)
        self._numbers.append(numbers)
        # their values are kept no longer than the batch needs them
        self._taken.append(replace(taken, emitted=_NO_ROWS, index=None))
        return rest

    def take(self) -> Copies | None:
        """Take all combined tuples; None: there are none."""
        if not self._numbers:
            return None
        numbers, parts = np.concatenate(self._numbers), self._taken
        rows = self._combiner.take()
        targets = np.zeros(len(rows), np.int32)
        targets[numbers] = np.concatenate([part.targets for part in parts])
        lineage = Lineage.concat([(part.lineage, len(part.targets)) for part in parts])
        if lineage is not None:
            lineage = gathered(lineage, numbers, len(rows))
        self._numbers, self._taken = [], []
        return Copies(parts[-1].task, TupleRows(rows), None, targets, lineage)


def gathered(lineage: Lineage, numbers: Positions, n: int) -> Lineage:
    """The lineage of rows that stand for several tuples each: it has each root once.

    Args:
        lineage: Of the tuples.
        numbers: The row that each of them is part of.
        n: How many rows there are.
    """
    if lineage.offsets is not None:
        numbers = np.repeat(numbers, np.diff(lineage.offsets))
    order = np.lexsort((lineage.roots, numbers))
    numbers, roots, edges = numbers[order], lineage.roots[order], lineage.edges[order]
    if not len(numbers):
        return Lineage(roots, edges, np.zeros(n + 1, np.int64))
    is_new = np.concatenate(([True], (numbers[1:] != numbers[:-1]) | (roots[1:] != roots[:-1])))
    starts = np.flatnonzero(is_new)
    xors: Ids = np.bitwise_xor.reduceat(edges, starts)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(numbers[starts], minlength=n))))
    return Lineage(roots[starts], xors, offsets.astype(np.int64))


class Combiners:
    """The combiners of what one stage emits."""

    def __init__(self, placed: PlacedTopology, stage: int, components: Sequence[str]) -> None:
        self._combiners = [
            (subscription, combiner)
            for subscription in placed.subscriptions
            if subscription.source in components
            and placed.plan.stage_of(subscription.target) != stage
            and (combiner := combiner_of(placed, subscription)) is not None
        ]

    def begin(self, watermarks: Mapping[str, Any]) -> dict[int, CombinedTuples]:
        """Begin a batch: give what combines its tuples, by the numbers of subscriptions."""
        combined = {}
        for subscription, combiner in self._combiners:
            next_watermark, watermark = watermarks.get(subscription.target, (None, None))
            combiner.begin(watermark, next_watermark)
            combined[subscription.number] = CombinedTuples(combiner)
        return combined


def combiner_of(placed: PlacedTopology, subscription: Subscription) -> Combiner | None:
    """Make the combiner of a subscription; None: its tuples are sent as they are."""
    grouping, declared = subscription.grouping, placed.streams[subscription.source]
    if grouping.type not in BY_KEY or placed.emitters or subscription.stream not in declared:
        return None
    spec = placed.component(subscription.target)
    try:
        cls = load_class(spec.class_, placed.code_folder)
        if not hasattr(cls, "combiner_for"):
            return None
        options = configured(placed.topology, subscription.target, placed.code_folder).options
    except FulmenError:  # the bolt's own worker tells
        return None
    combiner: Combiner | None = cls.combiner_for(
        options, placed.received(subscription), grouping.fields
    )
    return combiner
