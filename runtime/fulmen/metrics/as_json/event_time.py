"""The event time of components as JSON. `docs/metrics.md` describes it for other programs."""

from __future__ import annotations

from typing import Any

from fulmen.engine.totals.event_time import HeldBy
from fulmen.metrics.snapshot import Snapshot


def time_json(now: Snapshot, component: str) -> dict[str, Any] | None:
    """The event time of a component; None: it has none, and no timers."""
    found = now.component_times.get(component)
    if found is None:
        return None
    behind = now.behind(component)
    return {
        "watermark": _seconds(found.watermark),
        "behind_seconds": None if behind is None else round(behind, 1),
        "held_by": None if found.held_by is None else _held_by(found.held_by),
        "timers": found.timers,
        "due": _seconds(found.due),
        "late": now.late(component),
        "why": found.why,
        "is_stuck": found.is_stuck,
    }


def _held_by(held: HeldBy) -> dict[str, Any]:
    return {
        "component": held.component,
        "part": held.part,
        "newest": _seconds(held.newest),
        "silent_seconds": round(held.silent_seconds, 1),
    }


def _seconds(at: int | None) -> float | None:
    return None if at is None else at / 1000
