"""The shape of a checkpoint: its tasks, numbers and origins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from fulmen.checkpoint import LAYOUT, Links, Manifest, Update, read_layout
from fulmen.engine.time.watermarks import SECTION as TIME
from fulmen.topology.resource.spec import Topology


class KeptComponent(NamedTuple):
    """A component that is not in the topology any more, and whose state is kept.

    Attributes:
        tasks: How many tasks it had.
        kind: What it was, such as "a spout".
        metadata: Of a transactional spout: of its last transaction that was committed, in base64.
        committed: Of the same: that transaction, or a later one.
        since: When it left the topology, in wall clock seconds.
    """

    tasks: int
    kind: str
    metadata: str = ""
    committed: int = 0
    since: float = 0.0


def _by_component() -> Any:
    """A map whose keys are names of components, or keys of tasks, which begin with them."""
    return field(default_factory=dict, metadata={"by": "component"})


@dataclass(frozen=True)
class Layout:
    """The shape of a checkpoint: its tasks, numbers and origins.

    Attributes:
        tasks: The number of tasks of each component.
        origins: Task key of a spout task -> its number in root ids.
        next_origin: The first that was never given out.
        results: Task key of a bolt task that may keep results -> the same of it.
        emitters: The transactional spouts, and whether they divide their sources into partitions.
        last_txid: The last that a transactional spout had which is gone. All others are above it.
        identity: Of the checkpoint, at random, by which stores tell it from others.
        kept: Components that are not in the topology any more and whose state is kept.
        renamed: The renames that the last topology asked for: they are done.
        known_as: Component -> the name by which stores and brokers know it, if that is another one.
        retired: Tasks that their component has no more, and at which trees began -> their numbers
            in root ids, and the last sequence number there. They get them again if they come back.
    """

    tasks: Mapping[str, int] = _by_component()
    origins: Mapping[str, int] = _by_component()
    next_origin: int = 1
    emitters: Mapping[str, bool] = _by_component()
    last_txid: int = 0
    results: Mapping[str, int] = _by_component()
    identity: str = ""
    kept: Mapping[str, KeptComponent] = _by_component()
    renamed: Mapping[str, str] = field(default_factory=dict)
    known_as: Mapping[str, str] = _by_component()
    retired: Mapping[str, tuple[int, int]] = _by_component()

    @property
    def all_origins(self) -> dict[str, int]:
        """The origins of all tasks at which trees begin."""
        return {**self.origins, **self.results}

    def without(self, component: str) -> Layout:
        """After all that is kept of a component was removed: one of that name is a new one."""
        return self.with_names(lambda name: None if name == component else name)

    def with_names(self, name_of: Callable[[str], str | None]) -> Layout:
        """With other names of components in all that is by component; None: it is left out."""
        changed: dict[str, Any] = {}
        for one in fields(self):
            if one.metadata.get("by") != "component":
                continue
            of: dict[str, Any] = {}
            changed[one.name] = of
            for key, value in getattr(self, one.name).items():
                component, slash, index = key.partition("/")
                if (name := name_of(component)) is not None:
                    of[f"{name}{slash}{index}"] = value
        return replace(self, **changed)

    def to_json(self) -> dict[str, Any]:
        """Turn it into plain values."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Layout:
        """Read what `to_json` gave."""
        kept = {name: KeptComponent(*one) for name, one in content["kept"].items()}
        retired = {key: (origin, last) for key, (origin, last) in content["retired"].items()}
        return Layout(**{**content, "kept": kept, "retired": retired})


@dataclass(frozen=True)
class CheckpointChange:
    """A change that a commit must make to the checkpoint.

    Attributes:
        layout: Of the checkpoint from then on.
        removed_tasks: Tasks whose state goes.
        updates: The state of others.
        links: State of others that is there already.
        time: The watermarks from then on; None: as they are.
    """

    layout: Layout
    removed_tasks: Sequence[str] = ()
    updates: dict[str, dict[str, Update]] = field(default_factory=dict)
    links: Links = field(default_factory=dict)
    time: bytes | None = None

    @property
    def sections(self) -> dict[str, bytes]:
        """The sections of the commit."""
        times = {} if self.time is None else {TIME: self.time}
        return times | {LAYOUT: json.dumps(self.layout.to_json()).encode()}


def layout_of(manifest: Manifest) -> Layout | None:
    """The layout of a checkpoint; None: nothing was ever committed."""
    known = read_layout(manifest)
    return Layout.from_json(known) if known else None


def changed_tasks(known: Layout, topology: Topology) -> dict[str, tuple[int, int]]:
    """The components that get another number of tasks: how many they had, and will have."""
    had = {name: kept.tasks for name, kept in known.kept.items()} | {**known.tasks}
    return {
        one.name: (had[one.name], one.tasks)
        for one in topology.spec.components
        if had.get(one.name, one.tasks) != one.tasks
    }


def as_before(known: Layout, topology: Topology) -> Topology:
    """The topology with as many tasks of each component as it had."""
    old = {name: old for name, (old, _) in changed_tasks(known, topology).items()}
    return topology.with_each(lambda one: {"num_tasks": old[one.name]} if one.name in old else {})
