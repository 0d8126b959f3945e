"""What a window with many keys brings in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class WindowPage:
    """The next of many, as many as there is room for, and one in any case.

    Attributes:
        taken: How many.
        is_last: Whether there are no more.
    """

    def __init__(self, room: float) -> None:
        """`room`: see `Timers`."""
        self._room = max(1, room)
        self.taken = 0
        self.is_last = True

    def of(self, some: Iterable[T]) -> Iterator[T]:
        """Give those that there is room for."""
        for one in some:
            if self.taken >= self._room:
                self.is_last = False
                return
            self.taken += 1
            yield one
