"""`fulmen state`: what a component keeps in keyed state or fields, read from a checkpoint."""

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import click

from fulmen.checkpoint import Store
from fulmen.cli.bad_input import BadInput
from fulmen.cli.display.kept_times import is_of_window, of_time, plain, shown
from fulmen.cli.local.run_checkpoint import as_uri, wanted_uri
from fulmen.cli.streams import echo
from fulmen.cli.topology_file import read_file
from fulmen.engine.driver.decisions import accept_store, forget
from fulmen.engine.driver.repair import find_unreadable, remove_entries, remove_unreadable
from fulmen.engine.state.committed_state import (
    CommittedState,
    read_components,
    read_dropped,
    read_fields,
    read_key,
    read_state,
    read_timers,
)
from fulmen.engine.state.journals import STATE, TIMERS
from fulmen.errors import CodeError, FulmenError
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.problems import did_you_mean, there_are
from fulmen.topology.reading.partial_document import rest_of
from fulmen.topology.resource.spec import ACKER
from fulmen.visible import visible


class ShownKind(StrEnum):
    """What of a component is shown, or taken out."""

    STATE = "state"
    FIELDS = "fields"
    WINDOWS = "windows"
    TIMERS = "timers"
    DROPPED = "dropped"
    UNREADABLE = "unreadable"


Read = Callable[[Store, str], CommittedState]

OF_TIME = (ShownKind.WINDOWS, ShownKind.TIMERS)
WITH_KEYS = (ShownKind.STATE, *OF_TIME)
"""Those of which one key can be taken out."""


@dataclass(frozen=True)
class StateEntry:
    """One key of the state of one task, or one of its fields."""

    key: Any
    value: Any
    task: int


@click.command(short_help="Show what a component keeps: keyed state, or fields.")
@click.argument("checkpoint")
@click.argument("component")
@click.option(
    "--show",
    type=click.Choice([kind.value for kind in ShownKind]),  # of an enum click takes the names
    default=ShownKind.STATE.value,
    callback=lambda _context, _option, value: ShownKind(value),
    show_default=True,
    help="What is shown. state: self.state. fields: those of the instances, such as a spout's"
    " position. windows: the open ones of an Aggregate. timers: those of a bolt, the next one"
    " first. dropped: tuples of a spout that kill their workers. unreadable: what of its state,"
    " fields and message ids can't be read any more, and why.",
)
@click.option(
    "--remove",
    "removes",
    is_flag=True,
    help="Take what --show unreadable shows, or a --key of the state, of windows or of timers, out"
    " of the checkpoint.",
)
@click.option(
    "--accept-store",
    "accepts_store",
    is_flag=True,
    help="Go on with what the store of this sink, or of this transactional spout's committers, has"
    " although it does not fit the checkpoint.",
)
@click.option(
    "--above",
    type=click.IntRange(1),
    metavar="TXID",
    help="With --accept-store: the last transaction that a store has, if it has more than the"
    " checkpoint.",
)
@click.option(
    "--forget",
    "forgets",
    is_flag=True,
    help="Remove all state of COMPONENT, which is not in the topology any more, for good.",
)
@click.option("--key", help="Show only the key, or field, that is written like this.")
@click.option("--top", type=click.IntRange(1), metavar="N", help="Show only the N largest values.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="The format. json: a list of {key, value, task}; task is counted from 0.",
)
@click.option(
    "--code-folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder with the Python files, if keys or values are objects of their classes.",
)
def state(  # noqa: C901 (each option once)
    checkpoint: str,
    component: str,
    show: ShownKind,
    removes: bool,
    accepts_store: bool,
    above: int | None,
    forgets: bool,
    key: str | None,
    top: int | None,
    output: str,
    code_folder: Path | None,
) -> None:
    """Show `self.state` of all tasks of COMPONENT as the newest commit in CHECKPOINT left it.

    With --show fields, show the fields of its instances instead, task by task. With --show dropped,
    show the tuples of a spout that were dropped: stream, values, message id, cause, traceback if
    any, and when. With --show windows, show the windows of an Aggregate that are open: when each
    begins, its key, and what is kept of it. With --show timers, show when the timers of a bolt are
    due by event time, or in seconds of the batch clock.

    With --show unreadable, show each key, field, timer, message id and metadata that can't be read,
    as its class is gone, or was changed, or can be pickled and not unpickled. With --remove as
    well, take these out for good: a driver that runs ends then, and the next one goes on without
    them. With --remove and --key, a key of the state is taken out; with --show windows or timers
    as well, the key's windows or its timer.

    With --accept-store, nothing is shown: the checkpoint goes on with a store that was set back, or
    with one that is ahead, after a topology has stopped because of that. With --forget, the state
    of a component that is not in the topology any more is removed.

    CHECKPOINT is a folder, a URI (file://, s3://, gs://, az://), or a topology's file that names
    its checkpoint. The topology may be running. Reading a checkpoint can run code that is in it:
    read only your own.
    """
    if top is not None and show in OF_TIME:
        raise BadInput("--top is for values, and not for windows and timers.")
    if removes and show is not ShownKind.UNREADABLE and (key is None or show not in WITH_KEYS):
        raise BadInput(
            "--remove needs --show unreadable, or a --key of the state, of windows or of timers."
        )
    if above is not None and not accepts_store:
        raise BadInput("--above is for --accept-store: give both.")
    if forgets and accepts_store:
        raise BadInput("--forget and --accept-store: give one of them.")
    if forgets:
        store = Store.open(_source(checkpoint, code_folder)[0])
        _check(store, component)
        count = forget(store, component, _who("--forget"))
        echo(f"{store.uri}: the state of {count} tasks of {component!r} is gone.", err=True)
        return
    if accepts_store:
        uri, folder = _source(checkpoint, code_folder)
        with folder:
            store = Store.open(uri)
            _check(store, component)
            done = accept_store(store, component, above or 0, _who("--accept-store"))
        echo(f"{uri}: {done}.", err=True)
        return
    if show is ShownKind.UNREADABLE:
        _unreadable(checkpoint, component, code_folder, removes=removes)
        return
    if removes:
        assert key is not None
        _remove(checkpoint, component, key, code_folder, show)
        return
    as_json = output == "json"
    if show in OF_TIME:
        _times(checkpoint, component, key, code_folder, show, as_json=as_json)
        return
    read, as_table = VALUES[show]
    uri, folder = _source(checkpoint, code_folder)
    with folder:
        if key is not None and show is ShownKind.STATE:
            read = partial(read_key, text=key)
        entries = list(_entries(_read(Store.open(uri), component, read)))
        if not entries and key is None:
            echo(_nothing(component, show), err=True)
        if key is not None:
            entries = [entry for entry in entries if str(entry.key) == key]
            if not entries:
                is_field = show is ShownKind.FIELDS
                what = f"no field {key!r}" if is_field else f"no key {key!r} in its state"
                raise FulmenError(f"component {component!r} has {what}.")
        if top is not None:
            entries = _largest(entries, top)
        if as_json:
            content = [plain(vars(entry)) for entry in entries]
            echo(json.dumps(content, indent=2, ensure_ascii=False))
            return
        for line in as_table(entries):
            echo(visible(line))


def _times(
    checkpoint: str,
    component: str,
    key: str | None,
    code_folder: Path | None,
    show: ShownKind,
    *,
    as_json: bool,
) -> None:
    is_timers = show is ShownKind.TIMERS
    uri, folder = _source(checkpoint, code_folder)
    with folder:
        found = _read(Store.open(uri), component, read_timers if is_timers else read_state)
        for line in of_time(found, component, key, is_timers=is_timers, as_json=as_json):
            echo(line if as_json else visible(line))


def _unreadable(
    checkpoint: str, component: str, code_folder: Path | None, *, removes: bool
) -> None:
    if removes and code_folder is None and not Path(checkpoint).is_file():
        raise BadInput(
            "--remove needs the author's classes, or it would take out all that is of them: name"
            " their folder with --code-folder, or give the topology's file."
        )
    uri, folder = _source(checkpoint, code_folder)
    with folder:
        store = Store.open(uri)
        _check(store, component)
        if removes:
            found = remove_unreadable(store, component, _who("--remove"))
        else:
            found = find_unreadable(store, component)
    for one in found:
        echo(visible(f"task {one.task}  {one.where}  {one.key}  {one.reason}"))
    if not found:
        echo(f"everything that {component!r} keeps is readable.", err=True)
    elif removes:
        echo(f"{len(found)} taken out of {uri}.", err=True)


def _remove(
    checkpoint: str,
    component: str,
    key: str,
    code_folder: Path | None,
    show: ShownKind,
) -> None:
    is_timers, is_windows = show is ShownKind.TIMERS, show is ShownKind.WINDOWS
    uri, folder = _source(checkpoint, code_folder)
    with folder:
        store = Store.open(uri)
        found = _read(store, component, read_timers if is_timers else read_state)
        names = {key}
        if is_windows:
            names = {
                shown(place)
                for items in found.tasks.values()
                for place, value in items.items()
                if is_of_window(place, value, key)
            }
        removed = remove_entries(
            store,
            component,
            TIMERS if is_timers else STATE,
            lambda place: shown(place) in names,
            _who("--remove"),
        )
    if not removed:
        what = "timer" if is_timers else "window" if is_windows else "entry of its state"
        raise FulmenError(f"component {component!r} has no {what} of the key {key!r}.")
    for one in removed:
        echo(visible(f"task {one.task}  {one.key}"))
    echo(f"{len(removed)} taken out of {uri}.", err=True)


def _who(option: str) -> str:
    """Who changes a checkpoint, for the message of a driver that runs."""
    return f"fulmen state {option}, {socket.gethostname()}, process {os.getpid()}"


def _nothing(component: str, show: ShownKind) -> str:
    if show is ShownKind.DROPPED:
        return f"nothing of {component!r} was dropped."
    where, other = "self.state", "--show fields shows the fields of its instances."
    if show is ShownKind.FIELDS:
        where, other = "fields", "Without --show fields, its self.state is shown."
    return (
        f"component {component!r} has nothing in {where}. What is kept in a global variable, or in "
        f"a field of the class itself, is lost with its process. {other}"
    )


def _source(checkpoint: str, code_folder: Path | None) -> tuple[str, CodeFolder]:
    """The checkpoint's URI, and the folder with the author's classes."""
    file = Path(checkpoint)
    if not file.is_file():
        return as_uri(checkpoint), CodeFolder(code_folder)
    document = read_file(file, (), code_folder)
    uri = wanted_uri(None, document)
    if uri is None:
        raise BadInput(
            f"'{file}' names no checkpoint in spec.checkpoint.uri. Give the one that you "
            "gave to `fulmen run --checkpoint`."
        )
    code = rest_of(document)[0].code
    if code_folder is None and code is not None:
        return uri, CodeFolder.of(code, file.parent)
    return uri, CodeFolder(code_folder or file.parent)


def _read(store: Store, component: str, read: Read) -> CommittedState:
    _check(store, component)
    try:
        return read(store, component)
    except (ImportError, AttributeError) as error:  # of a key's or a value's class
        cure = "Name the folder with the author's classes: --code-folder."
        raise CodeError(f"the state of {component!r} can't be read: {error}", cure) from error


def _check(store: Store, component: str) -> None:
    """See that there is such a component."""
    known = read_components(store)
    if not known:
        raise BadInput(f"checkpoint {store.uri}: nothing was ever committed there.")
    if component not in known:
        names = sorted(name for name in known if name != ACKER)
        cure = did_you_mean(component, names) or there_are(names)
        raise BadInput(f"checkpoint {store.uri}: there is no component {component!r}. {cure}")


def _entries(state: CommittedState) -> Iterator[StateEntry]:
    for task, items in state.tasks.items():
        for key, value in items.items():
            yield StateEntry(key, value, task)


def _largest(entries: Sequence[StateEntry], count: int) -> list[StateEntry]:
    """The entries with the largest values, largest first; equal ones by their keys."""
    try:
        return sorted(sorted(entries, key=_shown_key), key=lambda e: e.value, reverse=True)[:count]
    except TypeError as error:
        raise BadInput(f"--top: the values can't be put in order ({error}).") from error


def _shown_key(entry: StateEntry) -> str:
    return shown(entry.key)


def _table(entries: Sequence[StateEntry]) -> Iterator[str]:
    """A line for each entry: its key, and the value where all of them begin."""
    width = min(40, max((len(shown(entry.key)) for entry in entries), default=0))
    for entry in entries:
        yield f"{shown(entry.key):{width}}  {shown(entry.value)}"


def _fields_table(entries: Sequence[StateEntry]) -> Iterator[str]:
    """A line for each field of each task."""
    width = max((len(str(entry.key)) for entry in entries), default=0)
    for entry in entries:
        yield f"task {entry.task}  {entry.key!s:{width}}  {shown(entry.value)}"


def _dropped_table(entries: Sequence[StateEntry]) -> Iterator[str]:
    """A line for each tuple, and below it the traceback, if one is kept."""
    for entry in entries:
        kept = dict(entry.value)
        traceback = kept.pop("traceback", "")
        yield f"task {entry.task}  {entry.key}  {shown(kept)}"
        for line in traceback.splitlines():
            yield f"    {line}"


VALUES: dict[ShownKind, tuple[Read, Callable[[Sequence[StateEntry]], Iterator[str]]]] = {
    ShownKind.STATE: (read_state, _table),
    ShownKind.FIELDS: (read_fields, _fields_table),
    ShownKind.DROPPED: (read_dropped, _dropped_table),
}
"""How values are read, and the lines of their table."""
