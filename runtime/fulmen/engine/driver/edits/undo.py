"""Takes a change of a person back: the keys that it has changed get what they had before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from fulmen.checkpoint import Store, tasks_in
from fulmen.engine.driver.edits.changes import Author, OldValue, StateChange, changes_in, old_values
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.entries import GONE, StateWriter, fields_now
from fulmen.engine.driver.edits.owners import Owners
from fulmen.engine.state.committed_entries import entries_in
from fulmen.engine.state.journals import FIELDS
from fulmen.engine.state.pickling import digest
from fulmen.errors import CheckpointError, StateError, repr_of

Now = tuple[int, Any]
"""The task that has a key, and the value."""


def undo(store: Store, number: int, author: Author, *, anyway: bool = False) -> StateChange:
    """Take the change of commit `number` back.

    Args:
        store: The checkpoint.
        number: The commit.
        author: Who does it.
        anyway: Also if a key was changed again since then, which is lost.

    Raises:
        CheckpointError: There is no such change, it can't be undone, or a key was changed since.
    """
    edit = Edit(store, author)
    change = next((one for one in changes_in(edit.manifest) if one.number == number), None)
    if change is None:
        raise CheckpointError(
            f"checkpoint {store.uri}: commit {number} is none of the last changes that people have"
            " made. `fulmen state log` lists them."
        )
    if change.component not in tasks_in(edit.manifest):
        raise CheckpointError(
            f"checkpoint {store.uri}: commit {number} has changed component {change.component!r},"
            " and the checkpoint has nothing of it any more, so it can't be undone."
        )
    writer = StateWriter(edit, change.component, change.kind or "state")
    olds = {(one.task, one.key): one for one in old_values(store, edit.manifest, change)}
    now = _now(edit, change, olds.values())
    if not anyway:
        _check_unchanged(store, change, olds.values(), now)
    owners = Owners(store, edit.manifest, change.component, change.kind)
    for old in olds.values():
        task, value = now.get(_name(change, old), (None, GONE))
        if not old.was_there and task is None:
            continue
        if task is None:
            task = old.task if change.tasks == writer.tasks else owners.task_of(old.key)
        if task is None:
            raise StateError(
                f"component {change.component!r} had {change.tasks} tasks and has {writer.tasks}"
                f" now, and its keys don't show which of them {repr_of(old.key)} belongs to. Set it"
                " with --task"
            )
        writer.write(task, old.key, old.value if old.was_there else GONE, value)
    return writer.commit(f"undo {number}")


def _name(change: StateChange, old: OldValue) -> Any:
    return (old.task, old.key) if change.kind == FIELDS else old.key


def _now(edit: Edit, change: StateChange, olds: Iterable[OldValue]) -> dict[Any, Now]:
    if change.kind == FIELDS:
        fields = fields_now(edit, change.component)
        return {name: (name[0], value) for name, value in fields.items()}
    keys = {old.key for old in olds}
    entries = entries_in(edit.store, edit.manifest, change.component, change.kind)
    return {entry.key: (entry.task, entry.value) for entry in entries if entry.key in keys}


def _check_unchanged(
    store: Store, change: StateChange, olds: Iterable[OldValue], now: dict[Any, Now]
) -> None:
    changed = list(islice(_changed(change, olds, now), 4))
    if not changed:
        return
    names = ", ".join(map(repr_of, changed[:3])) + (", …" if len(changed) > 3 else "")
    raise CheckpointError(
        f"checkpoint {store.uri}: since commit {change.number} ({change.action}),"
        f" {change.component!r} has changed {names} again, and an undo would lose that. Set them to"
        " what they should be, or say --anyway. Nothing was changed."
    )


def _changed(change: StateChange, olds: Iterable[OldValue], now: dict[Any, Now]) -> Iterator[Any]:
    for old in olds:
        _, value = now.get(_name(change, old), (0, GONE))
        if (None if value is GONE else digest(value, {})) != old.after:
            yield old.key
