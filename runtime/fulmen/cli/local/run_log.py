"""A folder for each run, with all that would be too much for the terminal. Old ones are removed."""

import fcntl
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from fulmen.own_files import open_own_folder, remove_unused

RUNS_KEPT = 10
LARGEST_BYTES = 32 << 20
"""Of a log. What it had before is then in a second file, in place of what that had."""
LOOK_SECONDS = 1.0
_CHUNK = 1 << 20


class RunLog:
    """The log of one run: what Spark, the workers and the components print, and tracebacks.

    Nothing of it ever fails: on a full disk, lines are lost.

    Attributes:
        folder: The run's own. None: there is no place for one.
        file: The log in it.
    """

    def __init__(self, parent: Path | None, name: str, now: datetime) -> None:
        """Make the folder of a run, and remove old ones.

        Args:
            parent: Where the folders of all runs are. None: nothing is kept.
            name: The topology's.
            now: When the run starts.

        Raises:
            OSError: It can't be made there, or somebody else could write to it.
        """
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._keep_small, name="fulmen-log", daemon=True)
        self.folder = None
        if parent is None:
            self.file = Path(os.devnull)
            self._log = os.open(self.file, os.O_RDWR)
            return
        within = open_own_folder(parent)
        try:
            own = f"{now:%Y%m%d-%H%M%S.%f}-{name}-{os.getpid()}"
            os.mkdir(own, 0o700, dir_fd=within)
            self._lock = os.open(own, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=within)
        finally:
            os.close(within)
        self.folder = parent / own
        self.file = self.folder / "run.log"
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._log = self._opened("run.log", os.O_RDWR | os.O_APPEND | os.O_EXCL)
        _remove_old(parent)

    def _opened(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=self._lock)

    def write(self, text: str) -> None:
        """Add lines, after what others have written."""
        data = f"{text.rstrip()}\n".encode(errors="backslashreplace")
        with suppress(OSError):
            os.write(self._log, data)

    @property
    def has_something(self) -> bool:
        """Whether anybody has written to it."""
        return os.fstat(self._log).st_size > 0 or self._is_rotated

    @property
    def _is_rotated(self) -> bool:
        return self.folder is not None and (self.folder / "run.log.1").exists()

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watch.join()
        self.close()

    def close(self) -> None:
        """Let others remove the folder from now on. One without a log goes at once."""
        is_kept = self.has_something
        os.close(self._log)
        if self.folder is not None:
            if not is_kept:
                shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)

    def _keep_small(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.rotate()

    def rotate(self) -> None:
        """Keep the end of the log in a second file if it is too large, and begin anew.

        Those who write to it have it open for good: so it stays the same file.
        """
        at = os.fstat(self._log).st_size - LARGEST_BYTES
        if at < 0:
            return
        with suppress(OSError):  # the disk is full: what is there makes room
            into = self._opened("run.log.1", os.O_WRONLY | os.O_TRUNC)
            try:
                while chunk := os.pread(self._log, _CHUNK, at):
                    os.write(into, chunk)
                    at += len(chunk)
            finally:
                os.close(into)
        os.ftruncate(self._log, 0)


def open_log(
    name: str, environment: Mapping[str, str], home: Callable[[], Path], now: datetime
) -> RunLog:
    """The log of a run, in the first place that will do."""
    for place in _places(environment, home):
        with suppress(OSError, RuntimeError):  # it is read-only, full or somebody else's; no home
            return RunLog(place(), name, now)
    return RunLog(None, name, now)


def _places(
    environment: Mapping[str, str], home: Callable[[], Path]
) -> Iterator[Callable[[], Path]]:
    temporary = Path(tempfile.gettempdir())
    yield lambda: runs_folder(environment, home())
    yield lambda: temporary / f"fulmen-runs-{os.geteuid()}"
    yield lambda: Path(tempfile.mkdtemp(prefix="fulmen-runs-"))  # somebody else has made that one


def runs_folder(environment: Mapping[str, str], home: Path) -> Path:
    """The folder of the runs' folders: the place that XDG gives to logs."""
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else home / ".local" / "state"
    return base / "fulmen" / "runs"


def _remove_old(parent: Path) -> None:
    """Remove all folders but the newest, and none whose run goes on. Their names sort by time."""
    pattern = re.compile(r"\d{8}-\d{6}\.\d{6}-.+")
    folders = sorted(path for path in parent.iterdir() if pattern.fullmatch(path.name))
    for folder in folders[:-RUNS_KEPT]:
        remove_unused(folder)
