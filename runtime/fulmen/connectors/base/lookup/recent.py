"""What was asked for, for a while: a bounded number of answers, of which the last used stay."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class RecentAnswers(Generic[V]):
    """Answers by what was asked. One thread uses it at a time."""

    def __init__(self, most: int) -> None:
        """`most`: So many answers are kept."""
        self._most = most
        self._kept: dict[Hashable, tuple[float, V]] = {}  # the last one was used last

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, now: float) -> tuple[V] | None:
        """The answer. None: there is none, or it is too old.

        Raises:
            TypeError: The key has no hash.
        """
        kept = self._kept.pop(key, None)
        if kept is None or kept[0] <= now:
            return None
        self._kept[key] = kept
        return (kept[1],)

    def keep(self, key: Hashable, answer: V, until: float) -> None:
        """Keep an answer until then."""
        self._kept[key] = until, answer
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
