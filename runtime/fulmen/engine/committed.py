"""Reads what components keep out of a checkpoint, while the topology runs or afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fulmen.checkpoint import Store, load_many, read_newest
from fulmen.engine.fields import fields_in
from fulmen.engine.instances import Slots
from fulmen.engine.state import KeyedState
from fulmen.errors import NotFound

_TRIES = 5


@dataclass(frozen=True)
class CommittedState:
    """What one component keeps, as one commit left it.

    Attributes:
        topology: Whose checkpoint it is.
        number: Of the commit.
        tasks: The keys and values of each task's state, or the names and values of its fields, by
            the task's number within the component, from 0.
    """

    topology: str
    number: int
    tasks: Mapping[int, Mapping[Any, Any]]


def read_components(store: Store) -> dict[str, int]:
    """The number of tasks of each component in a checkpoint; empty if nothing was committed.

    Raises:
        CheckpointError: It can't be read.
    """
    layout = read_newest(store).sections.get("layout")
    return dict(json.loads(layout)["tasks"]) if layout else {}


def read_state(store: Store, component: str) -> CommittedState:
    """The keyed state of a component, exactly as the newest commit left it.

    The classes of keys and values must be importable.

    Raises:
        CheckpointError: The checkpoint can't be read.
    """
    return _read(store, component, lambda slots, n: KeyedState.restore(slots.get("state", ()), n))


def read_fields(store: Store, component: str) -> CommittedState:
    """The durable fields of a component's instances. Needs and raises what `read_state` does."""

    def fields(slots: Slots, _: int) -> Mapping[str, Any]:
        records = slots.get("fields")
        return fields_in(records[-1]) if records else {}

    return _read(store, component, fields)


def read_dropped(store: Store, component: str) -> CommittedState:
    """The tuples of a spout that were dropped because they kill their workers, by number."""
    return _read(store, component, lambda slots, n: KeyedState.restore(slots.get("dropped", ()), n))


def _read(
    store: Store, component: str, kept: Callable[[Slots, int], Mapping[Any, Any]]
) -> CommittedState:
    for _ in range(_TRIES - 1):
        with suppress(NotFound):  # a running topology has gone on, and deleted what we look for
            return _read_newest(store, component, kept)
    return _read_newest(store, component, kept)


def _read_newest(
    store: Store, component: str, kept: Callable[[Slots, int], Mapping[Any, Any]]
) -> CommittedState:
    manifest = read_newest(store)
    keys = {key: _task_of(key, component) for key in manifest.tasks}
    found = load_many(store, manifest, [key for key, task in keys.items() if task is not None])
    tasks = {
        task: kept(found[key], manifest.number) for key, task in keys.items() if task is not None
    }
    return CommittedState(manifest.topology, manifest.number, dict(sorted(tasks.items())))


def _task_of(key: str, component: str) -> int | None:
    """The number within `component` of the task with this key in the checkpoint."""
    name, _, number = key.rpartition("/")
    return int(number) if name == component else None
