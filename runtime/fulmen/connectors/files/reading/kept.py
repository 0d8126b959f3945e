"""Recently read parts of files, in memory, for messages that fail. Pure.

A message that fails again and again is read again once, and not each time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")
KEPT_BYTES = 16 << 20
"""About so many bytes are kept of one task."""
_ENTRY_BYTES = 200


class RecentlyUsed(Generic[T]):
    """Values by key; those that were used least lately are dropped first."""

    def __init__(self) -> None:
        self._bytes = 0
        self._values: OrderedDict[int, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: int) -> T | None:
        """The value that is kept under this key; None: there is none."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def key_before(self, key: int) -> int | None:
        """The highest key that is not above this one."""
        return max((k for k in self._values if k <= key), default=None)

    def put(self, key: int, value: T, size: int) -> None:
        """Keep something that has about so many bytes."""
        size += _ENTRY_BYTES
        _, before = self._values.pop(key, (None, 0))
        self._values[key] = value, size
        self._bytes += size - before
        while self._bytes > KEPT_BYTES and self._values:
            _, (_, dropped) = self._values.popitem(last=False)
            self._bytes -= dropped
