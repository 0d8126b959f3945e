"""Writes a very large keyed state into a checkpoint, as commits of its tasks would, and fast."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fulmen.checkpoint import CommitLog, Store, Update, save
from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.positions import positions, task_index
from fulmen.engine.state.entries.segment_format import encode_pickled
from fulmen.engine.state.journals import STATE

AT_ONCE = 100_000
SEGMENT_BYTES = 1 << 20


def shuffled(places: np.ndarray, keys: int) -> np.ndarray:
    """Numbers of keys in an order that is none of theirs, without a list of all."""
    step = int(keys * 0.618) | 1
    while math.gcd(step, keys) > 1:
        step += 2
    found: np.ndarray = places * step % keys
    return found


def write_state(
    store: Store,
    log: CommitLog,
    tasks: list[str],
    keys: int,
    entry: Callable[[int], tuple[Any, Any]],
) -> None:
    """Commit the state of all keys, none of which was there.

    Args:
        store: The checkpoint's.
        log: Its commits, claimed.
        tasks: The keys of all tasks of the component.
        keys: How many there are.
        entry: Key and value of a number.
    """
    for start in range(0, keys, AT_ONCE):
        numbers = shuffled(np.arange(start, min(keys, start + AT_ONCE)), keys).tolist()
        entries = dict(map(entry, numbers))
        number = log.manifest.number + 1
        updates = {task: _saved(store, number, task, own) for task, own in _dealt(entries, tasks)}
        clock = log.manifest.clock
        log.commit(log.draft(tag=f"t{number}", clock=clock, updates=updates))
        log.collect()


def _dealt(
    entries: Mapping[Any, Any], tasks: list[str]
) -> Iterable[tuple[str, Mapping[Any, bytes]]]:
    """What each task gets of it, pickled."""
    keys = list(entries)
    if len(tasks) == 1:
        homes = np.zeros(len(keys), np.intp)
    else:
        homes = task_index(positions([column_hash(keys)]), len(tasks))
    for i, task in enumerate(tasks):
        own = [keys[at] for at in np.flatnonzero(homes == i).tolist()]
        yield task, {key: pickle.dumps(entries[key], 5) for key in own}


def _saved(store: Store, number: int, task: str, own: Mapping[Any, bytes]) -> dict[str, Update]:
    pieces = enumerate(encode_pickled(own, [], SEGMENT_BYTES))
    named = ((f"{STATE}.{number}.{i}", piece.data) for i, piece in pieces)
    return {
        journal: save(store, number, f"t{number}", task, journal, data, 0)
        for journal, data in named
    }
