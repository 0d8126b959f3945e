"""The entries of a component's keyed state in a checkpoint, one after another.

For those who go through a state of any size: of its values, those of one segment are in memory at a
time. Of its keys, those of one task are, since an older segment may have a key that a newer one has
as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from fulmen.checkpoint import Manifest, Store, load_many
from fulmen.engine.keyed.entries_of_many import NOTHING
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.own_blocks import of_many, own_blocks, share_of
from fulmen.engine.state.entries.segment_blocks import decode
from fulmen.engine.state.key_finder import tasks_of


class Entry(NamedTuple):
    """A key of one task and its value."""

    task: int
    key: Any
    value: Any


def entries_in(store: Store, manifest: Manifest, component: str, name: str) -> Iterator[Entry]:
    """All entries of a keyed state, task by task.

    Args:
        store: The checkpoint's.
        manifest: The commit to read.
        component: Whose they are.
        name: How the journals of that state begin.

    Raises:
        NotFound: The commit is too old to be read.
        CheckpointError: An object is damaged, or of a newer format.
    """
    for key, task in sorted(tasks_of(manifest, component).items(), key=itemgetter(1)):
        seen: set[Any] = set()
        journals = segment_journals(manifest.tasks[key], name)
        many = of_many(journals)
        if many is not None:
            for journal in journals:
                many.take(share_of(journal), *_segment(store, manifest, key, journal))
            for entry_key, value in many.items():
                if value is not NOTHING:
                    yield Entry(task, entry_key, value)
                seen.add(entry_key)
        for journal in reversed(journals):
            new, gone = _segment(store, manifest, key, journal)
            for entry_key, value in new.items():
                if entry_key not in seen:
                    yield Entry(task, entry_key, value)
            seen.update(new)
            seen.update(gone)


def sample_of(
    store: Store, manifest: Manifest, component: str, name: str, most: int
) -> list[tuple[int, Any]]:
    """Some keys of each task, with the tasks: at most so many of each, the newest first.

    A key may have been deleted since.
    """
    found: list[tuple[int, Any]] = []
    for key, task in tasks_of(manifest, component).items():
        some: dict[Any, None] = {}
        for journal in reversed(segment_journals(manifest.tasks[key], name)):
            if len(some) < most:
                some.update(dict.fromkeys(_segment(store, manifest, key, journal)[0]))
        found += [(task, one) for one in list(some)[:most]]
    return found


def _segment(
    store: Store, manifest: Manifest, key: str, journal: str
) -> tuple[dict[Any, Any], Sequence[Any]]:
    """What a segment sets, and which keys it deletes."""
    loaded = load_many(store, manifest, [key], lambda name: name == journal)[key]
    items: dict[Any, Any] = {}
    gone: list[Any] = []
    for data in loaded[journal]:
        blocks = decode(f"checkpoint {store.uri}, {key!r}, {journal!r}", data)
        for (groups, deleted), _ in own_blocks(journal, blocks):
            for _, entries in groups:
                items.update(entries)
            gone += deleted
    return items, gone
