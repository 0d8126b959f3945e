"""A private folder for what Spark writes while it runs. No Spark here.

Sockets in it have short enough paths. What else it guarantees: see `fulmen.own_files`.
"""

import os
import tempfile
from pathlib import Path

from fulmen.errors import FulmenError
from fulmen.own_files import NAME_BYTES, PrivateFolder

MEMORY = Path("/dev/shm")  # where a RAM disk is on Linux; shuffles are faster there
ROOM_BYTES = 1 << 30
LONGEST_PATH = 60  # a socket's may have 103 bytes (macOS); its name takes 42
_OWN_NAME = NAME_BYTES + 1


class WorkDir(PrivateFolder):
    """One process's private folder."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make the folder.

        Args:
            parent: The folder to make it in. Default: the RAM disk if it has room, else the
                temporary folder.
        """
        parent = _roomy_parent() if parent is None else parent
        parent.mkdir(parents=True, exist_ok=True)
        parent = parent.resolve()
        if _path_bytes(parent) > LONGEST_PATH:
            raise FulmenError(
                f"work folder: '{parent}' is too long a path, because sockets are made in it. "
                f"Choose one of at most {LONGEST_PATH - _OWN_NAME} bytes."
            )
        super().__init__("work", parent)


def _path_bytes(parent: Path) -> int:
    return len(os.fsencode(parent)) + _OWN_NAME


def _roomy_parent() -> Path:
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK):
        room = os.statvfs(MEMORY)
        if room.f_bavail * room.f_frsize > ROOM_BYTES:
            return MEMORY
    temporary = Path(tempfile.gettempdir())
    return Path("/tmp") if _path_bytes(temporary.resolve()) > LONGEST_PATH else temporary
