"""Lines that wait for somebody to take them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

MOST_KEPT, MOST_KEPT_BYTES = 2000, 2_000_000
"""Lines and bytes of one tap; the oldest lines are dropped."""


class KeptLines:
    """The last lines that nobody has taken yet."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, lines: Sequence[bytes]) -> int:
        """Keep more lines. Returns how many are dropped."""
        self._lines += lines
        self._bytes += sum(map(len, lines))
        dropped = 0
        while len(self._lines) > MOST_KEPT or self._bytes > MOST_KEPT_BYTES:
            self._bytes -= len(self._lines.popleft())
            dropped += 1
        return dropped

    def take(self) -> list[bytes]:
        """Take all lines; they are kept no more."""
        lines = [*self._lines]
        self._lines.clear()
        self._bytes = 0
        return lines
