"""Reads what components keep out of a checkpoint, while the topology runs or afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from fulmen.checkpoint import Manifest, Store, load_many, read_newest, read_state_part, tasks_in
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.state.entries.keyed_state import KeyedState, is_of, segment_journals
from fulmen.engine.state.entries.own_blocks import of_many, own_blocks, settle, take_many
from fulmen.engine.state.entries.segment_blocks import (
    HEAD_BYTES,
    BlockContent,
    blocks_for,
    blocks_in,
    content,
    decode,
    head_bytes,
)
from fulmen.engine.state.fields import fields_of
from fulmen.engine.state.journals import FIELDS, STATE, TIMERS
from fulmen.errors import NotFound, text_of
from fulmen.plan import task_of_key

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
        tasks = find_key(store, manifest, component, text)
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


def find_key(
    store: Store, manifest: Manifest, component: str, text: str
) -> dict[int, dict[Any, Any]]:
    """Do what `read_key` does for one commit. NotFound: it is too old to be read."""
    return {
        task: _find(store, manifest, key, text)
        for key, task in sorted(tasks_of(manifest, component).items(), key=itemgetter(1))
    }


def _find(store: Store, manifest: Manifest, key: str, text: str) -> dict[Any, Any]:
    """Find the entries of one task under a key that is shown as `text`."""
    journals = manifest.tasks[key]
    files = {
        journal: refs[-1].file
        for journal, refs in journals.items()
        if journal.startswith(f"{STATE}.") and refs[-1].file is not None
    }
    rest = load_many(store, manifest, [key], lambda s: is_of(STATE, s) and s not in files)[key]
    items: dict[Any, Any] = dict(KeyedState.restore({STATE: rest.get(STATE, ())}))
    names = segment_journals(journals, STATE)
    many = of_many(names)
    for journal in names:
        file = files.get(journal)
        where = f"checkpoint {store.uri}, {file or journal!r}"
        contents = (
            decode(where, rest[journal][0]) if file is None else _blocks(store, where, file, text)
        )
        for (groups, deleted), _ in own_blocks(journal, contents):
            if many is not None:
                take_many(many, journal, groups, deleted)
            for _, entries in groups:
                items.update(entries)
            for gone in deleted:
                items.pop(gone, None)
    if many is not None:
        settle(many, items, {})
    return {entry_key: value for entry_key, value in items.items() if text_of(entry_key) == text}


def _blocks(store: Store, where: str, file: str, text: str) -> Iterator[BlockContent]:
    """The blocks of a segment that may have a key which is shown as `text`."""
    head = read_state_part(store, file, 0, HEAD_BYTES)
    if head_bytes(head) > len(head):
        head = read_state_part(store, file, 0, head_bytes(head))
    blocks = blocks_in(where, head)
    for number in blocks_for(text, len(blocks)):
        block = blocks[number]
        if block.length:
            yield content(where, block, read_state_part(store, file, block.start, block.length))


def tasks_of(manifest: Manifest, component: str) -> dict[str, int]:
    """The keys of a component's tasks, and their numbers within it."""
    keys = {key: task_of_key(key) for key in manifest.tasks}
    return {key: number for key, (name, number) in keys.items() if name == component}
