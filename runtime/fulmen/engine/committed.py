"""Reads keyed state (`self.state`) out of a checkpoint, while the topology runs or afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fulmen.checkpoint import Manifest, Store, load_many, read_manifest
from fulmen.checkpoint.log import newest_number
from fulmen.engine.state import KeyedState
from fulmen.errors import NotFound

T = TypeVar("T")
_TRIES = 5


@dataclass(frozen=True)
class CommittedState:
    """The keyed state of one component, as one commit left it.

    Attributes:
        topology: Whose checkpoint it is.
        number: Of the commit.
        tasks: What each task keeps, by the task's number within the component, from 0.
    """

    topology: str
    number: int
    tasks: Mapping[int, Mapping[Any, Any]]


def read_components(store: Store) -> dict[str, int]:
    """The number of tasks of each component in a checkpoint; empty if nothing was committed.

    Raises:
        CheckpointError: It can't be read.
    """
    layout = _patiently(lambda: _newest(store)).sections.get("layout")
    return dict(json.loads(layout)["tasks"]) if layout else {}


def read_state(store: Store, component: str) -> CommittedState:
    """The keyed state of a component, exactly as the newest commit left it.

    The classes of keys and values must be importable.

    Raises:
        CheckpointError: The checkpoint can't be read.
    """

    def read() -> CommittedState:
        manifest = _newest(store)
        keys = {key: _task_of(key, component) for key in manifest.tasks}
        found = load_many(store, manifest, [key for key, task in keys.items() if task is not None])
        tasks = {
            task: KeyedState.restore(found[key].get("state", ()), manifest.number)
            for key, task in keys.items()
            if task is not None
        }
        return CommittedState(manifest.topology, manifest.number, dict(sorted(tasks.items())))

    return _patiently(read)


def _task_of(key: str, component: str) -> int | None:
    """The number within `component` of the task with this key in the checkpoint."""
    name, _, number = key.rpartition("/")
    return int(number) if name == component else None


def _newest(store: Store) -> Manifest:
    return read_manifest(store, newest_number(store))


def _patiently(read: Callable[[], T]) -> T:
    """A running topology goes on while we read, and deletes what it no longer needs: then again."""
    for _ in range(_TRIES - 1):
        with suppress(NotFound):
            return read()
    return read()
