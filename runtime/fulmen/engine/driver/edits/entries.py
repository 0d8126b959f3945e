"""Sets and removes keys of keyed state, and fields, in one commit; keeps what was there before.

What is set is a segment more, as a batch would have written it: nothing of a state is read again
for that, however large it is. What is large is saved piece by piece before the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fulmen.api.keys import NAN_CURE, NOT_EQUAL_TO_ITSELF, has_nan
from fulmen.checkpoint import load_many, tasks_in
from fulmen.engine.driver.edits.changes import (
    SHOWN_KEYS,
    OldValue,
    StateChange,
    old_entries,
    outdated,
)
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.state.entries.measures import KeyMeasures, quick_size
from fulmen.engine.state.entries.segment_format import encode
from fulmen.engine.state.fields import record_of
from fulmen.engine.state.journals import FIELDS, OLDER
from fulmen.engine.state.pickling import digest, dumps
from fulmen.engine.state.values import unreadable
from fulmen.engine.state.values.key_text import shown_key
from fulmen.errors import StateError, repr_of
from fulmen.plan import task_key

GONE: Final = object()
"""In the place of a value: the key is to go."""
PIECE_BYTES = 8 << 20
"""So much is gathered before it is saved."""
_UNKNOWN_BYTES = 200


class StateWriter:
    """Writes keys, fields and what was there before for one `Edit`."""

    def __init__(self, edit: Edit, component: str, kind: str) -> None:
        """Write to the state of `component` whose journals begin with `kind`, or its fields."""
        self._edit = edit
        self._component = component
        self._kind = kind
        self.tasks = tasks_in(edit.manifest)[component]
        self.count = 0
        self._shown: list[str] = []
        self._new: dict[int, dict[Any, Any]] = {}
        self._before: list[OldValue] = []
        self._bytes = 0
        self._pieces: dict[str, int] = {}

    def write(self, task: int, key: Any, value: Any, before: Any = GONE) -> None:
        """Set a key of a task, or remove it.

        Args:
            task: The task, counted from 0 within the component.
            key: The key, or the name of the field.
            value: Its new value, or `GONE`.
            before: The value that it has, or `GONE`.

        Raises:
            StateError: No restart would find the key, or the value can't be kept.
        """
        after = None if value is GONE else digest_of(key, value)
        self.keep(task, key, before, after)
        self.set(task, key, value)

    def keep(self, task: int, key: Any, before: Any, after: bytes | None) -> None:
        """Keep what a key has, or `GONE`, for an undo. `after` is the digest of what it gets."""
        was_there = before is not GONE
        self._before.append(
            OldValue(task, self._kind, key, was_there, before if was_there else None, after)
        )
        self.count += 1
        if len(self._shown) < SHOWN_KEYS:
            self._shown.append(shown_key(key))
        self._gathered(key, before)

    def set(self, task: int, key: Any, value: Any) -> None:
        """Set a key of a task, or remove it. What it had is to be kept by `keep`."""
        self._new.setdefault(task, {})[key] = value
        self._gathered(key, value)

    def _gathered(self, *values: Any) -> None:
        self._bytes += sum(quick_size(value) or _UNKNOWN_BYTES for value in values)
        if self._bytes >= PIECE_BYTES and self._kind != FIELDS:
            self._save()

    def commit(self, action: str) -> StateChange:
        """Make the commit. Raises what `Edit.commit` does."""
        self._save()
        for key, journal in outdated(self._edit.manifest, self._component):
            self._edit.drop(key, journal)
        change = StateChange(
            action, self._component, self._kind, self.count, self._shown, tasks=self.tasks
        )
        self._edit.commit(change)
        return change

    def _save(self) -> None:
        for task, new in sorted(self._new.items()):
            if self._kind == FIELDS:
                self._save_fields(task, new)
            else:
                values = {key: value for key, value in new.items() if value is not GONE}
                gone = [key for key, value in new.items() if value is GONE]
                self._append(task_key(self._component, task), self._kind, values, gone)
        self._append(task_key(self._component, 0), OLDER, old_entries(self._before), [])
        self._new, self._before, self._bytes = {}, [], 0

    def _append(
        self, key: str, name: str, values: Mapping[Any, Any], deleted: Sequence[Any]
    ) -> None:
        for piece in encode(values, deleted, {}, KeyMeasures()):
            place = f"{key} {name}"
            number = self._pieces[place] = self._pieces.get(place, -1) + 1
            self._edit.put(key, f"{name}.{self._edit.number}.{number}", piece.data)

    def _save_fields(self, task: int, new: Mapping[str, Any]) -> None:
        key = task_key(self._component, task)
        record, digests = _fields_record(self._edit, key)
        for name, value in new.items():
            if value is GONE:
                record.pop(name, None)
            else:
                record[name] = value
        if reason := unreadable.why_not(record):
            raise StateError(
                f"component {self._component!r}, task {task}: its fields can't be written again, as"
                f" one of them can't be read ({reason}). Name the folder with the author's classes"
            )
        self._edit.put(key, FIELDS, dumps((record, *digests), {}))


def digest_of(key: Any, value: Any) -> bytes:
    """The digest of a value that a key is to get.

    Raises:
        StateError: No restart would find the key, or the value can't be kept.
    """
    if has_nan(key):
        raise StateError(f"the key {repr_of(key)} {NOT_EQUAL_TO_ITSELF}. {NAN_CURE}")
    after = digest(value, {})
    if after is None:
        raise StateError(f"the value of {repr_of(key)} can't be pickled: {repr_of(value)}")
    return after


def fields_now(edit: Edit, component: str) -> dict[tuple[int, str], Any]:
    """The fields of a component's tasks, by task and name."""
    found = {}
    for task in range(tasks_in(edit.manifest)[component]):
        record, _ = _fields_record(edit, task_key(component, task))
        found.update({(task, name): value for name, value in record.items()})
    return found


def _fields_record(edit: Edit, key: str) -> tuple[dict[str, Any], Iterable[Any]]:
    journals = load_many(edit.store, edit.manifest, [key], lambda journal: journal == FIELDS)[key]
    data = record_of(journals)
    if data is None:
        return {}, ({}, {})
    fields, *digests = unreadable.loads(data)
    return fields, digests
