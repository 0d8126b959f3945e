"""`fulmen state`: what a component keeps in keyed state or fields, read from a checkpoint."""

import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import click

from fulmen.checkpoint import Store
from fulmen.cli.bad_input import BadInput
from fulmen.cli.display.kept_values import (
    ShownRow,
    StateEntry,
    dropped_lines,
    field_lines,
    is_of_window,
    plain,
    shown,
    state_lines,
    timers_of,
    windows_of,
)
from fulmen.cli.local.run_checkpoint import as_uri, wanted_uri
from fulmen.cli.streams import echo, tell
from fulmen.cli.topology_file import TopologyFile, code_folder_type
from fulmen.engine.driver.edits.decisions import accept_store, forget
from fulmen.engine.driver.edits.repair import (
    Removed,
    find_unreadable,
    remove_entries,
    remove_unreadable,
)
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
    """The parts of a component's state to show, or to take out."""

    STATE = "state"
    FIELDS = "fields"
    WINDOWS = "windows"
    TIMERS = "timers"
    DROPPED = "dropped"
    UNREADABLE = "unreadable"


Read = Callable[[Store, str], CommittedState]

OF_TIME: Mapping[ShownKind, tuple[Read, Callable[..., Sequence[ShownRow]], str]] = {
    ShownKind.WINDOWS: (read_state, windows_of, "open windows of an Aggregate"),
    ShownKind.TIMERS: (read_timers, timers_of, "timers"),
}
REMOVABLE: Mapping[ShownKind, tuple[Read, str, str]] = {
    ShownKind.STATE: (read_state, STATE, "entry of its state"),
    ShownKind.WINDOWS: (read_state, STATE, "window"),
    ShownKind.TIMERS: (read_timers, TIMERS, "timer"),
}
"""Those of which one key can be taken out: how they are read, the journal, and what one is."""


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
    type=code_folder_type,
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
    if removes and show is not ShownKind.UNREADABLE and (key is None or show not in REMOVABLE):
        raise BadInput(
            "--remove needs --show unreadable, or a --key of the state, of windows or of timers."
        )
    if above is not None and not accepts_store:
        raise BadInput("--above is for --accept-store: give both.")
    if forgets and accepts_store:
        raise BadInput("--forget and --accept-store: give one of them.")
    kept = _Kept(checkpoint, component, code_folder)
    if forgets:
        kept.forget()
    elif accepts_store:
        kept.accept_store(above or 0)
    elif show is ShownKind.UNREADABLE:
        if removes:
            kept.remove_unreadable()
        else:
            kept.tell_unreadable()
    elif removes:
        assert key is not None
        kept.remove(show, key)
    elif show in OF_TIME:
        _print(output, *kept.rows_of_time(show, key, output))
    else:
        entries = kept.entries(show, key)
        entries = entries if top is None else _largest(entries, top)
        _print(output, [vars(entry) for entry in entries], VALUES[show][1](entries))


def _print(output: str, contents: Iterable[Mapping[str, Any]], lines: Iterable[str]) -> None:
    if output == "json":
        echo(json.dumps([plain(one) for one in contents], indent=2, ensure_ascii=False))
        return
    for line in lines:
        echo(visible(line))


@dataclass(frozen=True)
class _Kept:
    """The state of a component in a checkpoint."""

    checkpoint: str
    component: str
    code_folder: Path | None

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The checkpoint, which knows the component. The author's classes can be imported."""
        uri, folder = _source(self.checkpoint, self.code_folder)
        with folder:
            store = Store.open(uri)
            _check(store, self.component)
            yield store

    def forget(self) -> None:
        with self.opened() as store:
            count = forget(store, self.component, _who("--forget"))
        tell(f"{store.uri}: the state of {count} tasks of {self.component!r} is gone.")

    def accept_store(self, above: int) -> None:
        with self.opened() as store:
            done = accept_store(store, self.component, above, _who("--accept-store"))
        tell(f"{store.uri}: {done}.")

    def tell_unreadable(self) -> None:
        with self.opened() as store:
            self._tell(find_unreadable(store, self.component))

    def remove_unreadable(self) -> None:
        if self.code_folder is None and not Path(self.checkpoint).is_file():
            raise BadInput(
                "--remove needs the author's classes, or it would take out all that is of them:"
                " name their folder with --code-folder, or give the topology's file."
            )
        with self.opened() as store:
            found = remove_unreadable(store, self.component, _who("--remove"))
        self._tell(found)
        if found:
            tell(f"{len(found)} taken out of {store.uri}.")

    def _tell(self, found: Sequence[Removed]) -> None:
        for one in found:
            echo(visible(f"task {one.task}  {one.where}  {one.key}  {one.reason}"))
        if not found:
            tell(f"everything that {self.component!r} keeps is readable.")

    def remove(self, show: ShownKind, key: str) -> None:
        read, journal, what = REMOVABLE[show]
        with self.opened() as store:
            found, names = self._read(store, read), {key}
            if show is ShownKind.WINDOWS:
                places = (place for of in found.tasks.values() for place in of.items())
                names = {shown(place) for place, value in places if is_of_window(place, value, key)}
            removed = remove_entries(
                store,
                self.component,
                journal,
                lambda place: shown(place) in names,
                _who("--remove"),
            )
        if not removed:
            raise FulmenError(f"component {self.component!r} has no {what} of the key {key!r}.")
        for one in removed:
            echo(visible(f"task {one.task}  {one.key}"))
        tell(f"{len(removed)} taken out of {store.uri}.")

    def rows_of_time(
        self, show: ShownKind, key: str | None, output: str
    ) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
        """Read its windows or timers: contents for programs, lines for people."""
        read, rows_of, what = OF_TIME[show]
        with self.opened() as store:
            rows = rows_of(self._read(store, read), key)
        if not rows and output != "json":
            of = "" if key is None else f" of the key {key!r}"
            raise FulmenError(f"component {self.component!r} has no {what}{of}.")
        return [row.content for row in rows], [row.line for row in rows]

    def entries(self, show: ShownKind, key: str | None) -> Sequence[StateEntry]:
        """Read its values; if a key is given, only that one, which has to be there."""
        read = VALUES[show][0]
        if key is not None and show is ShownKind.STATE:
            read = partial(read_key, text=key)
        with self.opened() as store:
            found = self._read(store, read).tasks
            entries = [StateEntry(k, v, task) for task, of in found.items() for k, v in of.items()]
        if key is None:
            if not entries:
                tell(_nothing(self.component, show))
            return entries
        entries = [entry for entry in entries if str(entry.key) == key]
        if not entries:
            is_field = show is ShownKind.FIELDS
            what = f"no field {key!r}" if is_field else f"no key {key!r} in its state"
            raise FulmenError(f"component {self.component!r} has {what}.")
        return entries

    def _read(self, store: Store, read: Read) -> CommittedState:
        try:
            return read(store, self.component)
        except (ImportError, AttributeError) as error:  # of a key's or a value's class
            cure = "Name the folder with the author's classes: --code-folder."
            what = f"the state of {self.component!r} can't be read"
            raise CodeError(f"{what}: {error}", cure) from error


def _who(option: str) -> str:
    """Name who changes a checkpoint, for the message of a driver that runs."""
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
    document = TopologyFile(file, (), code_folder).document()
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


def _check(store: Store, component: str) -> None:
    known = read_components(store)
    if not known:
        raise BadInput(f"checkpoint {store.uri}: nothing was ever committed there.")
    if component not in known:
        names = sorted(name for name in known if name != ACKER)
        cure = did_you_mean(component, names) or there_are(names)
        raise BadInput(f"checkpoint {store.uri}: there is no component {component!r}. {cure}")


def _largest(entries: Sequence[StateEntry], count: int) -> list[StateEntry]:
    """The entries with the largest values, largest first; equal ones by their keys."""
    by_key = sorted(entries, key=lambda entry: shown(entry.key))
    try:
        return sorted(by_key, key=lambda e: e.value, reverse=True)[:count]
    except TypeError as error:
        raise BadInput(f"--top: the values can't be put in order ({error}).") from error


VALUES: dict[ShownKind, tuple[Read, Callable[[Sequence[StateEntry]], Iterator[str]]]] = {
    ShownKind.STATE: (read_state, state_lines),
    ShownKind.FIELDS: (read_fields, field_lines),
    ShownKind.DROPPED: (read_dropped, dropped_lines),
}
"""How values are read, and the lines of their table."""
