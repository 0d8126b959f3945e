"""Files of this machine, or of a volume: found by pattern, known by inode.

A file stays the same when it is renamed within its folder: it is known by folder and inode, and by
its first bytes and the last ones that were read, since a file system gives the inode of a removed
file to the next one. They are compared whenever the file's status has changed since it was read:
nobody can write to a file, or give its inode to another one, without that.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from fulmen.connectors.files.owners import family
from fulmen.connectors.files.places.packed import unpacked
from fulmen.connectors.files.places.patterns import files_of, folder_named
from fulmen.connectors.files.positions import (
    HEAD_BYTES,
    FileProgress,
    FoundFile,
    Key,
    Position,
    Whose,
)
from fulmen.errors import FulmenError

_FAULTS_OF_THE_PROCESS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_RECENT_SECONDS = 2.0
"""So coarse may be the times of a file system: within them a status may be changed unseen."""


class BadPlace(FulmenError):
    """Files can't be read from a place, or written to it, and trying again is no use."""


class UnreadableFile(Exception):
    """A file is there and can't be read, but others can."""


class GoneFile(Exception):
    """A file is not where it was."""


class Changed(GoneFile):
    """A file is there, but has other content than it had."""


@dataclass
class OpenedFile:
    """An open file.

    Attributes:
        content: What is in it, decompressed.
        raw: The file itself, if it is one of this machine.
        reader: What makes values of its records, once that is known.
    """

    content: io.BufferedIOBase
    raw: BinaryIO | None = None
    reader: Any = None

    @property
    def size(self) -> int | None:
        """The size in bytes, as far as it is written now; None: it is an object."""
        return None if self.raw is None else os.fstat(self.raw.fileno()).st_size

    def close(self) -> None:
        """Close it."""
        self.content.close()
        if self.raw is not None:
            self.raw.close()


def as_text(path: str) -> str:
    """A path that any sink can write down: what is no UTF-8 is escaped, as in Python's `repr`."""
    return path.encode(errors="backslashreplace").decode()


def head_of(raw: BinaryIO, length: int = HEAD_BYTES) -> tuple[int, int]:
    """Length and checksum of a file's first bytes, at most so many."""
    data = os.pread(raw.fileno(), length, 0)
    return len(data), zlib.crc32(data)


def longer_head(raw: BinaryIO, position: Position) -> tuple[int, int] | None:
    """The head of a file that may have grown; None: its first bytes are others by now.

    Both are seen in the same bytes: somebody may write to the file at any moment.
    """
    data = os.pread(raw.fileno(), HEAD_BYTES, 0)
    length, checksum = position.head
    if len(data) < length or zlib.crc32(data[:length]) != checksum:
        return None
    return len(data), zlib.crc32(data)


def tail_of(raw: BinaryIO, place: int) -> tuple[int, int]:
    """A place, and the checksum of the bytes before it; (0, 0) if they belong to the head."""
    if place <= HEAD_BYTES:
        return 0, 0
    return place, zlib.crc32(os.pread(raw.fileno(), HEAD_BYTES, place - HEAD_BYTES))


def check_same(opened: OpenedFile, position: Position) -> None:
    """See that a file still has what was read of it.

    Raises:
        Changed: It was cut, or has another content.
    """
    if opened.raw is None:
        return
    is_short = not position.is_whole and (opened.size or 0) < position.offset
    if (
        is_short
        or head_of(opened.raw, position.head[0]) != position.head
        or tail_of(opened.raw, position.tail[0]) != position.tail
    ):
        raise Changed(f"file '{position.path}' was cut or replaced")


class LocalFiles:
    """The files that patterns match and that are this task's, whatever they are renamed to.

    Attributes:
        present: The numbers of the folders that were there when it looked last, and are the same
            as when files were found there: what is not in them is removed.
        passed_over: Folders that could not be listed then, and what else could not be looked at,
            and why.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        progress: FileProgress,
        owns: Callable[[str], bool],
        is_whole: Callable[[str], bool],
        now: Callable[[], float],
    ) -> None:
        """Keep the patterns. Nothing is looked at yet.

        Args:
            patterns: As `glob` takes them; `**` is any folders.
            progress: Which has all folders that files were found in. New ones are added.
            owns: Whether a file of that name is this task's.
            is_whole: Whether a file of that path is read to its end at once.
            now: The time of day.
        """
        self._patterns = [os.path.abspath(pattern) for pattern in patterns]
        self._folders, self._inodes = progress.folders, progress.inodes
        self._owns, self._is_whole, self._now = owns, is_whole, now
        self._recent = 0.0
        self.present: set[int] = set()
        self.passed_over: dict[str, str] = {}

    def check(self) -> None:
        """Check nothing: nothing can be said before files are looked for."""

    def missing(self) -> str | None:
        """A file that is named without `*`, or the folder of a pattern, that is not there."""
        for pattern in self._patterns:
            if not glob.has_magic(pattern):
                if not os.path.isfile(pattern):
                    return f"file '{pattern}'"
                continue
            folder = pattern
            while glob.has_magic(folder):
                folder = os.path.dirname(folder)
            if not os.path.isdir(folder):
                return f"folder '{folder}'"
        return None

    def folder(self) -> str | None:
        """A folder that is named without `*`."""
        return next(filter(None, map(folder_named, self._patterns)), None)

    def find(self, is_known: Callable[[Key], bool]) -> dict[Key, FoundFile]:
        """Find all files.

        Args:
            is_known: Whether a file was read before: it is found under any name.
        """
        files: dict[Key, FoundFile] = {}
        self._recent = self._now() - _RECENT_SECONDS
        self.passed_over = {}
        for pattern in self._patterns:
            for name in files_of(pattern, self._pass_over):
                path = os.path.realpath(name)
                with suppress(OSError):  # it is gone, or a link that leads nowhere
                    self._look(path, self._owns(family(path)), is_known, files)
        for number, folder in enumerate(self._folders):
            self._look_for_renamed(number, folder, is_known, files)
        self._look_at_folders({key[0] for key in files if isinstance(key, tuple)})
        return files

    def _pass_over(self, error: OSError) -> None:
        is_folder = os.path.isdir(error.filename)
        what = "the folder can't be listed" if is_folder else "it can't be looked at"
        self.passed_over[error.filename] = f"{what}: {error.strerror}"

    def _look_at_folders(self, used: set[int]) -> None:
        self.present = set()
        for number, folder in enumerate(self._folders):
            with suppress(OSError):
                inode = os.stat(folder).st_ino
                if number in used:
                    self._inodes[number] = inode
                if self._inodes.get(number) == inode:
                    self.present.add(number)

    def _look(
        self,
        path: str,
        is_owned: bool,
        is_known: Callable[[Key], bool],
        found: dict[Key, FoundFile],
    ) -> None:
        status, folder = os.stat(path), os.path.dirname(path)
        if folder not in self._folders:
            if not is_owned:
                return
            self._folders.append(folder)
        key = self._folders.index(folder), status.st_ino
        if is_owned or is_known(key):
            whose: Whose = "ours" if is_owned else "others"
            found[key] = self._found(key, path, status, whose, is_rotated=family(path) != path)

    def _look_for_renamed(
        self, number: int, folder: str, is_known: Callable[[Key], bool], found: dict[Key, FoundFile]
    ) -> None:
        with suppress(FileNotFoundError, PermissionError), os.scandir(folder) as entries:
            for entry in entries:
                key = number, entry.inode()
                if key not in found and is_known(key):
                    with suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            path, status = entry.path, entry.stat()
                            whose = self._whose(path)
                            found[key] = self._found(key, path, status, whose, is_rotated=True)

    def _whose(self, path: str) -> Whose:
        """Say to whom a file belongs that no pattern matches."""
        name = family(path)
        return "rotated" if name != path and self._owns(name) else "nobodys"

    def open(self, position: Position) -> OpenedFile:
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
            raise GoneFile(f"file '{position.path}' was removed") from None
        assert isinstance(position.key, tuple)
        if os.fstat(raw.fileno()).st_ino != position.key[1]:
            raw.close()
            raise GoneFile(f"file '{position.path}' was replaced")
        return OpenedFile(unpacked(position.path, raw), raw)

    def fault_of(self, path: str, error: Exception) -> str | None:
        """Why a file can't be read; None: it is not the file's fault, as others can't be read."""
        if not isinstance(error, OSError) or error.errno in _FAULTS_OF_THE_PROCESS:
            return None
        try:
            with os.scandir(os.path.dirname(path)) as entries:
                next(entries, None)
        except OSError:
            return None
        return f"the file can't be read: {error.strerror}"

    def folder_of(self, key: Key) -> int:
        """The number of a folder; files of one folder have the same."""
        assert isinstance(key, tuple)
        return key[0]

    def _found(
        self, key: Key, path: str, status: os.stat_result, whose: Whose, *, is_rotated: bool
    ) -> FoundFile:
        return FoundFile(
            key,
            path,
            status.st_size,
            status.st_mtime,
            is_whole=self._is_whole(path),
            is_rotated=is_rotated,
            whose=whose,
            stamp=status.st_ctime_ns if status.st_ctime < self._recent else 0,
        )
