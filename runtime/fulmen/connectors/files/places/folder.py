"""A folder of this machine, or of a volume, that files are written to."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.files.places.local import BadPlace
from fulmen.own_files import fsync_folder

_LEFTOVER_SECONDS = 3600  # by then nobody is still writing it
_TEMPORARY = ".tmp"


class LocalFolder:
    """A folder that files are written to. Each appears whole, and outlives a crash of the machine.

    Raises:
        BadPlace: The folder can't be made or written to.
        ServiceUnavailable: The disk is full, or the volume is away.
    """

    def __init__(self, path: str, *, is_inner: bool = False) -> None:
        self._path, self._is_inner = os.path.abspath(path), is_inner

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
            if self._is_inner:
                with suppress(FileExistsError):
                    os.mkdir(self._path)
            try:
                _write(temporary, data)
                os.rename(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            fsync_folder(self._path)
        except OSError as error:
            raise self._unavailable(error) from error

    def inner(self, name: str) -> LocalFolder:
        """A folder in this one, which is made with its first file."""
        return LocalFolder(os.path.join(self._path, name), is_inner=True)

    def names(self, prefix: str) -> list[str]:
        """The names that begin so, in their order."""
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unavailable(error) from error
        return sorted(name for name in names if name.startswith(prefix))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""
        try:
            for name in names:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._path, name))
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
