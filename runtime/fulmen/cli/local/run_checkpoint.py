"""Where `fulmen run` keeps state, and what is there already."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fulmen.checkpoint import CommitLog, Manifest, Store, read_newest, tasks_in
from fulmen.cli.bad_input import BadInput
from fulmen.cli.topology_file import TopologyFile
from fulmen.errors import CheckpointError, Unreachable
from fulmen.own_files import PrivateFolder
from fulmen.topology.resource.spec import ACKER, Topology


@dataclass(frozen=True)
class KnownCheckpoint:
    """A checkpoint's content: the number of its newest commit, and of each component's tasks."""

    number: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)


def as_uri(given: str) -> str:
    """A checkpoint as the user writes it, as a path or not, as a URI. BadInput if it is empty."""
    if not given:
        raise BadInput("the checkpoint is empty text: name a folder or a URI.")
    if "://" in given:
        return given
    try:
        return Path(given).expanduser().absolute().as_uri()
    except RuntimeError as error:  # there is no such user
        raise BadInput(f"'{given}': {error}") from error


def wanted_uri(option: str | None, document: Any) -> str | None:
    """The checkpoint that the user or the topology names; None if neither does."""
    if option is not None:
        return as_uri(option)
    uri = _at(document, "spec", "checkpoint", "uri")
    return uri if isinstance(uri, str) else None


def checkpoint_of(given: str) -> str:
    """The URI of a checkpoint: of a folder, a URI, or a topology's file that names its own."""
    if not (file := Path(given)).is_file():
        return as_uri(given)
    uri = wanted_uri(None, TopologyFile(file, (), None).document())
    if uri is None:
        raise BadInput(
            f"'{file}' names no checkpoint in spec.checkpoint.uri. Give the one that you gave to"
            " `fulmen run --checkpoint`."
        )
    return uri


def look_at(uri: str, document: Any) -> KnownCheckpoint:
    """Read the checkpoint for the topology of this document. Writes nothing.

    Raises:
        BadInput: It is another topology's, or can't be understood.
        Unreachable: The store does not answer.
    """
    name, namespace = _at(document, "metadata", "name"), _at(document, "metadata", "namespace")
    taken = _at(document, "spec", "checkpoint", "takeOver")
    if not isinstance(name, str):
        return KnownCheckpoint()
    whose = f"{namespace}/{name}" if namespace else name
    manifest = _newest(uri, whose, taken if isinstance(taken, str) else None)
    return KnownCheckpoint(
        manifest.number, {k: n for k, n in tasks_in(manifest).items() if k != ACKER}
    )


def look_at_any(uri: str, name: str) -> Manifest:
    """The newest commit of the checkpoint of a topology of that name, of whatever namespace.

    Raises what `look_at` does.
    """
    whose = _newest(uri, None).topology
    return _newest(uri, whose if whose.endswith(f"/{name}") else name)


def _newest(uri: str, whose: str | None, takes_over: str | None = None) -> Manifest:
    """The newest commit of a checkpoint; None: of whomever it is."""
    try:
        if whose is None:
            return read_newest(Store.open(uri))
        return CommitLog(Store.open(uri), whose, driver="", takes_over=takes_over).manifest
    except Unreachable:
        raise
    except CheckpointError as error:
        raise BadInput(str(error)) from error


@contextmanager
def place(uri: str | None, known: KnownCheckpoint, topology: Topology) -> Iterator[tuple[str, str]]:
    """The checkpoint to run with: its URI, and a note. A temporary one is removed at the end."""
    if uri is not None:
        carries_on = f", carried on from commit {known.number}" if known.number else ""
        yield uri, f"checkpoint: {uri}{carries_on}"
        return
    claim = topology.spec.checkpoint.persistent_volume_claim
    why = f" (the claim {claim!r} is for clusters)" if claim else ""
    with PrivateFolder("checkpoint") as folder:
        # Nothing of it is to outlive a crash of the machine.
        yield (
            f"{folder.path.as_uri()}?fsync=false",
            f"checkpoint: a temporary folder, removed at the end{why}; to keep it, --checkpoint",
        )


def _at(document: Any, *path: str) -> Any:
    """The value at this place of a document that may have any shape; None: there is none."""
    for key in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document
