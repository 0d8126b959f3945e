"""The rows of a commit that a sink has to write, and those before, as in the checkpoint."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fulmen.api.marks import Point
from fulmen.engine.state.pickling import dumps
from fulmen.engine.state.values.renamed_classes import loads


@dataclass(frozen=True)
class Unwritten:
    """Rows that are committed, and that the store may not have yet.

    Attributes:
        number: Of the commit.
        tag: Of the attempt that became it.
        fields: Of the tuples.
        previous: The point of the rows before these; None: there were none.
        items: What `encode` made of them.
        transaction: In a transactional topology, the one that they are of: they are to be written
            if it is committed. None: they are to be written.
        refused: The rows of the same transaction that `encode` has refused, and why.
    """

    number: int
    tag: str
    fields: tuple[str, ...]
    previous: Point | None
    items: Sequence[Any]
    transaction: Point | None = None
    refused: Sequence[tuple[Any, str]] = field(default_factory=list)

    def pack(self) -> bytes:
        """Turn it into bytes, for the checkpoint."""
        previous = self.previous and tuple(self.previous)
        transaction = self.transaction and tuple(self.transaction)
        commit = (self.number, self.tag, self.fields, previous, transaction)
        return dumps((*commit, list(self.refused), list(self.items)), {})

    @property
    def point(self) -> Point:
        """The mark of these rows."""
        return Point(self.number, self.tag)

    @staticmethod
    def unpack(data: bytes) -> Unwritten:
        """Read what `pack` gave."""
        number, tag, fields, *points, refused, items = loads(data)
        previous, transaction = (point and Point(*point) for point in points)
        return Unwritten(number, tag, fields, previous, items, transaction, refused)


def new_id(rng: np.random.Generator) -> str:
    """The id of a task of a sink, by which its store finds its mark."""
    return bytes(rng.integers(0, 256, 12, "u1").tolist()).hex()


def packed_point(point: Point | None) -> bytes:
    """The journal MARK: what the store has."""
    return pickle.dumps(point and tuple(point), 5)


def unpacked_point(data: bytes) -> Point | None:
    """Read what `packed_point` gave."""
    unpacked = pickle.loads(data)
    return unpacked and Point(*unpacked)
