"""The Python process of a worker, and what it keeps from task to task. No Spark here.

Each worker has one such process, and each of its tasks serves the same partition. This file guards
that, keeps garbage collection short, and sends what a component prints to the log file.

What it does not do: hold a component's state. That is the worker's cache, which checks by itself
whether what it holds is what was committed.
"""

import ctypes
import faulthandler
import gc
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fulmen.engine.protocol.callbacks.calls import CALLS, FOLDER
from fulmen.engine.worker.author_logs import Printed, log_to_stderr

LOG_FILE = "FULMEN_LOG_FILE"
"""Environment variable: the file that the Python processes print to. Unset: the JVM's stderr."""

_PR_SET_PDEATHSIG = 1


class RepeatGuard:
    """Notices tasks that must not count, because Spark ran one of them twice or somewhere else.

    Spark repeats a task without calling it a failure if its worker is lost while the task is being
    launched, so no setting makes a successful job mean that everything in it ran once.
    """

    def __init__(self) -> None:
        self._served: tuple[int, int] | None = None  # the epoch, and its only partition here

    def objection(self, epoch: int, partition: int, attempt: int) -> str | None:
        """Why the whole batch is void, or None.

        Args:
            epoch: Rises after each failure; in a new one the process may serve another partition.
            partition: The one this task serves.
            attempt: Spark's attempt number of the task.
        """
        if attempt > 0:
            return f"a task of partition {partition} was run again (attempt {attempt})"
        if self._served is None or self._served[0] != epoch:
            self._served = (epoch, partition)
        if self._served[1] != partition:
            return f"partition {partition} met the process of partition {self._served[1]}"
        return None


class CollectionPauses:
    """Keeps the collections that Spark's daemon makes after each task short.

    The daemon collects everything every time, which takes 87 ms with a million objects. What is
    frozen is left out. Frozen objects are garbage for ever if they form cycles, so a full
    collection is made now and then, at most one part in five hundred of the time.
    """

    PAUSE_SECONDS = 60.0
    SHARE = 1 / 500

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_full = clock()  # the first task's imports leave much behind

    def begin(self) -> None:
        """Begin a task: from here on nothing is collected until its end.

        Tuples are made by the hundred thousand, and hardly any of them is part of a cycle: looking
        for cycles among them took a third of the time.
        """
        gc.unfreeze()
        gc.disable()

    def end(self) -> None:
        """End a task, before the daemon collects."""
        now = self._clock()
        if now >= self._next_full:
            gc.collect()
            after = self._clock()
            self._next_full = after + max(self.PAUSE_SECONDS, (after - now) / self.SHARE)
        else:
            gc.collect(1)  # what this task made: unfrozen objects are in the oldest generation
        gc.freeze()


def adopt() -> None:
    """Prepare a process that was just forked.

    Where it prints, where it notes its calls, and that it dies with its parent.
    """
    if folder := os.environ.get(FOLDER):
        CALLS.keep_in(Path(folder))
    if path := os.environ.get(LOG_FILE):
        with suppress(OSError):  # the disk is full: it prints where it did
            log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.dup2(log, sys.stdout.fileno())
            os.dup2(log, sys.stderr.fileno())
            os.close(log)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            # Spark has them unbuffered: the words of several workers would mix within a line.
            stream.reconfigure(line_buffering=True, write_through=False)
            raw = io.FileIO(stream.fileno(), "wb", closefd=False)
            setattr(sys, name, Printed(stream, raw, is_buffered=False))
    log_to_stderr()  # which is where it leads to by now
    faulthandler.enable()  # a crash in a C extension leaves its traceback
    if sys.platform == "linux":
        # Spark's daemon ends its processes by SIGHUP, unless it is itself killed: then they would
        # stay.
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def watch(seconds: float) -> None:
    """Have what all threads are doing printed if this task takes that long. 0: don't."""
    if seconds > 0:
        # Not a thread of Python's: a call in C may hold its lock.
        faulthandler.dump_traceback_later(seconds)


def unwatch() -> None:
    """Stop the watch: the task has ended in time."""
    faulthandler.cancel_dump_traceback_later()
