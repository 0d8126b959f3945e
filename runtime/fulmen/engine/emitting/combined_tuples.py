"""Tuples that were combined before they leave their worker, and the trees that they belong to.

A row that stands for several tuples has the edges of all of them. So nothing else has to know: it
is acked or failed as these would be, and each tree has as many edges as its emitter has counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fulmen.api.combiner import IN_ORDER, Combiner
from fulmen.engine.protocol.placed_topology import PlacedTopology, Subscription
from fulmen.engine.tuples.chunk import Ids, Lineage, Positions, Tasks
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import FulmenError
from fulmen.topology.code.loading import load_class
from fulmen.topology.configuration.options import configured

BY_KEY = ("fields", "global")
"""Groupings by which equal keys always go to the same task."""
Index = npt.NDArray[np.integer[Any]]


class CombinedRows(NamedTuple):
    """What is sent in place of tuples.

    Attributes:
        rows: The values.
        source: A task that has emitted some of them.
        targets: The task that each row goes to.
        lineage: None: they are not tracked.
    """

    rows: TupleRows
    source: int
    targets: Tasks
    lineage: Lineage | None


class CombinedTuples:
    """Combined tuples of one subscription in one batch.

    Attributes:
        is_overtaken: Whether what is sent as it is must come after the rows so far.
    """

    def __init__(self, combiner: Combiner) -> None:
        self._combiner = combiner
        self.is_overtaken = False
        self._source = 0
        self._numbers: list[Positions] = []
        self._targets: list[Tasks] = []
        self._lineages: list[Lineage | None] = []

    def add(
        self,
        task: int,
        emitted: TupleRows,
        index: Index | None,
        targets: Tasks,
        lineage: Lineage | None,
    ) -> Positions | None:
        """Combine tuples. Arguments as of `Parcels.add`.

        Returns:
            The positions in `targets` of those that are sent as they are; None: all are.
        """
        columns = emitted.columns
        if index is not None:
            at = index.tolist()
            columns = [[column[i] for i in at] for column in columns]
        found = self._combiner.add(columns) if columns else None
        if found is None:
            self.is_overtaken = True
            return None
        numbers = np.array(found, np.int64)
        self.is_overtaken = bool((numbers == IN_ORDER).any())
        rest = np.flatnonzero(numbers < 0)
        if len(rest) == len(numbers):
            return None
        self._source = task
        if len(rest):
            taken = np.flatnonzero(numbers >= 0)
            numbers, targets = numbers[taken], targets[taken]
            lineage = None if lineage is None else lineage.take(taken)
        self._numbers.append(numbers)
        self._targets.append(targets)
        self._lineages.append(lineage)
        return rest

    def take(self) -> CombinedRows | None:
        """What all of them have become; None: there are none."""
        if not self._numbers:
            return None
        numbers = np.concatenate(self._numbers)
        rows = self._combiner.take()
        targets = np.zeros(len(rows), np.int32)
        targets[numbers] = np.concatenate(self._targets)
        counts = [len(some) for some in self._numbers]
        lineage = Lineage.concat(list(zip(self._lineages, counts, strict=True)))
        if lineage is not None:
            lineage = gathered(lineage, numbers, len(rows))
        self._numbers, self._targets, self._lineages = [], [], []
        return CombinedRows(TupleRows(rows), self._source, targets, lineage)


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
        """A batch begins: what combines its tuples, by the numbers of subscriptions."""
        found = {}
        for subscription, combiner in self._combiners:
            _, watermark = watermarks.get(subscription.target, (None, None))
            combiner.begin(watermark)
            found[subscription.number] = CombinedTuples(combiner)
        return found


def combiner_of(placed: PlacedTopology, subscription: Subscription) -> Combiner | None:
    """What combines the tuples of a subscription; None: they are sent as they are."""
    grouping, declared = subscription.grouping, placed.streams[subscription.source]
    if grouping.type not in BY_KEY or placed.emitters:
        return None
    stream = declared.get(subscription.stream)
    if stream is None:
        return None
    spec = placed.component(subscription.target)
    try:
        cls = load_class(spec.class_, placed.code_folder)
        if not hasattr(cls, "combiner_for"):
            return None
        options = configured(placed.topology, subscription.target, placed.code_folder).options
    except FulmenError:  # the bolt's own worker tells
        return None
    found: Combiner | None = cls.combiner_for(options, stream, grouping.fields)
    return found
