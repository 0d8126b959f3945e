"""Errors, and why tuples failed, as JSON: a part of `topology`."""

from __future__ import annotations

from typing import Any

from fulmen.engine.totals.failures import REASONS_SHOWN, is_error
from fulmen.metrics.snapshot import Snapshot

ERRORS_SHOWN = 20
"""Groups of errors, the newest ones."""
ERROR_CHARACTERS = 2000
_TRACEBACK_CHARACTERS = 3000

Json = dict[str, Any]


def errors_json(now: Snapshot) -> list[Json]:
    """The newest ones of all components; the same one is told once, with a count."""
    errors = [
        {
            "component": component,
            "task": error["task"],
            "message": error["message"][:ERROR_CHARACTERS],
            "traceback": _end_of(error["traceback"], _TRACEBACK_CHARACTERS),
            "count": error["count"],
            "first": round(error["first"], 3),
            "time": round(error["time"], 3),
        }
        for component, kept in now.errors.items()
        for error in kept
    ]
    errors += [
        {
            "component": component,
            "task": reason.task,
            "message": f"failed: {reason.example}"[:ERROR_CHARACTERS],
            "traceback": "",
            "count": reason.count,
            "first": round(reason.first, 3),
            "time": round(reason.time, 3),
        }
        for component, kinds in now.failures.items()
        for reason in kinds.values()
        if not is_error(component, reason, now.errors.get(component, ()))
    ]
    return sorted(errors, key=lambda error: -float(error["time"]))[:ERRORS_SHOWN]


def failures_json(now: Snapshot) -> list[Json]:
    """Why tuples failed, by component: the most frequent reasons first."""
    return [
        {"component": component, "count": reason.count, "example": reason.example}
        for component, kinds in now.failures.items()
        for reason in sorted(kinds.values(), key=lambda reason: -reason.count)[:REASONS_SHOWN]
    ]


def _end_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[-most:]}"
