"""Files and folders in places where others may write too, such as /tmp and /dev/shm.

What it guarantees: nobody else can read what is in a folder of ours, or put a file or a link into
its way. What a process leaves behind when it is killed is removed by the next one that makes a
folder there.

Whether a process is alive is told by a lock that it holds on its folder, not by its process id:
that may have been given to another process, or belong to another container that shares the place.
"""

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from types import TracebackType
from typing import Self

NAME_BYTES = len("fulmen-work-0123456789abcdef")
"""Of the longest name of a folder for one process."""
STATE_FOLDER = "FULMEN_STATE_FOLDER"
"""The environment variable with the folder for state on disk. Default: the temporary one."""
_NAME = re.compile(r"fulmen-[a-z]+-[0-9a-f]{16}")
_ROOT = 0
_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class PrivateFolder:
    """A folder for one process, for as long as it is open.

    Attributes:
        path: The folder. Its name can't be guessed, and only this user may enter it.
    """

    def __init__(self, kind: str, parent: Path | None = None) -> None:
        """Make the folder, and remove those of processes that are gone.

        Args:
            kind: What it is for: a short word of small letters, which its name has.
            parent: The folder to make it in. Default: the temporary folder.
        """
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        remove_leftovers(parent)
        while True:
            self.path = parent / f"fulmen-{kind}-{secrets.token_hex(8)}"
            self.path.mkdir(mode=0o700)
            if (lock := _locked(self.path)) is not None:
                self._lock = lock
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder. May be called again."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


_kept: dict[Path, int] = {}
"""The locks on folders that this process has until it ends."""


def kept_folder(kind: str, owner: str, parent: Path | None = None) -> Path:
    """A folder for all processes of an owner, in which one finds what others have left.

    It is there while one of them lives. Whoever makes a folder of its own beside it afterwards
    removes it, unless the next process of the owner comes first.

    Args:
        kind: As of `PrivateFolder`.
        owner: Any text.
        parent: The folder to make it in, which is nobody else's to write to, whatever its rights
            say: those of a volume of a pod are for everybody. Default: the temporary folder.

    Raises:
        OSError: It can't be made, or is somebody else's.
    """
    is_shared = parent is None
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    path = parent / f"fulmen-{kind}-{hashlib.sha256(owner.encode()).hexdigest()[:16]}"
    while path not in _kept:
        os.close(open_own_folder(path, is_shared=is_shared))
        if (lock := _locked(path)) is not None:
            _kept[path] = lock
    return path


def _locked(folder: Path) -> int | None:
    """The descriptor of a lock on a new folder. None: another process has just removed it."""
    try:
        lock = os.open(folder, _AS_FOLDER)
    except FileNotFoundError:
        return None
    with suppress(OSError):  # a file system that has none: then nobody can find it unlocked either
        fcntl.flock(lock, fcntl.LOCK_SH)
    if folder.exists():
        return lock
    os.close(lock)
    return None


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of this user's processes that are gone."""
    for folder in parent.glob("fulmen-*-*"):
        if _NAME.fullmatch(folder.name):
            remove_unused(folder)


def remove_unused(folder: Path) -> None:
    """Remove a folder of this user's, unless a process has a lock on it."""
    try:
        lock = os.open(folder, _AS_FOLDER)
    except OSError:  # another process has just removed it, or it is somebody else's
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)


def open_own_folder(path: Path, *, is_shared: bool = True) -> int:
    """The descriptor of a folder that is this user's alone, which is made if it is missing.

    Args:
        path: The folder.
        is_shared: Whether others may have access to what it is in.

    Raises:
        OSError: It can't be made, or somebody else could have put it there, or a link into the way.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_shared:
        refuse_of_others(path)
    folder = os.open(path, _AS_FOLDER)
    status = os.fstat(folder)
    if status.st_uid != os.geteuid():
        os.close(folder)
        raise PermissionError(f"'{path}' belongs to the user with the id {status.st_uid}")
    if status.st_mode & 0o077:
        os.fchmod(folder, 0o700)
    return folder


def refuse_of_others(path: Path) -> None:
    """Raise PermissionError if somebody else could have put a file there, or a link into the way.

    OSError: It can't be looked at. A file that is missing is nobody's.
    """
    for way in (path.absolute(), path.resolve()):
        for place in (way, *way.parents):
            _refuse_of_another(place)


def _refuse_of_another(path: Path) -> None:
    mode = path.parent.stat().st_mode
    if mode & stat.S_IWOTH and path != path.parent and os.path.lexists(path):
        owner = path.lstat().st_uid
        if owner not in (os.geteuid(), _ROOT):
            raise PermissionError(
                f"'{path}' belongs to the user with the id {owner}, and is where anybody may write"
            )
        if not mode & stat.S_ISVTX:
            raise PermissionError(f"'{path.parent}' is a folder in which anybody may replace it")


@contextmanager
def written_whole(file: Path) -> Iterator[BufferedRandom]:
    """Write a file as a whole: whoever reads it finds the old one or the new one. May be read, too.

    A link stays one, unless it is somebody else's in a folder where anybody may write.

    Raises:
        OSError: It can't be written.
    """
    if file.is_symlink():
        _refuse_of_another(file.absolute())
    target = file.resolve()
    new = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "w+b") as into:
            yield into
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def fsync_folder(path: str) -> None:
    """Have the names in a folder outlive a crash of the machine.

    Raises:
        OSError: It can't be opened or synced.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
