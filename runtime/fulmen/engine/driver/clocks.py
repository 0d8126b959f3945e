"""The clocks that a driver has; tests have others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clocks:
    """How time passes.

    Attributes:
        steady: A clock that only goes forward, in seconds.
        sleep: Waits so many seconds.
        wall: The time of day, in seconds as of time.time().
    """

    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
