"""The errors of components: the newest ones, and which of them are logged."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from fulmen.engine.protocol.summary import ErrorReport

_ERRORS_KEPT = 20
ERRORS_PER_INTERVAL = 5
ERROR_INTERVAL_SECONDS = 10.0
REPEAT_SECONDS = 60.0
"""An error with the same message is logged again after that time, with a count."""


class Errors(dict[str, deque[dict[str, Any]]]):
    """Component -> its newest errors, the one that came last at the end."""

    def add(self, error: ErrorReport, wall_clock: float) -> ErrorReport | None:
        """Keep an error. Returns it if it is to be logged, with a count if it has come before."""
        kept = self.setdefault(error.component, deque(maxlen=_ERRORS_KEPT))
        same = next((e for e in kept if e["message"] == error.message), None)
        if same is not None:
            kept.remove(same)
            kept.append(same)
            same |= {"task": error.task, "time": wall_clock, "count": same["count"] + 1}
            same["traceback"] = error.traceback or same["traceback"]
            if wall_clock - same["logged"] < REPEAT_SECONDS:
                return None
            same["logged"] = wall_clock
            return replace(error, message=f"{error.message} ({same['count']:,} times)")
        recent = [e for e in kept if wall_clock - e["logged"] < ERROR_INTERVAL_SECONDS]
        if len(recent) >= ERRORS_PER_INTERVAL:
            return None
        noted = {"task": error.task, "message": error.message, "traceback": error.traceback}
        times = {"first": wall_clock, "time": wall_clock, "logged": wall_clock}
        kept.append({**noted, **times, "count": 1})
        return error

    def copy(self) -> Errors:
        """One that does not change with this."""
        return Errors({name: deque(map(dict, kept), kept.maxlen) for name, kept in self.items()})
