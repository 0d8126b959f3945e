"""Handlers of SIGINT (Ctrl-C) and SIGTERM: the first signal drains a topology, the second ends it.

Handlers do next to nothing, since they may interrupt any line of the main thread: they set a flag
that the driver reads between batches, or raise.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from fulmen.engine.driver.driver import Stop
from fulmen.interruptions import UNBROKEN, Interruption

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedAtOnce(Interruption):
    """The second signal, or a call that does not end after the first: unwinds the main thread."""


class StopSignals:
    """Turns signals into a `Stop`, for as long as it is open."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._asked = False
        self._is_over = False
        self._is_second = self._is_cut_off = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    @property
    def asked(self) -> bool:
        """Whether there was a signal."""
        return self._asked

    def cut_off(self) -> None:
        """Unwind the main thread, which waits for a call that does not end. For another thread."""
        if not (self._is_cut_off or self._is_over):
            self._is_cut_off = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def over(self) -> None:
        """Note that the topology has ended: nothing is left to be drained or ended."""
        self._is_over = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._stop.cut_off = self.cut_off
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._is_second and error is not None and not isinstance(error, StoppedAtOnce):
            # What the second signal interrupted has raised an error of its own instead: a `finally`
            # of a library that closes what it had not opened yet.
            raise StoppedAtOnce from error

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self._asked:
            self._asked = self._stop.drain = self._stop.interrupted = True
            return
        for each in SIGNALS:  # a third one ends the process
            signal.signal(each, signal.SIG_DFL)
        if not self._is_over:
            self._stop.now = self._is_second = True
            UNBROKEN.interrupt(StoppedAtOnce())
