"""Children that an author's callback has forked, and which return from it as if they were parents.

What follows is the parent's alone: a second process that goes on with its batch would send the
same rows on the same connections. So a child ends where the callback ends.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

FORKED: list[int] = []
"""Not empty: this process was forked since the callback began. A list, to be asked quickly."""

os.register_at_fork(after_in_child=lambda: FORKED.append(os.getpid()))


def begin() -> None:
    """Authors' callbacks are called from here on: whoever forked this process did so before."""
    FORKED.clear()


def end_child() -> None:
    """End this process if a callback has forked it."""
    if FORKED:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)
