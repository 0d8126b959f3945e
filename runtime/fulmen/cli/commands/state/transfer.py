"""`fulmen state export` and `import`: keys and fields of a component, to a file and back."""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from fulmen.checkpoint import Manifest, Store, read_newest
from fulmen.cli.bad_input import BadInput
from fulmen.cli.commands.state.change import tell_undo
from fulmen.cli.commands.state.kept import (
    KeptState,
    StateKind,
    by_author,
    ends_driver_option,
    kind_option,
    on_component,
)
from fulmen.cli.commands.state.row_files import RowCounts, reader_of, writer_of
from fulmen.cli.display.kept_values import shown
from fulmen.cli.streams import tell
from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.driver.edits.imports import ImportedRow, ImportRefused, import_rows
from fulmen.engine.state.committed_entries import entries_in
from fulmen.engine.state.committed_state import read_fields
from fulmen.engine.state.journals import STATE
from fulmen.engine.state.values.json_form import from_json, has_shown, to_json
from fulmen.errors import NotFound
from fulmen.visible import visible_lines
from fulmen.windows.shown import shown_windows

MOST_PROBLEMS = 50
"""So many wrong rows are told, and how many there are besides."""
_TRIES = 5


@click.command("export", short_help="Write keys, fields or windows to a file.")
@on_component
@click.argument("file", type=click.Path(path_type=Path))
@kind_option(
    *(StateKind.STATE, StateKind.FIELDS, StateKind.WINDOWS),
    text="What is written: self.state, the fields of the instances, or the open windows of an"
    " Aggregate.",
)
@click.option(
    "--like",
    metavar="PATTERN",
    help="Only the keys, or fields, that match: * stands for anything, ? for a character.",
)
def export(kept: KeptState, file: Path, kind: StateKind, like: str | None) -> None:
    """Write the state of COMPONENT to FILE: JSON lines (.jsonl), or Parquet (.parquet).

    Each row has a key, its value, and the task, counted from 0. All of it is of one commit; the
    topology may be running. Types are kept: see `fulmen state import`, which reads the file.
    """
    if file.exists():
        raise BadInput(f"'{file}' is there already, and nothing is overwritten. Name another file.")
    with kept.opened() as store:
        number, written = _exported(store, kept.component, kind, like, file)
    tell(f"{written.rows} rows of commit {number} are in '{file}'.")
    if written.shown:
        tell(
            f"{written.shown} of them have objects of classes, as text. They can be looked at, and"
            " not imported."
        )


def _exported(
    store: Store, component: str, kind: StateKind, like: str | None, file: Path
) -> tuple[int, RowCounts]:
    for turn in range(_TRIES):
        try:
            manifest = read_newest(store)
            rows = (
                row
                for row in _rows(store, manifest, component, kind)
                if like is None or fnmatchcase(shown(row["key"]), like)
            )
            return manifest.number, writer_of(file)(_as_json(row) for row in rows)
        except NotFound:  # a running topology has gone on, and deleted what we look for
            if turn == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _rows(
    store: Store, manifest: Manifest, component: str, kind: StateKind
) -> Iterator[Mapping[str, Any]]:
    if kind is StateKind.FIELDS:
        for task, fields in read_fields(store, component).tasks.items():
            for name, value in fields.items():
                yield {"key": name, "value": value, "task": task}
        return
    for task, key, value in entries_in(store, manifest, component, STATE):
        if kind is StateKind.STATE:
            yield {"key": key, "value": value, "task": task}
            continue
        for window in shown_windows(key, value):
            times = {"window_start": window.start, "window_end": window.end}
            yield {"key": window.key, "value": window.kept, "task": task, **times}


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "key": to_json(row["key"]), "value": to_json(row["value"])}


@click.command("import", short_help="Set keys or fields to what a file says.")
@on_component
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@kind_option(StateKind.STATE, StateKind.FIELDS, text="What the file has.")
@click.option("--any-type", is_flag=True, help="Also where a value was of another type before.")
@click.option(
    "--tasks-of-file",
    "uses_tasks",
    is_flag=True,
    help="Put a new key whose task can't be told by the others into the one that the file names.",
)
@ends_driver_option
@by_author
def import_file(
    kept: KeptState,
    file: Path,
    kind: StateKind,
    any_type: bool,
    uses_tasks: bool,
    ends_driver: bool,
    author: Author,
) -> None:
    """Set keys of the state of COMPONENT, or its fields, to what FILE says: all rows, or none.

    FILE is as `fulmen state export` writes it. Keys that it does not have stay as they are. The
    topology has to be stopped.
    """
    read = reader_of(file)

    def rows() -> Iterator[ImportedRow | str]:
        for place, row in read(file):
            yield row if isinstance(row, str) else _imported(place, row)

    with kept.edited(author, ends_driver=ends_driver) as edit:
        try:
            change = import_rows(
                edit, kept.component, kind.value, rows, any_type=any_type, uses_tasks=uses_tasks
            )
        except ImportRefused as refused:
            raise BadInput(_listed(refused.problems)) from refused
    tell(f"{change.count} rows of '{file}' are in {edit.store.uri}.")
    tell_undo(kept, edit)


def _listed(problems: Iterable[str]) -> str:
    every = list(problems)
    lines = [visible_lines(one) for one in every[:MOST_PROBLEMS]]
    if len(every) > MOST_PROBLEMS:
        lines.append(f"and {len(every) - MOST_PROBLEMS} more.")
    return "\n".join([*lines, "Nothing was changed."])


def _imported(place: str, row: Any) -> ImportedRow | str:
    if not isinstance(row, dict) or not {"key", "value"} <= row.keys():
        return f'{place}: it has to be an object with "key" and "value"'
    if extra := row.keys() - {"key", "value", "task"}:
        return f"{place}: {sorted(extra)[0]!r} is not known. There are: key, value, task"
    task = row.get("task")
    if task is not None and (type(task) is not int or task < 0):
        return f"{place}: the task is a number from 0 on, and not {task!r}"
    if has_shown([row["key"], row["value"]]):
        return (
            f"{place}: it has an object of a class, which was exported as text and can't be read."
            " Leave the row out"
        )
    try:
        return ImportedRow(place, from_json(row["key"]), from_json(row["value"]), task)
    except (ValueError, TypeError) as error:
        return f"{place}: {error}"
