"""The clocks that a driver has; tests have others."""

from __future__ import annotations

import threading
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

    def rest(self, woken: threading.Event, seconds: float) -> None:
        """Wait so many seconds, or until `woken` is set. Clocks of tests don't wait."""
        if self.sleep is time.sleep:
            woken.wait(seconds)
        else:
            self.sleep(seconds)
