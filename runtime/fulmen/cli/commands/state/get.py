"""`fulmen state get`: what a component keeps in keyed state or fields, read from a checkpoint."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import click

from fulmen.checkpoint import Store
from fulmen.cli.bad_input import BadInput
from fulmen.cli.commands.state.kept import (
    KeptState,
    StateKind,
    kind_option,
    on_component,
    output_option,
)
from fulmen.cli.commands.state.literals import key_of
from fulmen.cli.display.kept_values import (
    ShownRow,
    StateEntry,
    field_lines,
    plain,
    shown,
    state_lines,
    timers_of,
    windows_of,
)
from fulmen.cli.streams import echo, tell
from fulmen.engine.driver.edits.repair import Removed, find_unreadable
from fulmen.engine.state.committed_state import (
    CommittedState,
    read_fields,
    read_key,
    read_state,
    read_timers,
)
from fulmen.errors import FulmenError
from fulmen.visible import visible

Read = Callable[[Store, str], CommittedState]

OF_TIME: Mapping[StateKind, tuple[Read, Callable[..., Sequence[ShownRow]], str]] = {
    StateKind.WINDOWS: (read_state, windows_of, "open windows of an Aggregate"),
    StateKind.TIMERS: (read_timers, timers_of, "timers"),
}


@click.command(short_help="Show what a component keeps: keyed state, or fields.")
@on_component
@kind_option(
    *(
        StateKind.STATE,
        StateKind.FIELDS,
        StateKind.WINDOWS,
        StateKind.TIMERS,
        StateKind.UNREADABLE,
    ),
    text="What is shown. state: self.state. fields: those of the instances, such as a spout's"
    " position. windows: the open ones of an Aggregate. timers: those of a bolt, the next one"
    " first. unreadable: what of its state, fields and message ids can't be read any more, and"
    " why.",
)
@click.option("--key", help="Show only the key, or field, that is written like this.")
@click.option(
    "--like",
    metavar="PATTERN",
    help="Show only the keys, or fields, that match: * stands for anything, ? for a character.",
)
@click.option("--top", type=click.IntRange(1), metavar="N", help="Show only the N largest values.")
@output_option("The format. json: a list of {key, value, task}; task is counted from 0.")
def get(
    kept: KeptState,
    kind: StateKind,
    key: str | None,
    like: str | None,
    top: int | None,
    output: str,
) -> None:
    """Show `self.state` of all tasks of COMPONENT as the newest commit in CHECKPOINT left it.

    With --kind fields, show the fields of its instances instead, task by task. With --kind windows,
    show the windows of an Aggregate that are open: when each begins, its key, and what is kept of
    it. With --kind timers, show when the timers of a bolt are due by event time, or in seconds of
    the batch clock. With --kind unreadable, show each key, field, timer, message id and metadata
    that can't be read, as its class is gone, or was changed, or can be pickled and not unpickled.

    The topology may be running.
    """
    if kind in OF_TIME and (top, like) != (None, None):
        raise BadInput("--top and --like are for values, and not for windows and timers.")
    if kind is StateKind.UNREADABLE:
        with kept.opened() as store:
            tell_unreadable(kept, find_unreadable(store, kept.component))
    elif kind in OF_TIME:
        _print(output, *_rows_of_time(kept, kind, key, output))
    else:
        entries = _entries(kept, kind, key, like)
        entries = entries if top is None else _largest(entries, top)
        _print(output, [vars(entry) for entry in entries], VALUES[kind][1](entries))


def _print(output: str, contents: Iterable[Mapping[str, Any]], lines: Iterable[str]) -> None:
    if output == "json":
        echo(json.dumps([plain(one) for one in contents], indent=2, ensure_ascii=False))
        return
    for line in lines:
        echo(visible(line))


def tell_unreadable(kept: KeptState, found: Sequence[Removed]) -> None:
    """Print what can't be read."""
    for one in found:
        echo(visible(f"task {one.task}  {one.where}  {one.key}  {one.reason}"))
    if not found:
        tell(f"everything that {kept.component!r} keeps is readable.")


def _rows_of_time(
    kept: KeptState, kind: StateKind, key: str | None, output: str
) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
    """Read its windows or timers: contents for programs, lines for people."""
    read, rows_of, what = OF_TIME[kind]
    with kept.opened() as store:
        rows = rows_of(read(store, kept.component), key)
    if not rows and output != "json":
        of = "" if key is None else f" of the key {key!r}"
        raise FulmenError(f"component {kept.component!r} has no {what}{of}.")
    return [row.content for row in rows], [row.line for row in rows]


def _entries(
    kept: KeptState, kind: StateKind, key: str | None, like: str | None
) -> Sequence[StateEntry]:
    """Read its values; if a key is given, only that one, which has to be there."""
    read, wanted = VALUES[kind][0], key
    with kept.opened() as store:
        if key is not None and kind is StateKind.STATE:
            found = read_key(store, kept.component, key).tasks
            if not any(found.values()):
                wanted = str(key_of(key))
                found = read_key(store, kept.component, wanted).tasks
        else:
            found = read(store, kept.component).tasks
        entries = [StateEntry(k, v, task) for task, of in found.items() for k, v in of.items()]
    if (key, like) == (None, None):
        if not entries:
            tell(_nothing(kept.component, kind))
        return entries
    entries = [
        entry
        for entry in entries
        if wanted in (None, str(entry.key))
        and (like is None or fnmatchcase(shown(entry.key), like))
    ]
    if not entries:
        what = "field" if kind is StateKind.FIELDS else "key"
        where = "" if kind is StateKind.FIELDS else " in its state"
        none = f"no {what} {key!r}" if key is not None else f"no {what} like {like!r}"
        raise FulmenError(f"component {kept.component!r} has {none}{where}.")
    return entries


def _nothing(component: str, kind: StateKind) -> str:
    where, other = "self.state", "--kind fields shows the fields of its instances."
    if kind is StateKind.FIELDS:
        where, other = "fields", "Without --kind fields, its self.state is shown."
    return (
        f"component {component!r} has nothing in {where}. What is kept in a global variable, or in "
        f"a field of the class itself, is lost with its process. {other}"
    )


def _largest(entries: Sequence[StateEntry], count: int) -> list[StateEntry]:
    """The entries with the largest values, largest first; equal ones by their keys."""
    by_key = sorted(entries, key=lambda entry: shown(entry.key))
    try:
        return sorted(by_key, key=lambda e: e.value, reverse=True)[:count]
    except TypeError as error:
        raise BadInput(f"--top: the values can't be put in order ({error}).") from error


VALUES: dict[StateKind, tuple[Read, Callable[[Sequence[StateEntry]], Iterator[str]]]] = {
    StateKind.STATE: (read_state, state_lines),
    StateKind.FIELDS: (read_fields, field_lines),
}
"""How values are read, and the lines of their table."""
