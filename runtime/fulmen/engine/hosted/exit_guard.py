"""Keeps the driver alive when code of authors that it hosts would end its process.

A worker's process that ends is replaced by another one, and batches go on without the spout that
has ended it. The driver's process is all that there is. So where it calls hosted code, `os._exit`
raises SystemExit, which is dealt with as any exception. Children that such code has forked end as
ever.

Nothing helps against a crash in C. Then the stack is printed, which names the method.
"""

from __future__ import annotations

import faulthandler
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

_real_exit = os._exit
_thread = threading.local()


def _exit(status: int) -> NoReturn:
    """Takes the place of `os._exit`."""
    if getattr(_thread, "process", None) == os.getpid():
        raise SystemExit(status)
    _real_exit(status)


@contextmanager
def hosting() -> Iterator[None]:
    """Mark that this thread calls hosted code in the block."""
    os._exit = _exit
    if not faulthandler.is_enabled():
        with suppress(io.UnsupportedOperation, AttributeError, ValueError, OSError):
            faulthandler.enable(all_threads=False)  # unless stderr is no file
    before = getattr(_thread, "process", None)
    _thread.process = os.getpid()
    try:
        yield
    finally:
        _thread.process = before
