"""Files and folders that can't be read: told once, passed over, and tried again later. Pure.

A file is tried again when its status has changed, or after a pause that grows.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

LONGEST_PAUSE = 300.0


@dataclass(slots=True)
class _Trouble:
    reason: str
    stamp: int
    pause: float
    until: float


class Troubles:
    """Files that can't be read now. In memory: a new process tries at once and tells again."""

    def __init__(self, first_pause: float) -> None:
        self._first = first_pause
        self._troubles: dict[Hashable, _Trouble] = {}

    def met(self, which: Hashable, reason: str, now: float, stamp: int = 0) -> bool:
        """Note what can't be read. Returns whether that is to be told."""
        known = self._troubles.get(which)
        pause = self._first if known is None else min(2 * known.pause, LONGEST_PAUSE)
        self._troubles[which] = _Trouble(reason, stamp, pause, now + pause)
        return known is None or known.reason != reason

    def is_over(self, which: Hashable, now: float, stamp: int | None = None) -> bool:
        """Whether it may be tried: nothing was wrong, or its pause is over, or it has changed."""
        known = self._troubles.get(which)
        return known is None or now >= known.until or stamp not in (None, known.stamp)

    def __contains__(self, which: Hashable) -> bool:
        return which in self._troubles

    def forget(self, which: Hashable) -> None:
        """Forget what was read."""
        self._troubles.pop(which, None)
