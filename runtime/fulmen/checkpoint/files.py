"""A checkpoint in a folder.

A put writes the bytes to a temporary file, makes them durable, and only then links the file to its
name: `link` is atomic and refuses a name that exists, also between machines over NFS. Then the
folder is made durable, since otherwise a crash of the machine may forget the name.

Rejected: obstore's LocalStore followed by fsync (0.33 ms against 0.29 ms for 2 KB; the name is
visible before the bytes are durable, so that a crash can leave an empty object); O_TMPFILE (0.25
ms, but it is missing on NFS); creating the file under its final name (a crash leaves half of it).
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

from fulmen.errors import AlreadyExists, CheckpointError, Denied, NotFound, Unreachable
from fulmen.own_files import fsync_folder

_TEMPORARY = ".tmp"
_LEFTOVER_SECONDS = 3600  # by then nobody is still writing it
_DENIED = {
    errno.EACCES: "permission denied. Give the pod's user write access (fsGroup, for a volume)",
    errno.EROFS: "the file system is read-only. Mount it for writing",
}
"""Pass by themselves where they were not so before: a volume that is mounted anew, for instance."""
_PERMANENT = {
    errno.EPERM: "the file system has no hard links. Use one that does: ext4, xfs, NFS",
    errno.EOPNOTSUPP: "the file system has no hard links. Use one that does: ext4, xfs, NFS",
    errno.ENOTDIR: "a part of the path is a file. Name a folder",
    errno.EISDIR: "there is a folder of that name. Name an empty folder for the checkpoint",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter path",
}
_names = itertools.count()  # the next is taken atomically; with the process id it is unique


class FileBackend:
    """Objects as files below `root`, which is made at the first put. Readers write nothing.

    Args:
        uri: Names the store in messages.
        root: An absolute path.
        fsync: Make every put durable. Without it a crash of the machine, but not of a process, may
            lose or truncate the newest objects.
    """

    def __init__(self, uri: str, root: str, fsync: bool = True) -> None:
        self._uri = uri
        self._root = root
        self._fsync = fsync
        self._prepared = False
        self._may_read = self._may_write = False  # it was seen to work

    def put(self, key: str, data: bytes) -> None:
        """Write an object if there is none of that key, else raise `AlreadyExists`."""
        try:
            if not self._prepared:
                self._prepare()
            try:
                self._put(key, data)
            except FileNotFoundError:  # the first object in its folder, or somebody cleaned up
                self._make_folder(os.path.join(self._root, _TEMPORARY))
                self._make_folder(os.path.dirname(os.path.join(self._root, key)))
                self._put(key, data)
        except OSError as error:
            self._raise(error, key, writing=True)
        self._may_write = True

    def get(self, key: str) -> bytes:
        """Read an object, or raise `NotFound`."""
        try:
            with open(f"{self._root}/{key}", "rb", buffering=0) as file:
                data = file.readall()
        except OSError as error:
            self._raise(error, key)
        self._may_read = True
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object, or raise `NotFound`."""
        try:
            with open(f"{self._root}/{key}", "rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            self._raise(error, key)

    def get_many(self, keys: Sequence[str]) -> list[bytes]:
        """Read several objects one after another: threads make files no faster."""
        return [self.get(key) for key in keys]

    def list(self, prefix: str) -> list[str]:
        """List all keys that start with `prefix`, in any order."""
        try:
            found = list(self._walk(prefix))
        except OSError as error:
            self._raise(error, prefix)
        self._may_read |= bool(found)
        return found

    def delete(self, keys: Sequence[str]) -> None:
        """Delete what exists. Not made durable: a name that comes back is garbage again."""
        for key in keys:
            try:
                os.unlink(f"{self._root}/{key}")
            except FileNotFoundError:
                pass
            except OSError as error:
                self._raise(error, key, writing=True)

    def _put(self, key: str, data: bytes) -> None:
        target = f"{self._root}/{key}"
        temporary = f"{self._root}/{_TEMPORARY}/{os.getpid()}-{next(_names)}-{os.urandom(4).hex()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            try:
                _write_all(descriptor, data)
                if self._fsync:
                    os.fsync(descriptor)
                _link(temporary, target, descriptor)
            finally:
                os.close(descriptor)
        except FileExistsError:
            raise AlreadyExists(self._uri, key) from None
        finally:
            with suppress(OSError):  # what is left here is cleaned later
                os.unlink(temporary)
        if self._fsync:
            fsync_folder(os.path.dirname(target))

    def _walk(self, prefix: str) -> Iterator[str]:
        try:
            entries = os.scandir(f"{self._root}/{prefix}")
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(f"{prefix}{entry.name}/")
                else:
                    yield prefix + entry.name

    def _prepare(self) -> None:
        """Before the first put: make the folder for temporary files, or clean it."""
        folder = os.path.join(self._root, _TEMPORARY)
        self._make_folder(folder)
        # A file made now tells the file system's own time, which may be another machine's.
        marker = os.path.join(folder, f"{os.getpid()}-{next(_names)}-{os.urandom(4).hex()}")
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT, 0o666))
        now = os.stat(marker).st_mtime
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):  # another process may be cleaning too
                    age = now - entry.stat().st_mtime
                    if age > _LEFTOVER_SECONDS or entry.path == marker:
                        os.unlink(entry.path)
        self._prepared = True

    def _make_folder(self, path: str) -> None:
        """Make a folder and those above it, each durable in the one that contains it."""
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        self._make_folder(parent)
        with suppress(FileExistsError):  # a race with another process
            os.mkdir(path)
        if self._fsync:
            fsync_folder(parent)

    def _raise(self, error: OSError, key: str, writing: bool = False) -> NoReturn:
        if isinstance(error, FileNotFoundError) and not writing:
            raise NotFound(self._uri, key) from None
        if cause := _DENIED.get(error.errno or 0):
            denied = Denied(self._uri, key, f"{cause}.")
            was_allowed = self._may_write if writing else self._may_read
            raise denied.as_outage() if was_allowed else denied from error
        if cause := _PERMANENT.get(error.errno or 0):
            raise CheckpointError(f"checkpoint {self._uri}, {key!r}: {cause}.") from error
        raise Unreachable(self._uri, key, error.strerror or str(error), unknown=writing) from error


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _link(temporary: str, target: str, descriptor: int) -> None:
    try:
        os.link(temporary, target)
    except FileExistsError:
        # NFS may repeat a request whose answer was lost, and then reports our own link.
        if os.fstat(descriptor).st_nlink != 2:
            raise
