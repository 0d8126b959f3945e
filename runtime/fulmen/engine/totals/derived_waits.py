"""Waits of a topology at one moment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fulmen.api.tuples import TICK_COMPONENT, TICK_STREAM
from fulmen.engine.protocol.figures.statistics import (
    ACKED,
    EXECUTED,
    FAILED,
    PENDING_MESSAGES,
    by_task,
)
from fulmen.engine.protocol.summary import Resting
from fulmen.engine.totals.counted import Counted
from fulmen.engine.totals.failures import resting_by_component
from fulmen.engine.totals.waits import Wait, WaitKind, lag_of
from fulmen.plan import Plan

FULL_SECONDS = 5.0
"""A spout is told of when none of its messages has ended for so long."""
_TICKS = f"{TICK_COMPONENT}:{TICK_STREAM}"


def waiting(totals: Counted, now: float) -> tuple[Wait, ...]:
    """All waits, the worst first; under the lock of totals.

    Args:
        totals: What is known.
        now: In seconds of the driver's steady clock.
    """
    waits, plan = totals.waits, totals.placed.plan
    return (
        *waits.long_calls,
        *waits.left_out.values(),
        *waits.away.values(),
        *_holds(waits.holds, plan),
        *full_spouts(totals, now),
        *resting_waits(totals.resting, plan),
        *_stuck(totals),
    )


def _holds(holds: Mapping[int, str], plan: Plan) -> Iterator[Wait]:
    """Yield who holds the spouts, and why: of each component the first task that does."""
    reasons: dict[str, str] = {}
    for task, reason in sorted(holds.items()):
        reasons.setdefault(plan.component_of(task), reason)
    for name, reason in reasons.items():
        text = f"spouts rest, because {name!r} holds them: {reason}"
        yield Wait(WaitKind.HOLD, name, text)


def full_spouts(totals: Counted, now: float) -> Iterator[Wait]:
    """Spouts that may emit nothing more, and the bolts that have not acked all they got."""
    plan, pending = totals.placed.plan, by_task(totals.levels, PENDING_MESSAGES)
    since = {t: at for t, at in totals.waits.full.items() if now - at >= FULL_SECONDS}
    for name in dict.fromkeys(plan.component_of(task) for task in sorted(since)):
        tasks = [task for task in plan.tasks(name) if task in since]
        messages = sum(pending.get(task, 0) for task in tasks)
        seconds = now - min(since[task] for task in tasks)
        held = "".join(f"; {bolt!r} has not acked all that it received" for bolt in _held(totals))
        text = (
            f"{name!r} emits nothing: {messages:,} messages are pending, as many as"
            f" maxSpoutPending allows, and none has ended for {seconds:,.0f} s{held}"
        )
        yield Wait(WaitKind.FULL, name, text)


def _held(totals: Counted) -> Sequence[str]:
    """The bolts that have neither acked nor failed all that they executed."""
    left = dict.fromkeys((bolt.name for bolt in totals.placed.topology.spec.bolts), 0)
    for (name, what, source), n in totals.counts.items():
        if name in left and source != _TICKS:
            left[name] += n if what == EXECUTED else -n if what in (ACKED, FAILED) else 0
    return [name for name, n in left.items() if n > 0]


def resting_waits(resting: Mapping[int, Resting], plan: Plan) -> Iterator[Wait]:
    """Yield a wait for each component whose failed messages come again."""
    for name, rest in resting_by_component(resting, plan).items():
        messages, failures = rest.messages, rest.failures
        what = f"{messages:,} messages" if messages != 1 else "1 message"
        times = f"{failures:,} times" if failures != 1 else "once"
        which = f"up to {times}" if messages != 1 else times
        text = (
            f"{what} of {name!r} failed ({which}) and will be tried again; the last reason:"
            f" {rest.reason}"
        )
        yield Wait(WaitKind.RESTING, name, text)


def _stuck(totals: Counted) -> Iterator[Wait]:
    """Timers of event time, or windows, that wait for what may never come."""
    for name, time in totals.event_times().items():
        if time.is_stuck and time.why is not None:
            yield Wait(WaitKind.TIME, name, time.why)


def waits_of_drain(
    totals: Counted, resting: Mapping[int, Resting], *, for_spouts: bool = True
) -> Iterator[str]:
    """Say what a topology that is to be drained still waits for.

    Args:
        totals: What it has done.
        resting: Task -> what has failed and comes again.
        for_spouts: Whether spouts may still emit something new.
    """
    plan, waits = totals.placed.plan, totals.waits
    if for_spouts:
        yield from _without_end(totals)
    for wait in (*_holds(waits.holds, plan), *resting_waits(resting, plan)):
        yield wait.sentence
    if n := totals.trees.pending:
        pending = "1 tree is" if n == 1 else f"{n:,} trees are"
        yield f"{pending} pending: bolts have not acked all tuples"
    if totals.transactions is not None and totals.transactions.head_failures:
        yield totals.transactions.head
    for name, reason in totals.failures.last():
        yield f"{name}: {reason.count:,} failed, such as: {reason.example}"
    for wait in (*waits.left_out.values(), *waits.away.values()):
        yield wait.sentence


def _without_end(totals: Counted) -> Iterator[str]:
    """Spouts that know their end, and have not come to it."""
    plan, waits = totals.placed.plan, totals.waits
    tasks = [task for task, is_over in waits.exhausted.items() if is_over is False]
    for name in sorted({plan.component_of(task) for task in tasks} & {*totals.placed.spouts}):
        lag = lag_of(waits.lags, plan.tasks(name))
        behind = "" if lag is None or not lag.messages else f", and is {lag.messages:,} behind"
        yield f"spout {name!r} has not said that it is at its end{behind}"
