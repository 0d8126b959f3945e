"""The shape of a checkpoint: its tasks, numbers and origins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from fulmen.checkpoint import LAYOUT, Manifest, Update, read_layout


class KeptComponent(NamedTuple):
    """A component that is not in the topology any more, and whose state is kept.

    Attributes:
        tasks: How many tasks it had.
        is_spout: Whether it was a spout.
    """

    tasks: int
    is_spout: bool


@dataclass(frozen=True)
class Layout:
    """The shape of a checkpoint: its tasks, numbers and origins.

    Attributes:
        tasks: The number of tasks of each component; fixed for the topology's life.
        origins: Task key of a spout task -> its number in root ids.
        next_origin: The first that was never given out.
        results: Task key of a bolt task that may keep results -> the same of it.
        emitters: The transactional spouts, and whether they divide their sources into partitions.
        last_txid: The last that a transactional spout had which is gone. All others are above it.
        identity: Of the checkpoint, at random, by which stores tell it from others.
        kept: Components that are not in the topology any more and whose state is kept.
    """

    tasks: Mapping[str, int] = field(default_factory=dict)
    origins: Mapping[str, int] = field(default_factory=dict)
    next_origin: int = 1
    emitters: Mapping[str, bool] = field(default_factory=dict)
    last_txid: int = 0
    results: Mapping[str, int] = field(default_factory=dict)
    identity: str = ""
    kept: Mapping[str, KeptComponent] = field(default_factory=dict)

    @property
    def all_origins(self) -> dict[str, int]:
        """The origins of all tasks at which trees begin."""
        return {**self.origins, **self.results}

    def to_json(self) -> dict[str, Any]:
        """Turn it into plain values."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Layout:
        """Read what `to_json` gave."""
        kept = {name: KeptComponent(*one) for name, one in content["kept"].items()}
        return Layout(**{**content, "kept": kept})


@dataclass(frozen=True)
class CheckpointChange:
    """A change that a commit must make to the checkpoint.

    Attributes:
        layout: Of the checkpoint from then on.
        removed_tasks: Tasks whose state goes.
        updates: The state of others.
    """

    layout: Layout
    removed_tasks: Sequence[str] = ()
    updates: dict[str, dict[str, Update]] = field(default_factory=dict)

    @property
    def sections(self) -> dict[str, bytes]:
        """The sections of the commit."""
        return {LAYOUT: json.dumps(self.layout.to_json()).encode()}


def layout_of(manifest: Manifest) -> Layout | None:
    """The layout of a checkpoint; None: nothing was ever committed."""
    known = read_layout(manifest)
    return Layout.from_json(known) if known else None
