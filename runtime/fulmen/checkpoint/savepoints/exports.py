"""Savepoints that are copied: out of a checkpoint, and into an empty one.

An export is the objects that a state needs, as they are, and an index with the checksum of each. It
is a folder or a prefix in an object store, or one file: a tar archive. The index is written last:
without it there is no export.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from fulmen.checkpoint.manifest import Manifest
from fulmen.checkpoint.names import COMMITS, commit_key
from fulmen.checkpoint.payloads import read_newest
from fulmen.checkpoint.record import decode
from fulmen.checkpoint.savepoints.pins import Pin, pin_named, read_pinned
from fulmen.checkpoint.store import Store
from fulmen.errors import AlreadyExists, CheckpointError, NotFound

INDEX = "savepoint.json"
FORMAT = 1
TAR = ".tar"
"""What the name of an export ends in that is one file."""
T = TypeVar("T")
_SEPARATOR = "#"


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that can be read, wherever it is.

    Attributes:
        uri: Where it is.
        name: Of the savepoint.
        pin: The rest of what is known of it.
        manifest: Its state.
        read: Gives an object that the state needs.
    """

    uri: str
    name: str
    pin: Pin
    manifest: Manifest
    read: Callable[[str], bytes]

    @property
    def objects(self) -> list[str]:
        """The keys of all that the state needs but the manifest: state files first."""
        return sorted(self.manifest.objects, reverse=True)


def export(store: Store, name: str, target: str) -> int:
    """Copy a savepoint to a folder, a prefix, or a file whose name ends in `.tar`.

    Returns:
        How many bytes it has.

    Raises:
        CheckpointError: There is no such savepoint, it is damaged, or something is at the target.
    """
    manifest = read_newest(store)
    pin = pin_named(store, manifest, name)
    keys = sorted({*read_pinned(store, name, pin).objects, commit_key(pin.commit)})
    about = {"format": FORMAT, "name": name, "topology": manifest.topology, "pin": asdict(pin)}
    with _written(target) as put:
        sums, size = {}, 0
        for key in keys:
            data = _got(store, name, key)
            sums[key] = hashlib.sha256(data).hexdigest()
            size += len(data)
            put(key, data)
        put(INDEX, json.dumps(about | {"objects": sums}, indent=1).encode())
    return size


def _got(store: Store, name: str, key: str) -> bytes:
    try:
        return store.get(key)
    except NotFound as error:
        raise CheckpointError(
            f"checkpoint {store.uri}: savepoint {name!r} can't be read, as {key!r} is missing."
        ) from error


@contextmanager
def opened(uri: str) -> Iterator[Savepoint]:
    """Open an export, or with `CHECKPOINT#NAME` a savepoint that is in a checkpoint.

    Raises:
        CheckpointError: It is none, or is damaged.
    """
    place, separator, name = uri.rpartition(_SEPARATOR)
    if separator:
        store = Store.open(place)
        pin = pin_named(store, read_newest(store), name)
        manifest = read_pinned(store, name, pin)
        yield Savepoint(uri, name, pin, manifest, lambda key: _got(store, name, key))
    elif uri.endswith(TAR):
        with _archive(uri, lambda: tarfile.open(_path(uri))) as archive:
            yield _exported(uri, lambda key: _archive(uri, lambda: _member(archive, key)))
    else:
        yield _exported(uri, Store.open(uri).get)


def _archive(uri: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except OSError as error:
        raise CheckpointError(f"savepoint {uri} can't be read: {error.strerror}.") from error
    except tarfile.TarError as error:
        raise CheckpointError(
            f"savepoint {uri} is no whole archive ({error}): it was cut off or damaged. Export or"
            " copy it again."
        ) from error


def _exported(uri: str, get: Callable[[str], bytes]) -> Savepoint:
    try:
        index: Mapping[str, Any] = json.loads(get(INDEX))
        format_, sums, pin = index["format"], index["objects"], Pin(**index["pin"])
        name = index["name"]
    except NotFound:
        raise CheckpointError(
            f"savepoint {uri}: there is no {INDEX!r}, so this is no finished export. For a"
            f" savepoint in a checkpoint, write CHECKPOINT{_SEPARATOR}NAME."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"savepoint {uri}: {INDEX!r} is damaged: {error!r}") from error
    if format_ != FORMAT:
        raise CheckpointError(
            f"savepoint {uri}: its format is {format_}, and this Fulmen reads {FORMAT}."
        )

    def read(key: str) -> bytes:
        try:
            data = get(key)
        except NotFound:
            raise CheckpointError(f"savepoint {uri}: {key!r} is missing.") from None
        if hashlib.sha256(data).hexdigest() != sums.get(key):
            raise CheckpointError(
                f"savepoint {uri}: {key!r} is damaged: its checksum is not that of {INDEX!r}."
            )
        return data

    key = commit_key(pin.commit)
    manifest = decode(f"{uri}, {key!r}", read(key)).manifest
    if manifest is None:
        raise CheckpointError(f"savepoint {uri}: {key!r} holds no manifest.")
    return Savepoint(uri, name, pin, manifest, read)


def copy_objects(savepoint: Savepoint, store: Store) -> None:
    """Copy what a state needs, but for its manifest, into an empty checkpoint.

    Nothing of it counts before a commit is there that holds the manifest. Called again, it goes on.

    Raises:
        CheckpointError: The checkpoint is not empty, or the savepoint is damaged.
    """
    keys = savepoint.objects
    if not set(store.list(COMMITS)) <= set(keys):
        raise CheckpointError(
            f"checkpoint {store.uri} is not empty, so {savepoint.uri} can't be restored into it."
            " Give the topology a checkpoint of its own (spec.checkpoint)."
        )
    for key in keys:
        data = savepoint.read(key)
        try:
            store.put(key, data)
        except AlreadyExists:
            if store.get(key) != data:
                raise CheckpointError(
                    f"checkpoint {store.uri}: there is another {key!r} already. Give the topology"
                    " an empty checkpoint."
                ) from None


Put = Callable[[str, bytes], None]


@contextmanager
def _written(target: str) -> Iterator[Put]:
    if not target.endswith(TAR):
        store = Store.open(target)
        if store.list(""):
            raise CheckpointError(f"{target} is not empty: export to another place.")
        yield store.put
        return
    path = Path(_path(target))
    try:
        with path.open("xb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            yield lambda key, data: _add(archive, key, data)
    except FileExistsError:
        raise CheckpointError(f"{target} exists: export to another file.") from None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise CheckpointError(
            f"{target} can't be written: {error.strerror}. Export to another place."
        ) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _path(uri: str) -> str:
    if "://" in uri.removeprefix("file://"):
        raise CheckpointError(f"{uri}: an export that is one file is a file of this machine.")
    return uri.removeprefix("file://")


def _add(archive: tarfile.TarFile, key: str, data: bytes) -> None:
    info = tarfile.TarInfo(key)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _member(archive: tarfile.TarFile, key: str) -> bytes:
    try:
        file = archive.extractfile(key)
    except KeyError:
        file = None
    if file is None:
        raise NotFound(str(archive.name), key)
    return file.read()
