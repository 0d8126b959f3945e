"""Anchors of emits: whose trees their copies join, each with a fresh edge id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from typing_extensions import override

from fulmen.api.tuples import Tuple
from fulmen.engine.acking.root_ids import TRACED, without_traced
from fulmen.engine.emitting.parcels import Index, compose
from fulmen.engine.tuples.chunk import Ids, Lineage, RangeLineage


class Anchoring(ABC):
    """The anchors of some emits."""

    @abstractmethod
    def take(self, at: Index) -> Anchoring:
        """Take the emits at these positions."""

    @abstractmethod
    def copies(
        self, index: Index | None, n: int, draw: Callable[[int], Ids]
    ) -> Lineage | RangeLineage | None:
        """The lineage of `n` copies of emits; None: they are not tracked.

        Args:
            index: The emit that each is a copy of; None: there is one of each.
            n: How many there are.
            draw: Draws so many edge ids.
        """

    @abstractmethod
    def of(self, i: int) -> tuple[int, ...]:
        """The root ids of emit number `i`, as of trees that are not traced."""

    @abstractmethod
    def among(self, roots: Sequence[int]) -> Sequence[int]:
        """The numbers of emits that are part of one of these trees."""


class OneAnchor(Anchoring):
    """Anchors of emits that have one at most, or are roots themselves.

    Attributes:
        xors: For each emit, the XOR of the edge ids of its copies.
    """

    def __init__(self, lineage: Lineage | None, xors: Ids, at: Index | None = None) -> None:
        """`at`: where the emits are in `xors`; None: they are all of them."""
        self._lineage, self.xors, self._at = lineage, xors, at

    @override
    def take(self, at: Index) -> Anchoring:
        return OneAnchor(None if self._lineage is None else self._lineage.take(at), self.xors, at)

    @override
    def copies(self, index: Index | None, n: int, draw: Callable[[int], Ids]) -> Lineage | None:
        if self._lineage is None:
            return None
        edges = draw(n)
        at = compose(self._at, index)
        if at is None:
            self.xors ^= edges
        else:
            np.bitwise_xor.at(self.xors, at, edges)
        lineage = self._lineage if index is None else self._lineage.take(index)
        if lineage.offsets is None:
            return Lineage(lineage.roots, edges)
        counts = np.diff(lineage.offsets)
        return Lineage(lineage.roots, np.repeat(edges, counts), lineage.offsets)

    @override
    def of(self, i: int) -> tuple[int, ...]:
        return () if self._lineage is None else tuple(map(without_traced, self._lineage.of(i)[0]))

    @override
    def among(self, roots: Sequence[int]) -> Sequence[int]:
        if self._lineage is None:
            return ()
        is_in = np.isin(self._lineage.roots & ~TRACED, np.array(roots, np.uint64))
        if self._lineage.offsets is None:
            return [*map(int, np.flatnonzero(is_in))]
        counts = np.diff(self._lineage.offsets)
        emits = np.repeat(np.arange(len(counts)), counts)
        return [*map(int, np.unique(emits[is_in]))]


class RangeAnchors(Anchoring):
    """Anchors of emits whose trees are not told apart."""

    def __init__(self, lineage: RangeLineage) -> None:
        self._lineage = lineage

    @override
    def take(self, at: Index) -> Anchoring:
        return RangeAnchors(self._lineage.take(at))

    @override
    def copies(self, index: Index | None, n: int, draw: Callable[[int], Ids]) -> RangeLineage:
        return self._lineage if index is None else self._lineage.take(index)

    @override
    def of(self, i: int) -> tuple[int, ...]:
        return self._lineage.of(i)[0]

    @override
    def among(self, roots: Sequence[int]) -> Sequence[int]:
        is_in = np.isin(self._lineage.roots_at(None), np.array(roots, np.uint64))
        return [*map(int, np.flatnonzero(is_in))]


class ManyAnchors(Anchoring):
    """Anchors of emits that may have several. As in Storm, each copy has one id for each.

    Args:
        anchors: For each emit, the inputs whose trees it joins; one may be named twice.
        tell: Is told each anchor and the id of a tuple that was anchored to it.
    """

    def __init__(
        self, anchors: Sequence[Sequence[Tuple]], tell: Callable[[Tuple, int], None]
    ) -> None:
        self._anchors, self._tell = anchors, tell

    @override
    def take(self, at: Index) -> Anchoring:
        return ManyAnchors([self._anchors[i] for i in at.tolist()], self._tell)

    @override
    def copies(self, index: Index | None, n: int, draw: Callable[[int], Ids]) -> Lineage | None:
        roots: list[int] = []
        edges: list[int] = []
        offsets = [0]
        for emit in range(n) if index is None else index.tolist():
            ids: dict[int, int] = {}
            for anchor in self._anchors[emit]:
                if of := _roots_of(anchor):
                    edge = int(draw(1)[0])
                    self._tell(anchor, edge)
                    for root in of:
                        ids[root] = ids.get(root, 0) ^ edge
            roots += ids
            edges += ids.values()
            offsets.append(len(roots))
        return Lineage(
            np.array(roots, np.uint64), np.array(edges, np.uint64), np.array(offsets, np.int64)
        )

    @override
    def of(self, i: int) -> tuple[int, ...]:
        roots = (root for anchor in self._anchors[i] for root in _roots_of(anchor))
        return tuple(dict.fromkeys(map(without_traced, roots)))

    @override
    def among(self, roots: Sequence[int]) -> Sequence[int]:
        return [i for i in range(len(self._anchors)) if not set(roots).isdisjoint(self.of(i))]


def _roots_of(anchor: Tuple) -> tuple[int, ...]:
    return anchor._origin.lineage(anchor._position)[0]
