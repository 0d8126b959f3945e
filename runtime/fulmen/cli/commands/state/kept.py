"""A component's state in a checkpoint, as all subcommands of `fulmen state` are told of it."""

import functools
import getpass
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from fulmen.checkpoint import Manifest, Store, read_newest, tasks_in
from fulmen.cli.bad_input import BadInput
from fulmen.cli.local.run_checkpoint import as_uri, wanted_uri
from fulmen.cli.topology_file import TopologyFile, code_folder_type
from fulmen.engine.driver.edits.changes import Author, now_as_text
from fulmen.engine.driver.edits.edit import Edit
from fulmen.errors import CodeError, FulmenError
from fulmen.topology.code.loading import CodeFolder
from fulmen.topology.problems import did_you_mean, there_are
from fulmen.topology.reading.partial_document import rest_of
from fulmen.topology.resource.spec import ACKER

MOST_WORDS = 500
"""A reason has no more characters: each manifest has the last reasons."""


class StateKind(StrEnum):
    """The parts of a component's state."""

    STATE = "state"
    FIELDS = "fields"
    WINDOWS = "windows"
    TIMERS = "timers"
    UNREADABLE = "unreadable"


def kind_option(*kinds: StateKind, text: str) -> Callable[[Any], Any]:
    """The option `--kind`, which may be one of these. The first is what it is if not given."""
    return click.option(
        "--kind",
        type=click.Choice([kind.value for kind in kinds]),  # of an enum click takes the names
        default=kinds[0].value,
        callback=lambda _context, _option, value: StateKind(value),
        show_default=True,
        help=text,
    )


def output_option(text: str = "The format.") -> Callable[[Any], Any]:
    """The option `--output`: a table for people, or JSON for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help=text,
    )


@dataclass(frozen=True)
class KeptState:
    """A checkpoint, and the component whose state is meant.

    Attributes:
        checkpoint: As the user wrote it.
        component: The component; "": all.
        code_folder: The folder with the author's classes, if one was named.
    """

    checkpoint: str
    component: str
    code_folder: Path | None

    @contextmanager
    def opened(self, *, may_be_empty: bool = False) -> Iterator[Store]:
        """The checkpoint, which knows the component. The author's classes can be imported.

        Args:
            may_be_empty: Whether nothing has to be committed there yet.
        """
        uri, folder = _source(self.checkpoint, self.code_folder)
        with folder:
            store = Store.open(uri)
            if not may_be_empty:
                _check(store, self.component)
            try:
                yield store
            except (ImportError, AttributeError) as error:  # of a key's or a value's class
                cure = "Name the folder with the author's classes: --code-folder."
                what = f"the state of {self.component!r} can't be read"
                raise CodeError(f"{what}: {error}", cure) from error

    @contextmanager
    def edited(self, author: Author, *, ends_driver: bool) -> Iterator[Edit]:
        """One change of the checkpoint. It is refused while a driver runs on this machine.

        Args:
            author: Who makes it.
            ends_driver: A driver that runs may be ended by it.
        """
        with self.opened() as store:
            if not ends_driver:
                refuse_running(store)
            yield Edit(store, author)


def refuse_running(store: Store) -> None:
    """Refuse to change the checkpoint of a topology that runs on this machine."""
    manifest = read_newest(store)
    if (process := running_here(manifest)) is not None:
        raise FulmenError(
            f"checkpoint {store.uri}: topology {manifest.topology!r} runs on this machine (process"
            f" {process}), and its driver would be ended by a change. Stop it first; or say"
            " --end-driver: on a cluster, the driver that is started next goes on with the change."
            " Nothing was changed."
        )


def running_here(manifest: Manifest) -> int | None:
    """The process of the driver that made the newest commit, if it is alive on this machine."""
    match = re.fullmatch(r"(.+), process (\d+), since .+", manifest.driver)
    if match is None or match[1] != socket.gethostname():
        return None
    process = int(match[2])
    if process == os.getpid():
        return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it is another user's
        return process
    return process


def on_component(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its CHECKPOINT, COMPONENT and --code-folder as a `KeptState`, in front."""

    @click.argument("checkpoint")
    @click.argument("component")
    @click.option(
        "--code-folder",
        type=code_folder_type,
        help="The folder with the Python files, if keys or values are objects of their classes.",
    )
    @functools.wraps(command)
    def called(checkpoint: str, component: str, code_folder: Path | None, **options: Any) -> None:
        command(KeptState(checkpoint, component, code_folder), **options)

    return called


def by_author(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its author, by the options that every change has."""

    @click.option(
        "--because", required=True, metavar="TEXT", help="Why. `fulmen state log` shows it."
    )
    @click.option(
        "--author",
        metavar="NAME",
        help="Who you are, for `fulmen state log`. Default: USER@HOST, as this machine knows you.",
    )
    @functools.wraps(command)
    def called(*args: Any, because: str, author: str | None, **options: Any) -> None:
        if not because.strip() or len(because) > MOST_WORDS:
            raise BadInput(f"--because: say why, in 1 to {MOST_WORDS} characters.")
        name = click.get_current_context().command_path
        at = now_as_text(time.time())
        command(*args, author=Author(author or _user(), because.strip(), name, at), **options)

    return called


ends_driver_option = click.option(
    "--end-driver",
    "ends_driver",
    is_flag=True,
    help="Change it also while the topology runs on this machine, whose driver ends then. On a"
    " cluster, the driver that is started next goes on with the change.",
)


def _user() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a pod, whose user has no name
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


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
    known = tasks_in(read_newest(store))
    if not known:
        raise BadInput(f"checkpoint {store.uri}: nothing was ever committed there.")
    if component and component not in known:
        names = sorted(name for name in known if name != ACKER)
        cure = did_you_mean(component, names) or there_are(names)
        raise BadInput(f"checkpoint {store.uri}: there is no component {component!r}. {cure}")
