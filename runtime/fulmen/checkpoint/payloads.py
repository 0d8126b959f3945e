"""Reads and writes what a checkpoint holds: which tasks there are, and the state of each.

Whoever reads a checkpoint begins with its section `layout`, which says which tasks there are.

A worker saves tasks' state before a commit, in state files whose names no other attempt has.
Nothing refers to them until the driver commits. What an attempt leaves behind that is never
committed, the driver deletes later.

Loading reads each object once, however many tasks' payloads are in it, and many at a time. Objects
stay for `garbage.LAG` commits after they are dropped, so that the newest few commits can always be
loaded. For an older one loading may raise `NotFound`: then the attempt that asked is obsolete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from fulmen.checkpoint.manifest import Commit, Manifest, Ref, Update
from fulmen.checkpoint.names import COMMITS, STATE, commit_key, number_in, state_file_name
from fulmen.checkpoint.record import STATE_HEADER_BYTES, decode, decode_state, encode_state
from fulmen.checkpoint.rewriting import Journals
from fulmen.checkpoint.store import Store
from fulmen.errors import CheckpointError, NotFound

LAYOUT: Final = "layout"
"""The name of the section that says which tasks there are."""

_TRIES = 5
"""How often the same commit may be the newest with parts of it missing."""
_MOST_TRIES = 100
_AT_ONCE = 64  # objects in memory at the same time, besides what is wanted of them


def save(
    store: Store,
    number: int,
    tag: str,
    task_key: str,
    journal: str,
    data: bytes | None,
    keep_from: int = 0,
) -> Update:
    """Make a payload part of the coming commit, by way of a state file if it is big.

    Args:
        store: The store that a state file goes to.
        number: The commit that the attempt is to become.
        tag: The tag of the attempt.
        task_key: The task.
        journal: The journal, once per attempt.
        data: The payload. None: nothing is appended.
        keep_from: The first commit whose payload in this journal is still needed, see `Update`.

    Returns:
        What the commit has to hold for this journal.

    Raises:
        AlreadyExists: This attempt saved other bytes for this journal before: it ran twice.
        Unreachable: The store does not answer.
    """
    if data is None or len(data) < store.inline_bytes:
        return Update(data, None, keep_from)
    file = state_file_name(number, tag, task_key, journal)
    store.put(file, encode_state(data))
    return Update(None, file, keep_from)


def read_commit(store: Store, number: int) -> Commit:
    """Read one commit, for its transient sections, say. Errors as for `read_manifest`."""
    key = commit_key(number)
    return decode(f"{store.uri}, {key!r}", store.get(key))


def read_manifest(store: Store, number: int) -> Manifest:
    """The state after a commit, from its object and those back to the newest manifest.

    Args:
        store: The store that the commits are in.
        number: The number of the commit. 0: before the first one, an empty manifest.

    Raises:
        NotFound: There is no such commit, or it is too old to be read.
        CheckpointError: An object is damaged, or of a newer format.
    """
    if number == 0:
        return Manifest()
    last = read_commit(store, number)
    keys = [commit_key(n) for n in range(last.base, number)]
    commits = [
        decode(f"{store.uri}, {key!r}", data)
        for key, data in zip(keys, store.get_many(keys), strict=True)
    ]
    commits.append(last)
    manifest = commits[0].manifest
    if manifest is None:
        raise CheckpointError(
            f"checkpoint {store.uri}, {commit_key(last.base)!r}: holds no manifest, but commit"
            f" {number} relies on it. Start the topology with an empty checkpoint, which loses its"
            " state."
        )
    for commit in commits:
        manifest.apply(commit)
    return manifest


def newest_number(store: Store) -> int:
    """The number of the newest commit; 0 if there is none."""
    numbers = (number_in(key) for key in store.list(COMMITS))
    return max((number for number in numbers if number is not None), default=0)


def read_newest(store: Store) -> Manifest:
    """The newest state, also while a driver commits and deletes.

    Raises:
        CheckpointError: An object that it needs is missing, damaged, or of a newer format.
    """
    missing, tries, last = "", 0, -1
    for _ in range(_MOST_TRIES):  # while a driver is at work, what was listed may be gone
        number = newest_number(store)
        tries, last = (tries + 1 if number == last else 1), number
        if tries > _TRIES:
            break
        try:
            manifest = read_manifest(store, number)
        except NotFound as error:
            missing = error.key
            continue
        missing = _first_missing(store, manifest)
        if not missing:
            return manifest
    raise CheckpointError(
        f"checkpoint {store.uri}: {missing!r} is missing, but later commits rely on it. Restore it"
        " from a copy of the store, or start the topology with an empty checkpoint, which loses its"
        " state."
    )


def read_layout(manifest: Manifest) -> Mapping[str, Any]:
    """The layout as it was written; empty if nothing was committed."""
    data = manifest.sections.get(LAYOUT)
    found: Mapping[str, Any] = json.loads(data) if data else {}
    return found


def tasks_in(manifest: Manifest) -> dict[str, int]:
    """The number of tasks of each component, also of those that are gone and whose state is kept.

    Empty if nothing was committed.
    """
    layout = read_layout(manifest)
    kept: dict[str, int] = {name: tasks for name, (tasks, *_) in layout.get("kept", {}).items()}
    return {**kept, **layout.get("tasks", {})}


def _first_missing(store: Store, manifest: Manifest) -> str:
    """The key of an object that the state refers to and the store lacks; "" if none is missing."""
    needed = manifest.objects
    if not needed:
        return ""
    return min(needed.difference(store.list(COMMITS), store.list(STATE)), default="")


def read_state_part(store: Store, file: str, start: int, length: int) -> bytes:
    """A part of the payload in a state file, of which no checksum is looked at.

    Args:
        store: The store that the file is in.
        file: The name of the file.
        start: Where the part begins.
        length: The length of the part. If the payload is shorter, all of the rest.

    Raises:
        NotFound: It is gone: the manifest that names it is too old.
    """
    return store.get_range(file, STATE_HEADER_BYTES + start, length)


def load(store: Store, manifest: Manifest, task_key: str) -> Journals:
    """Load all payloads of one task; no journals if there is none. Errors as for `load_many`."""
    return load_many(store, manifest, [task_key])[task_key]


def load_many(
    store: Store,
    manifest: Manifest,
    task_keys: Iterable[str],
    wanted: Callable[[str], bool] = lambda _: True,
) -> Mapping[str, Journals]:
    """Load all payloads of several tasks, each object read once.

    Args:
        store: The store that the objects are in.
        manifest: The state to load. Any part of it that has these tasks will do.
        task_keys: The tasks.
        wanted: Whether a journal is to be read.

    Returns:
        Task key -> journal -> payloads, in the order of the references in `manifest`. A task that
        has no state has no journals.

    Raises:
        NotFound: An object is gone: the manifest is too old.
        CheckpointError: An object is damaged, or of a newer format.
    """
    loaded: dict[str, dict[str, list[bytes]]] = {}
    places: dict[str, list[_Place]] = {}  # object -> what is wanted of it, and for what
    for task in task_keys:
        journals = loaded[task] = {}
        for journal, refs in manifest.tasks.get(task, {}).items():
            if not wanted(journal):
                continue
            payloads = journals[journal] = [b""] * len(refs)
            for index, ref in enumerate(refs):
                places.setdefault(ref.object, []).append(_Place(ref, payloads, index))
    keys = sorted(places)
    for start in range(0, len(keys), _AT_ONCE):
        chunk = keys[start : start + _AT_ONCE]
        for key, data in zip(chunk, store.get_many(chunk), strict=True):
            _fill(f"{store.uri}, {key!r}", data, places[key])
    return loaded


class _Place(NamedTuple):
    """Where a payload is to go in memory."""

    ref: Ref
    payloads: list[bytes]
    at: int


def _fill(where: str, data: bytes, places: Iterable[_Place]) -> None:
    """Take payloads out of an object, for each of these places."""
    updates = payload = None
    for ref, payloads, at in places:
        if isinstance(ref.place, str):
            payload = payload or decode_state(where, data)
            payloads[at] = payload
            continue
        updates = updates or decode(where, data).updates
        task, journal = ref.place
        inline = updates.get(task, {}).get(journal, Update()).data
        if inline is None:
            raise CheckpointError(
                f"checkpoint {where}: holds no data for {task!r}, journal {journal!r}."
            )
        payloads[at] = inline
