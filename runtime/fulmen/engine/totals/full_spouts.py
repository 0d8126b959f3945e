"""Spouts that emit nothing as `maxSpoutPending` is reached, and nobody acks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fulmen.api.tuples import TICK_COMPONENT, TICK_STREAM
from fulmen.engine.batches.done import Done
from fulmen.engine.protocol.figures.statistics import ACKED, EXECUTED, FAILED, CountKey
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.plan import Plan

TOLD_SECONDS = 5.0
"""A spout is told of when none of its messages has ended for so long."""
_TICKS = f"{TICK_COMPONENT}:{TICK_STREAM}"


class FullSpout(NamedTuple):
    """A spout that may emit nothing more.

    Attributes:
        messages: How many of it are pending.
        seconds: Since when it has as many as it may, and none of them has ended.
    """

    messages: int
    seconds: float


def full_after(
    before: Mapping[int, float],
    placed: PlacedTopology,
    pending: Mapping[int, int],
    done: Done,
    now: float,
) -> dict[int, float]:
    """Spout tasks that may emit nothing more, and since when none of their messages has ended.

    Args:
        before: The same before the batch.
        placed: The topology.
        pending: Of each spout task: its messages that have not ended.
        done: The batch.
        now: In seconds of the driver's steady clock.
    """
    limit = placed.topology.spec.max_spout_pending
    if limit is None or done.transactions is not None:
        return {}
    spouts = [task for name in placed.spouts for task in placed.plan.tasks(name)]
    full = [task for task in spouts if pending.get(task, 0) >= limit]
    if not full:
        return {}
    ended = {o for s in done.summaries for o in (*s.acked, *(failed[0] for failed in s.failed))}
    moved = {placed.task_of_origin.get(origin) for origin in ended}
    return {task: now if task in moved else before.get(task, now) for task in full}


def full_spouts(
    full: Mapping[int, float], pending: Mapping[int, int], plan: Plan, now: float
) -> dict[str, FullSpout]:
    """The spouts to be told of.

    Args:
        full: As `full_after` gives it.
        pending: Of each spout task: its messages that have not ended.
        plan: Of the topology.
        now: In seconds of the driver's steady clock.
    """
    found: dict[str, FullSpout] = {}
    for task, since in sorted(full.items()):
        if now - since >= TOLD_SECONDS:
            name = plan.component_of(task)
            before = found.get(name, FullSpout(0, 0.0))
            seconds = max(before.seconds, now - since)
            found[name] = FullSpout(before.messages + pending.get(task, 0), seconds)
    return found


def unanswered(counts: Mapping[CountKey, int], bolts: Iterable[str]) -> dict[str, int]:
    """The bolts that have neither acked nor failed all that they executed, and how much of it."""
    left = dict.fromkeys(bolts, 0)
    for (name, what, source), n in counts.items():
        if name in left and source != _TICKS:
            left[name] += n if what == EXECUTED else -n if what in (ACKED, FAILED) else 0
    return {name: n for name, n in left.items() if n > 0}


def full_sentence(component: str, messages: int, seconds: float, bolts: Sequence[str]) -> str:
    """A sentence: a spout may emit nothing more.

    Args:
        component: The spout.
        messages: How many of it are pending.
        seconds: How long none of them has ended.
        bolts: Those that have neither acked nor failed all tuples.
    """
    text = (
        f"{component!r} emits nothing: {messages:,} messages are pending, as many as"
        f" maxSpoutPending allows, and none has ended for {seconds:,.0f} s"
    )
    held = "".join(f"; {bolt!r} has not acked all that it received" for bolt in bolts)
    return text + held
