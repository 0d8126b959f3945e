"""The kinds of transactional spouts, and the classes of their coordinators and emitters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSource,
    TransactionalSpout,
)
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.errors import repr_of
from fulmen.topology.code.loading import create, load_class
from fulmen.topology.resource.spec import ComponentSpec, TransactionalSpoutSpec


def part_of(source: TransactionalSource[Any, Any], name: str) -> type:
    """The base class of the coordinators or the emitters of a transactional spout."""
    kinds = (
        TransactionalSpout,
        PartitionedTransactionalSpout,
        OpaquePartitionedTransactionalSpout,
    )
    part: type = getattr(next(kind for kind in kinds if isinstance(source, kind)), name)
    return part


def emitter_of(partition: int, tasks: int) -> int:
    """The task that emits a partition of a source, of so many tasks."""
    return partition % tasks


def wrong_part(made: Any, wanted: type) -> TypeError:
    """The error about a coordinator or an emitter of another class."""
    return TypeError(
        f"it returned {repr_of(made)[:80]}, but must return an object of a class derived from"
        f" fulmen.{wanted.__qualname__}"
    )


def class_of(spec: ComponentSpec, code_folder: Path | None) -> type:
    """The class of a component.

    Raises:
        CodeError: It can't be loaded.
    """
    if spec.instance is not None:
        return type(create(spec, code_folder))
    cls: type = load_class(spec.class_, code_folder)
    return cls


def has_partitions(source: TransactionalSpoutSpec, code_folder: Path | None) -> bool:
    """Whether a transactional spout divides its source into partitions. Raises as `class_of`."""
    kinds = (PartitionedTransactionalSpout, OpaquePartitionedTransactionalSpout)
    return issubclass(class_of(source, code_folder), kinds)


def opaque_source(placed: PlacedTopology) -> str:
    """A source that may send other tuples in another attempt; empty: there is none."""
    for name in placed.emitters:
        cls = class_of(placed.component(name), placed.code_folder)
        if issubclass(cls, OpaquePartitionedTransactionalSpout):
            return name
    return ""
