"""A folder for each run, with all that would be too much for the terminal. Old ones are removed."""

import fcntl
import os
import re
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Self

RUNS_KEPT = 10


class RunLog:
    """The log of one run: what Spark, the workers and the components print, and tracebacks.

    Attributes:
        folder: The run's own.
        file: The log in it.
    """

    def __init__(self, parent: Path, name: str, now: datetime) -> None:
        """Make the folder of a run, and remove old ones.

        Args:
            parent: Where the folders of all runs are.
            name: The topology's.
            now: When the run starts.
        """
        parent.mkdir(parents=True, exist_ok=True)
        self.folder = parent / f"{now:%Y%m%d-%H%M%S.%f}-{name}-{os.getpid()}"
        self.folder.mkdir(mode=0o700)
        self.file = self.folder / "run.log"
        self._lock = os.open(self.folder, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        _remove_old(parent)

    def write(self, text: str) -> None:
        """Add lines, after what others have written."""
        with open(self.file, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{text.rstrip()}\n")

    @property
    def has_something(self) -> bool:
        """Whether anybody has written to it."""
        return self.file.exists() and self.file.stat().st_size > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """From now on others may remove the folder. One without a log goes at once."""
        os.close(self._lock)
        if not self.has_something:
            shutil.rmtree(self.folder, ignore_errors=True)


def runs_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Where the folders of runs are: the place that XDG gives to logs."""
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else home / ".local" / "state"
    return base / "fulmen" / "runs"


def _remove_old(parent: Path) -> None:
    """Remove all folders but the newest, and none whose run goes on. Their names sort by time."""
    pattern = re.compile(r"\d{8}-\d{6}\.\d{6}-.+")
    folders = sorted(path for path in parent.iterdir() if pattern.fullmatch(path.name))
    for folder in folders[:-RUNS_KEPT]:
        if not _is_in_use(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_in_use(folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(handle)
