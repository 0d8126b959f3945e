"""Files of this machine, or of a volume: found by pattern, known by inode, written whole.

A file stays the same when it is renamed within its folder: it is known by folder and inode, and by
its first bytes, since a file system gives the inode of a removed file to the next one.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from fulmen.api.sinks import ServiceUnavailable
from fulmen.connectors.files.positions import HEAD_BYTES, Found, Key, Position
from fulmen.errors import FulmenError
from fulmen.transactional.spouts.lines import files_of

COMPRESSED = ".gz"
# What log rotation appends: app.log.1, app.log-20260131, app.log.2026-01-31, and app.log.1.gz.
_ROTATED = re.compile(r"(?:\.\d{1,3}|[.-]\d{8,10}(?:-\d+)?|\.\d{4}-\d{2}-\d{2})?(?:\.gz)?$")
_LEFTOVER_SECONDS = 3600  # by then nobody is still writing it
_TEMPORARY = ".tmp"


class BadPlace(FulmenError):
    """Files can't be read from a place, or written to it, and trying again is no use."""


class Gone(Exception):
    """A file is not where it was."""


class Changed(Gone):
    """A file is there, but has other content than it had."""


@dataclass
class Opened:
    """An open file.

    Attributes:
        content: What is in it, decompressed.
        raw: The file itself, if it is one of this machine.
        reader: What makes values of its records, once that is known.
    """

    content: BinaryIO
    raw: BinaryIO | None = None
    reader: Any = None

    @property
    def size(self) -> int | None:
        """In bytes, as far as it is written now; None: it is an object."""
        return None if self.raw is None else os.fstat(self.raw.fileno()).st_size

    def close(self) -> None:
        """Close it."""
        self.content.close()
        if self.raw is not None:
            self.raw.close()


def family(path: str) -> str:
    """The name that a file has, or had before log rotation renamed it."""
    return _ROTATED.sub("", path)


def head_of(raw: BinaryIO, length: int = HEAD_BYTES) -> tuple[int, int]:
    """Length and checksum of a file's first bytes, at most so many."""
    data = os.pread(raw.fileno(), length, 0)
    return len(data), zlib.crc32(data)


def check_same(opened: Opened, position: Position) -> None:
    """See that a file still has what was read of it.

    Raises:
        Changed: It was cut, or has another content.
    """
    if opened.raw is None:
        return
    is_short = not position.path.endswith(COMPRESSED) and (opened.size or 0) < position.offset
    if is_short or head_of(opened.raw, position.head[0]) != position.head:
        raise Changed(f"file '{position.path}' was cut or replaced")


class LocalFiles:
    """The files that patterns match and that are this task's, whatever they are renamed to."""

    def __init__(
        self, patterns: Sequence[str], folders: list[str], owns: Callable[[str], bool]
    ) -> None:
        """Nothing is looked at yet.

        Args:
            patterns: As `glob` takes them; `**` is any folders.
            folders: All that files were found in, by number. New ones are added.
            owns: Whether a file of that name is this task's.
        """
        self._patterns = [os.path.abspath(pattern) for pattern in patterns]
        self._folders = folders
        self._owns = owns

    def check(self) -> None:
        """Nothing can be said before files are looked for."""

    def missing(self) -> str | None:
        """A file that is named without `*` and is not there."""
        for pattern in self._patterns:
            if not glob.has_magic(pattern) and not os.path.isfile(pattern):
                return pattern
        return None

    def find(self, is_known: Callable[[Key], bool]) -> dict[Key, Found]:
        """All that are there.

        Args:
            is_known: Whether a file was read before: it is found under any name.
        """
        found: dict[Key, Found] = {}
        for pattern in self._patterns:
            for name in files_of(pattern):
                path = os.path.realpath(name)
                with suppress(FileNotFoundError):
                    self._look(path, self._owns(family(path)), is_known, found)
        for number, folder in enumerate(self._folders):
            self._look_for_renamed(number, folder, is_known, found)
        return found

    def _look(
        self, path: str, is_owned: bool, is_known: Callable[[Key], bool], found: dict[Key, Found]
    ) -> None:
        status, folder = os.stat(path), os.path.dirname(path)
        if folder not in self._folders:
            if not is_owned:
                return
            self._folders.append(folder)
        key = self._folders.index(folder), status.st_ino
        if is_owned or is_known(key):
            found[key] = _found(key, path, status, is_rotated=family(path) != path)

    def _look_for_renamed(
        self, number: int, folder: str, is_known: Callable[[Key], bool], found: dict[Key, Found]
    ) -> None:
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                key = number, entry.inode()
                if key not in found and is_known(key):
                    with suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            found[key] = _found(key, entry.path, entry.stat(), is_rotated=True)

    def open(self, position: Position) -> Opened:
        """Open a file where it was found last.

        Raises:
            Gone: It is not there. It may have been renamed.
            OSError: Its folder is not there either.
        """
        try:
            raw = open(position.path, "rb")  # noqa: SIM115 (it outlives this method)
        except FileNotFoundError:
            if not os.path.isdir(os.path.dirname(position.path)):
                raise
            raise Gone(f"file '{position.path}' was removed") from None
        assert isinstance(position.key, tuple)
        if os.fstat(raw.fileno()).st_ino != position.key[1]:
            raw.close()
            raise Gone(f"file '{position.path}' was replaced")
        if position.path.endswith(COMPRESSED):
            return Opened(gzip.GzipFile(fileobj=raw), raw)  # type: ignore[arg-type]
        return Opened(raw, raw)

    def folder_of(self, key: Key) -> int:
        """Files of one folder have the same number."""
        assert isinstance(key, tuple)
        return key[0]


def _found(key: Key, path: str, status: os.stat_result, *, is_rotated: bool) -> Found:
    is_whole = path.endswith(COMPRESSED)
    return Found(key, path, status.st_size, status.st_mtime, is_whole, is_rotated)


class LocalFolder:
    """A folder that files are written to. Each appears whole, and outlives a crash of the machine.

    Raises:
        BadPlace: The folder can't be made or written to.
        ServiceUnavailable: The disk is full, or the volume is away.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)

    def check(self) -> None:
        """Make the folder if it is missing, and remove what was left of files half written."""
        try:
            os.makedirs(self._path, exist_ok=True)
            probe = os.path.join(self._path, f".{os.getpid()}-{os.urandom(6).hex()}{_TEMPORARY}")
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            # The file system's own time, which may be another machine's.
            now = os.stat(probe).st_mtime
            for path in list(self._temporary()):
                with suppress(FileNotFoundError):
                    if path == probe or now - os.stat(path).st_mtime > _LEFTOVER_SECONDS:
                        os.unlink(path)
        except (PermissionError, NotADirectoryError, FileExistsError) as error:
            raise BadPlace(
                f"config.path: folder '{self._path}' can't be written to: {error.strerror}. Name a"
                " folder that this user may write to"
            ) from error
        except OSError as error:
            raise self._unavailable(error) from error

    def put(self, name: str, data: bytes) -> None:
        """Write a file, unless there is one of that name."""
        path = os.path.join(self._path, name)
        temporary = os.path.join(
            self._path, f".{name}-{os.getpid()}-{os.urandom(6).hex()}{_TEMPORARY}"
        )
        try:
            if os.path.exists(path):
                return
            try:
                _write(temporary, data)
                os.rename(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            _fsync(self._path)
        except OSError as error:
            raise self._unavailable(error) from error

    def _temporary(self) -> Iterator[str]:
        with os.scandir(self._path) as entries:
            for entry in entries:
                if entry.name.startswith(".") and entry.name.endswith(_TEMPORARY):
                    yield entry.path

    def _unavailable(self, error: OSError) -> ServiceUnavailable:
        return ServiceUnavailable(f"folder '{self._path}'", error.strerror or str(error))


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with io.FileIO(descriptor, "w") as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) or 0 :]
        os.fsync(descriptor)


def _fsync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
