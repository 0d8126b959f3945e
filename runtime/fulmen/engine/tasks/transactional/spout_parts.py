"""What the coordinators and the emitters of transactional spouts must be."""

from __future__ import annotations

from typing import Any

from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSource,
    TransactionalSpout,
)
from fulmen.errors import repr_of


def part_of(source: TransactionalSource[Any, Any], name: str) -> type:
    """What the coordinators or the emitters of a transactional spout must be derived from."""
    kinds = (
        TransactionalSpout,
        PartitionedTransactionalSpout,
        OpaquePartitionedTransactionalSpout,
    )
    found: type = getattr(next(kind for kind in kinds if isinstance(source, kind)), name)
    return found


def wrong_part(made: Any, wanted: type) -> TypeError:
    """What is wrong about a coordinator or an emitter that is none."""
    return TypeError(
        f"it returned {repr_of(made)[:80]}, but must return an object of a class derived from"
        f" fulmen.{wanted.__qualname__}"
    )
