"""A private folder for what Spark writes while it runs. No Spark here.

What it guarantees: only this user can read it, sockets in it have short enough paths, it is gone
after `close`, and folders whose process was killed are removed by the next process that makes one.

Whether a process is alive is told by a lock that it holds on its folder, not by its process id:
that may have been given to another process, or belong to another container that shares the folder.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from fulmen.errors import FulmenError

PREFIX = "fulmen-"
MEMORY = Path("/dev/shm")  # where a RAM disk is on Linux; shuffles are faster there
ROOM_BYTES = 1 << 30
LONGEST_PATH = 60  # a socket's may have 103 bytes (macOS); its name takes 42
_OWN_NAME = len(f"/{PREFIX}12345678")


class WorkDir:
    """One process's private folder.

    Attributes:
        path: The folder.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Make the folder.

        Args:
            parent: The folder to make it in. Default: the RAM disk if it has room, else the
                temporary folder.
        """
        parent = _roomy_parent() if parent is None else parent
        parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(parent)
        parent = parent.resolve()
        if _path_bytes(parent) > LONGEST_PATH:
            raise FulmenError(
                f"work folder: '{parent}' is too long a path, because sockets are made in it. "
                f"Choose one of at most {LONGEST_PATH - _OWN_NAME} bytes."
            )
        self.path, self._lock = _locked_folder(parent)

    def close(self) -> None:
        """Remove the folder. May be called again."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def remove_leftovers(parent: Path) -> None:
    """Remove our folders in `parent` whose process is gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            status = folder.lstat()
        except FileNotFoundError:  # another process has just removed it
            continue
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return False  # not one of ours, or about to be locked
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor of its lock, which this process holds."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / "lock").exists():
            return path, lock
        os.close(lock)  # another process found the lock free just before, and removed the folder


def _path_bytes(parent: Path) -> int:
    return len(os.fsencode(parent)) + _OWN_NAME


def _roomy_parent() -> Path:
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK):
        room = os.statvfs(MEMORY)
        if room.f_bavail * room.f_frsize > ROOM_BYTES:
            return MEMORY
    temporary = Path(tempfile.gettempdir())
    return Path("/tmp") if _path_bytes(temporary.resolve()) > LONGEST_PATH else temporary
