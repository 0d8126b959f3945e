"""`fulmen state set` and `delete`: keys and fields of a component, by hand."""

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from fulmen.cli.bad_input import BadInput
from fulmen.cli.commands.state.get import tell_unreadable
from fulmen.cli.commands.state.kept import (
    KeptState,
    StateKind,
    by_author,
    ends_driver_option,
    kind_option,
    on_component,
)
from fulmen.cli.commands.state.literals import key_of, value_of
from fulmen.cli.display.kept_values import is_of_window, shown
from fulmen.cli.streams import echo, tell
from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.entries import GONE, StateWriter, fields_now
from fulmen.engine.driver.edits.owners import Owners
from fulmen.engine.driver.edits.repair import remove_unreadable
from fulmen.engine.state.committed_entries import Entry, entries_in
from fulmen.engine.state.journals import STATE, TIMERS
from fulmen.engine.state.key_finder import KeyFinder
from fulmen.engine.state.values.key_text import shown_key
from fulmen.errors import FulmenError
from fulmen.topology.problems import did_you_mean
from fulmen.visible import visible

_NEGATIVE = re.compile(r"-(\d|\.\d|inf)")


class _WithNegatives(click.Command):
    """A command whose arguments may be numbers below 0, which no option is named like."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options: list[str] = []
        arguments: list[str] = []
        named = [one for one in self.params if isinstance(one, click.Option) and not one.is_flag]
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                arguments += rest
            elif arg.startswith("-") and not _NEGATIVE.match(arg):
                options.append(arg)
                if any(arg in one.opts for one in named):
                    options += islice(rest, 1)
            else:
                arguments.append(arg)
        return super().parse_args(ctx, [*options, "--", *arguments])


@click.command("set", cls=_WithNegatives, short_help="Set one key, or one field, by hand.")
@on_component
@click.argument("key")
@click.argument("value", required=False)
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file with the value, instead of VALUE.",
)
@kind_option(
    StateKind.STATE, StateKind.FIELDS, text="What KEY is: a key of self.state, or a field."
)
@click.option("--task", type=click.IntRange(0), metavar="N", help="The task, counted from 0.")
@click.option("--new", is_flag=True, help="Add the key, which is not there yet.")
@click.option("--any-type", is_flag=True, help="Also if the value was of another type before.")
@ends_driver_option
@by_author
def set_value(
    kept: KeptState,
    key: str,
    value: str | None,
    from_file: Path | None,
    kind: StateKind,
    task: int | None,
    new: bool,
    any_type: bool,
    ends_driver: bool,
    author: Author,
) -> None:
    """Set KEY of the state of COMPONENT to VALUE. The topology has to be stopped.

    KEY is written as `fulmen state get` shows it. VALUE is JSON, in which other types are objects
    as `fulmen state export` writes them, or a literal of Python, such as (1, "a").
    """
    if (value is None) == (from_file is None):
        raise BadInput("give VALUE, or --from-file with the file that has it: one of them.")
    text = value if from_file is None else from_file.read_text(encoding="utf-8")
    wanted = value_of(text or "", "VALUE" if from_file is None else str(from_file))
    with kept.edited(author, ends_driver=ends_driver) as edit:
        find = _field if kind is StateKind.FIELDS else _key
        entry = find(edit, kept.component, key, task, new)
        _check_type(entry, wanted, any_type)
        writer = StateWriter(edit, kept.component, kind.value)
        writer.write(entry.task, entry.key, wanted, entry.value)
        writer.commit("set")
    before = "was not there" if entry.value is GONE else f"was {shown_as(entry.value)}"
    echo(visible(f"{shown_key(entry.key)}  {before}, is {shown_as(wanted)}"))
    tell_undo(kept, edit)


def shown_as(value: Any) -> str:
    """A value that was changed: with quotes, so that 1 is no text."""
    return repr(value)


def tell_undo(kept: KeptState, edit: Edit) -> None:
    """Say how a change is taken back."""
    tell(
        f"commit {edit.number} of {edit.store.uri}. To take it back: fulmen state undo"
        f" {kept.checkpoint} {edit.number} --because TEXT"
    )


def _field(edit: Edit, component: str, name: str, task: int | None, new: bool) -> Entry:
    if new:
        raise BadInput("--new is for keys of the state: a field is there once its class sets it.")
    fields = fields_now(edit, component)
    there = [Entry(n, field, value) for (n, field), value in fields.items() if field == name]
    there = [entry for entry in there if task in (None, entry.task)]
    if not there:
        of = "" if task is None else f", task {task},"
        cure = did_you_mean(name, sorted({field for _, field in fields}))
        raise FulmenError(f"component {component!r}{of} has no field {name!r}. {cure}".rstrip())
    if len(there) > 1:
        raise BadInput(
            f"{len(there)} tasks of {component!r} have a field {name!r}: name one with --task."
        )
    return there[0]


def _key(edit: Edit, component: str, text: str, task: int | None, new: bool) -> Entry:
    there = matching(edit, component, text, task)
    if len(there) > 1:
        written = ", ".join(f"{one.key!r} in task {one.task}" for one in there)
        raise BadInput(
            f"several keys of {component!r} are written {text!r}: {written}. Name one with --task,"
            " or write a text with quotes within quotes: '\"1\"'."
        )
    if there:
        if new:
            raise BadInput(f"component {component!r} has the key {text!r}: leave --new away.")
        return there[0]
    if not new:
        raise FulmenError(
            f"component {component!r} has no key {text!r} in its state. To add it, say --new."
        )
    key = key_of(text)
    owners = Owners(edit.store, edit.manifest, component, STATE)
    return Entry(owners.place(key, task), key, GONE)


def matching(edit: Edit, component: str, text: str, task: int | None) -> list[Entry]:
    """The keys that are written like this, or as a literal."""
    there = _written(edit, component, text, task)
    exact = [one for one in there if shown_key(one.key) == text]
    if there:
        return exact or there
    literal = key_of(text)
    return [
        one
        for one in _written(edit, component, str(literal), task)
        if one.key == literal and type(one.key) is type(literal)
    ]


def _written(edit: Edit, component: str, text: str, task: int | None) -> list[Entry]:
    found = KeyFinder(edit.store).find(edit.manifest, component, text)
    return [
        Entry(n, key, value)
        for n, items in found.items()
        for key, value in items.items()
        if task in (None, n)
    ]


def _check_type(entry: Entry, value: Any, any_type: bool) -> None:
    before = entry.value
    if any_type or before is GONE or None in (before, value):
        return
    if type(before) is not type(value):
        raise BadInput(
            f"{shown_key(entry.key)} is {before!r} of type {type(before).__name__}, and {value!r}"
            f" is of type {type(value).__name__}, with which the component may not be able to work."
            " If it is meant so, say --any-type."
        )


@click.command(short_help="Remove keys, fields, windows or timers by hand.")
@on_component
@kind_option(
    *(StateKind.STATE, StateKind.FIELDS, StateKind.WINDOWS, StateKind.TIMERS, StateKind.UNREADABLE),
    text="What is removed. unreadable: all that can't be read any more; it needs the author's"
    " classes, and can't be undone.",
)
@click.option("--key", help="The key, or field, that is written like this; of windows, their key.")
@click.option(
    "--like",
    metavar="PATTERN",
    help="All keys, or fields, that match: * stands for anything, ? for a character.",
)
@ends_driver_option
@by_author
def delete(
    kept: KeptState,
    kind: StateKind,
    key: str | None,
    like: str | None,
    ends_driver: bool,
    author: Author,
) -> None:
    """Remove keys of the state of COMPONENT, its fields, windows or timers.

    The topology has to be stopped, but for --kind unreadable: a driver that runs ends then, and the
    next one goes on without it.
    """
    if (kind is StateKind.UNREADABLE) != ((key, like) == (None, None)) or None not in (key, like):
        raise BadInput("give --key, or --like, or --kind unreadable: one of them.")
    if kind is StateKind.UNREADABLE:
        _delete_unreadable(kept, author)
        return
    with kept.edited(author, ends_driver=ends_driver) as edit:
        journal = {StateKind.FIELDS: "fields", StateKind.TIMERS: TIMERS}.get(kind, STATE)
        writer = StateWriter(edit, kept.component, journal)
        removed = list(_chosen(edit, kept.component, kind, key, like))
        if not removed:
            which = f"the key {key!r}" if like is None else f"a key like {like!r}"
            raise FulmenError(f"component {kept.component!r} has {NOTHING_OF[kind]} of {which}.")
        for one in removed:
            writer.write(one.task, one.key, GONE, one.value)
        writer.commit("delete")
    for one in removed:
        echo(visible(f"task {one.task}  {shown_key(one.key)}"))
    tell(f"{len(removed)} taken out of {edit.store.uri}.")
    tell_undo(kept, edit)


NOTHING_OF = {
    StateKind.STATE: "no entry of its state",
    StateKind.FIELDS: "no field",
    StateKind.WINDOWS: "no window",
    StateKind.TIMERS: "no timer",
}


def _chosen(
    edit: Edit, component: str, kind: StateKind, key: str | None, like: str | None
) -> Iterator[Entry]:
    """The entries that are to go."""
    if kind is StateKind.STATE and key is not None:
        yield from matching(edit, component, key, None)
        return
    goes = _goes(kind, key, like)
    if kind is StateKind.FIELDS:
        fields = fields_now(edit, component)
        entries: Iterator[Entry] = (Entry(*name, value) for name, value in fields.items())
    else:
        name = TIMERS if kind is StateKind.TIMERS else STATE
        entries = entries_in(edit.store, edit.manifest, component, name)
    yield from (one for one in entries if goes(one))


def _goes(kind: StateKind, key: str | None, like: str | None) -> Callable[[Entry], bool]:
    if kind is StateKind.WINDOWS:
        if key is None:
            raise BadInput("--kind windows needs a --key.")
        return lambda one: is_of_window(one.key, one.value, key)
    if like is not None:
        return lambda one: fnmatchcase(shown(one.key), like)
    return lambda one: shown(one.key) == key


def _delete_unreadable(kept: KeptState, author: Author) -> None:
    if kept.code_folder is None and not Path(kept.checkpoint).is_file():
        raise BadInput(
            "--kind unreadable needs the author's classes, or it would take out all that is of"
            " them: name their folder with --code-folder, or give the topology's file."
        )
    with kept.opened() as store:
        found = remove_unreadable(store, kept.component, author)
    tell_unreadable(kept, found)
    if found:
        tell(f"{len(found)} taken out of {store.uri}.")
