"""SIGTERM, as the kubelet sends it: remembered, and told to a thread that knows what to do.

The handler interrupts any line of the main thread, so it does next to nothing: it writes to a pipe,
or raises as long as no batch runs.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Self

from fulmen.interruptions import Interruption

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Terminated(Interruption):
    """SIGTERM came before the first batch: unwinds the main thread. It is not an error."""


class Termination:
    """Waits for SIGTERM for as long as it is open.

    Attributes:
        asked: Whether it came.
    """

    def __init__(self) -> None:
        self.asked = False
        self._raises = True
        self._reader, self._writer = os.pipe()

    def __enter__(self) -> Self:
        for number in SIGNALS:
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._raises = False  # handlers stay: what follows is not to be interrupted

    def raise_no_more(self) -> None:
        """Batches run from now on: they end in an orderly way. Raises if SIGTERM has come."""
        self._raises = False
        if self.asked:
            raise Terminated

    def wait(self) -> None:
        """Wait until SIGTERM comes."""
        os.read(self._reader, 1)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self.asked:
            self.asked = True
            os.write(self._writer, b".")
            if self._raises:
                raise Terminated
