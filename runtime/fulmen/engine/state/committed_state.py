"""Reads what components keep out of a checkpoint, while the topology runs or afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fulmen.checkpoint import Store, load_many, read_newest, tasks_in
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.state.entries.keyed_state import KeyedState, is_of
from fulmen.engine.state.fields import fields_of
from fulmen.engine.state.journals import FIELDS, STATE, TIMERS
from fulmen.engine.state.key_finder import KeyFinder, tasks_of
from fulmen.errors import NotFound

T = TypeVar("T")

_TRIES = 5


@dataclass(frozen=True)
class CommittedState:
    """The state of one component, as one commit left it.

    Attributes:
        topology: The name of the topology that the checkpoint belongs to.
        number: The number of the commit.
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
    return tasks_in(read_newest(store))


def read_state(store: Store, component: str) -> CommittedState:
    """The keyed state of a component, exactly as the newest commit left it.

    The classes of keys and values must be importable.

    Raises:
        CheckpointError: The checkpoint can't be read.
    """
    return _read_entries(store, component, STATE)


def read_key(store: Store, component: str, text: str) -> CommittedState:
    """The keys of a component's keyed state that are shown as `text`, with their values.

    Reads no more of the checkpoint than finding them takes. Needs and raises what `read_state`
    does.
    """

    def newest() -> CommittedState:
        manifest = read_newest(store)
        tasks = KeyFinder(store).find(manifest, component, text)
        return CommittedState(manifest.topology, manifest.number, tasks)

    return again(newest)


def read_fields(store: Store, component: str) -> CommittedState:
    """The durable fields of a component's instances. Needs and raises what `read_state` does."""
    return _read(store, component, fields_of, lambda journal: journal == FIELDS)


def read_timers(store: Store, component: str) -> CommittedState:
    """The timers of a bolt: key -> when it is due, as in `TaskTimers`.

    Needs and raises what `read_state` does.
    """
    return _read_entries(store, component, TIMERS)


def _read_entries(store: Store, component: str, name: str) -> CommittedState:
    restore = partial(KeyedState.restore, name=name)
    return _read(store, component, restore, partial(is_of, name))


def _read(
    store: Store,
    component: str,
    kept: Callable[[Journals], Mapping[Any, Any]],
    wanted: Callable[[str], bool],
) -> CommittedState:
    def newest() -> CommittedState:
        manifest = read_newest(store)
        keys = tasks_of(manifest, component)
        loaded = load_many(store, manifest, keys, wanted)
        tasks = {task: kept(loaded[key]) for key, task in keys.items()}
        return CommittedState(manifest.topology, manifest.number, dict(sorted(tasks.items())))

    return again(newest)


def again(read: Callable[[], T]) -> T:
    """Read out of a checkpoint, though a topology that runs may delete what is looked for."""
    for _ in range(_TRIES - 1):
        with suppress(NotFound):  # a running topology has gone on, and deleted what we look for
            return read()
    return read()
