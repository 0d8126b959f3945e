"""Sets keys or fields to what the rows of a file say: all of them, or none.

The rows are read twice, so that their values need not be in memory: once to see that all are right,
and then to write them. Keys are in memory, with a digest of each value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from fulmen.engine.driver.edits.changes import StateChange
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.entries import GONE, StateWriter, digest_of, fields_now
from fulmen.engine.driver.edits.owners import Owners
from fulmen.engine.state.committed_entries import Entry, entries_in
from fulmen.engine.state.journals import FIELDS
from fulmen.errors import StateError, repr_of


class ImportedRow(NamedTuple):
    """A row of a file.

    Attributes:
        place: Where it is, as text.
        key: The key, or the name of a field.
        value: Its value.
        task: The task that had it, by the file; None: the file does not say.
    """

    place: str
    key: Any
    value: Any
    task: int | None


Rows = Callable[[], Iterator[ImportedRow | str]]
"""Reads the rows from the beginning. A text says what is wrong about one."""


class _Expected(NamedTuple):
    place: str
    digest: bytes
    kind: type
    task: int | None


class ImportRefused(Exception):
    """Nothing was changed, as rows are wrong.

    Attributes:
        problems: What is wrong about each of them.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems


def import_rows(
    edit: Edit, component: str, kind: str, rows: Rows, *, any_type: bool, uses_tasks: bool
) -> StateChange:
    """Set all keys, or fields, of these rows in one commit.

    Args:
        edit: The change.
        component: The component.
        kind: The journal of the keyed state, or `FIELDS`.
        rows: The rows.
        any_type: Also where a value was of another type.
        uses_tasks: A new key whose task can't be told goes to the one that its row names.

    Raises:
        ImportRefused: Rows are wrong.
        CheckpointError: Somebody else has committed meanwhile.
    """
    problems: list[str] = []
    is_field = kind == FIELDS
    expected = _expected(rows, problems, is_field=is_field)
    writer = StateWriter(edit, component, kind)
    tasks: dict[Any, int] = {}
    for entry in _entries(edit, component, kind):
        name = (entry.task, entry.key) if is_field else entry.key
        if (one := expected.get(name)) is not None:
            tasks[name] = entry.task
            if not any_type:
                problems += _other_type(entry, one)
            writer.keep(entry.task, entry.key, entry.value, one.digest)
    new = {name: one for name, one in expected.items() if name not in tasks}
    if is_field:
        problems += [f"{one.place}: task {n} has no field {f!r}" for (n, f), one in new.items()]
    elif new:
        _place(Owners(edit.store, edit.manifest, component, kind), new, tasks, problems, uses_tasks)
    if problems:
        raise ImportRefused(problems)
    for name, one in new.items():
        writer.keep(tasks[name], name, GONE, one.digest)
    for row in rows():
        name = row if isinstance(row, str) else (row.task, row.key) if is_field else row.key
        if isinstance(row, str) or not _is_expected(row, expected.get(name)):
            raise ImportRefused(["the file was changed while it was read"])
        writer.set(tasks[name], row.key, row.value)
    return writer.commit("import")


def _is_expected(row: ImportedRow, expected: _Expected | None) -> bool:
    return expected is not None and digest_of(row.key, row.value) == expected.digest


def _expected(rows: Rows, problems: list[str], *, is_field: bool) -> dict[Any, _Expected]:
    expected: dict[Any, _Expected] = {}
    for row in rows():
        if isinstance(row, str):
            problems.append(row)
            continue
        try:
            one = _Expected(row.place, digest_of(row.key, row.value), type(row.value), row.task)
            name = (row.task, row.key) if is_field else row.key
            before = expected.setdefault(name, one)
        except StateError as error:
            problems.append(f"{row.place}: {error}")
        except TypeError:
            problems.append(f"{row.place}: {repr_of(row.key)} can't be a key, since it can change")
        else:
            if before is not one:
                problems.append(f"{row.place}: {repr_of(row.key)} is in {before.place} already")
            if is_field and row.task is None:
                problems.append(f"{row.place}: a field needs the task that has it")
    return expected


def _place(
    owners: Owners,
    new: Mapping[Any, _Expected],
    tasks: dict[Any, int],
    problems: list[str],
    uses_tasks: bool,
) -> None:
    """Find the tasks of keys that are not there yet."""
    for key, one in new.items():
        named = one.task if uses_tasks and owners.task_of(key) is None else None
        try:
            tasks[key] = owners.place(key, named)
        except StateError as error:
            cure = " (here --tasks-of-file), if the file is right about it" if named is None else ""
            problems.append(f"{one.place}: {error}{cure if 'Name it' in str(error) else ''}")


def _entries(edit: Edit, component: str, kind: str) -> Iterator[Entry]:
    if kind == FIELDS:
        fields = fields_now(edit, component)
        return (Entry(task, name, value) for (task, name), value in fields.items())
    return entries_in(edit.store, edit.manifest, component, kind)


def _other_type(entry: Entry, one: _Expected) -> Iterator[str]:
    if entry.value is not None and one.kind not in (type(None), type(entry.value)):
        yield (
            f"{one.place}: the value of {repr_of(entry.key)} is of type {one.kind.__name__}, and"
            f" was of type {type(entry.value).__name__}. If it is meant so, say --any-type"
        )
