"""What unwinds a thread without being an error, and what it may not cut off."""

import threading


class Interruption(BaseException):
    """Unwinds a thread from wherever it is, an author's code too. It is not an error."""


class _Unbroken:
    """Keeps blocks of the main thread whole: an interruption that comes in one is raised behind it.

    For what starts a process or makes a folder: halfway, nobody knows what is to be ended.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._pending: Interruption | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth -= 1
            if not self._depth and self._pending is not None:
                pending, self._pending = self._pending, None
                raise pending

    def interrupt(self, error: Interruption) -> None:
        """Raise it at once, or behind the block. For handlers of signals."""
        if not self._depth:
            raise error
        self._pending = error


UNBROKEN = _Unbroken()
"""`with UNBROKEN:` the block comes to its end."""


class OutputClosed(Interruption):
    """Nobody reads any more what the command writes: it ends."""
