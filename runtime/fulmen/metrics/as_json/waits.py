"""What a topology waits for, and what waits for it, as JSON: a part of `topology`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fulmen.engine.protocol.summary import Resting
from fulmen.engine.totals.full_spouts import full_spouts, unanswered
from fulmen.engine.totals.waits import Away
from fulmen.metrics.as_json.errors import ERROR_CHARACTERS
from fulmen.metrics.snapshot import Snapshot

Json = dict[str, Any]


def waits_json(now: Snapshot, resting: Mapping[str, Resting]) -> Json:
    """What is shown of services that are away, of spouts that are held, full or rest, and of calls.

    Args:
        now: The moment.
        resting: What has failed and comes again after a pause, by component.
    """
    return {
        "away": [_away(away, now) for away in now.waits.away.values()],
        "holds": _holds(now),
        "full": _full(now),
        "long_calls": [asdict(one) for one in now.waits.long_calls],
        "left_out": [asdict(one) for one in now.waits.left_out.values()],
        "resting": _resting(resting),
        "kept_state": dict(now.placed.kept),
    }


def _away(away: Away, now: Snapshot) -> Json:
    return {
        "service": away.service,
        "component": away.component,
        "task": away.task,
        "reason": away.reason[:ERROR_CHARACTERS],
        "since": round(away.since, 3),
        "seconds": round(now.away_seconds(away), 1),
    }


def _resting(resting: Mapping[str, Resting]) -> list[Json]:
    """Messages and results that have failed and come again after a pause."""
    return [
        {
            "component": name,
            "messages": r.messages,
            "failures": r.failures,
            "reason": r.reason[:ERROR_CHARACTERS],
        }
        for name, r in resting.items()
    ]


def _full(now: Snapshot) -> list[Json]:
    """Spouts that may emit nothing more, and bolts that have not acked all they got."""
    placed = now.placed
    found = full_spouts(now.waits.full, now.pending_messages, placed.plan, now.moment)
    bolts = [bolt.name for bolt in placed.topology.spec.bolts] if found else []
    held = list(unanswered(now.counts, bolts))
    return [
        {
            "component": name,
            "messages": spout.messages,
            "seconds": round(spout.seconds, 1),
            "bolts": held,
        }
        for name, spout in found.items()
    ]


def _holds(now: Snapshot) -> list[Json]:
    """Who holds the spouts, and why: of each component the first task that does."""
    return [
        {"component": name, "tasks": len(tasks), "reason": now.waits.holds[tasks[0]]}
        for name, tasks in now.holding.items()
    ]
