"""What the command says of lag, of services that are away, and of spouts that rest. Pure."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fulmen.api.signals import Lag
from fulmen.cli.display.formats import Parts, age, count, item
from fulmen.engine.driver.stop import AssumedEnd
from fulmen.engine.totals.failures import resting_by_component, resting_sentence
from fulmen.engine.totals.full_spouts import full_sentence, full_spouts, unanswered
from fulmen.engine.totals.totals import Totals
from fulmen.engine.totals.waits import lag_of


@dataclass(frozen=True)
class WaitFigures:
    """What a topology waits for at one moment.

    Attributes:
        lag: How far its spouts are behind together; None: none of them says it.
        sentences: What is away, who holds the spouts, and whose messages nobody acks.
    """

    lag: Lag | None = None
    sentences: tuple[str, ...] = ()

    @staticmethod
    def of(totals: Totals) -> "WaitFigures":
        """The figures of waits in the totals. Any thread may ask."""
        with totals.lock:
            waits, plan = totals.waits.copy(), totals.placed.plan
            resting, full = dict(totals.resting), full_sentences(totals)
            times = totals.event_times().values()
        away = [
            away_sentence(a.component, a.service, a.since, a.reason) for a in waits.away.values()
        ]
        holds: dict[str, str] = {}
        for task, reason in sorted(waits.holds.items()):
            holds.setdefault(plan.component_of(task), reason)
        held = [hold_sentence(component, reason) for component, reason in holds.items()]
        rests = [
            resting_sentence(component, r.messages, r.failures, r.reason)
            for component, r in resting_by_component(resting, plan).items()
        ]
        out = [
            left_out_sentence(one.component, one.task, one.since, one.reason)
            for one in waits.left_out.values()
        ]
        calls = [long_call_sentence(c.who, c.callback, c.since) for c in waits.long_calls]
        stuck = [time.why for time in times if time.is_stuck and time.why is not None]
        sentences = (*calls, *out, *away, *held, *full, *rests, *stuck)
        return WaitFigures(lag_of(waits.lags, waits.lags), sentences)


def full_sentences(totals: Totals) -> list[str]:
    """Sentences: spouts may emit nothing more, and which bolts hold them; under `lock`."""
    found = full_spouts(
        totals.waits.full, totals.pending_messages, totals.placed.plan, totals.steady()
    )
    if not found:
        return []
    bolts = [bolt.name for bolt in totals.placed.topology.spec.bolts]
    held = list(unanswered(totals.counts, bolts))
    return [full_sentence(name, *spout, held) for name, spout in found.items()]


def away_sentence(component: str, service: str, since: float, reason: str) -> str:
    """A sentence: a service is away.

    Args:
        component: What needs it.
        service: What is away; "": not known.
        since: In seconds of time.time().
        reason: What it said.
    """
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    return f"{component!r} waits for {service or 'a service'} since {at}: {reason}"


def left_out_sentence(component: str, task: int, since: float, reason: str) -> str:
    """A sentence: batches do without a spout task, or without a call of a bolt.

    Args:
        component: The component.
        task: Its task.
        since: In seconds of time.time().
        reason: Which call, and what is wrong with it.
    """
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    return f"{component!r}, task {task}, is left out since {at}: {reason}"


def long_call_sentence(who: str, callback: str, since: float) -> str:
    """A sentence: a call has not ended for seconds.

    Args:
        who: Component and task.
        callback: What was called.
        since: In seconds of time.time().
    """
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    return f"{who}: {callback} runs since {at}"


def hold_sentence(component: str, reason: str) -> str:
    """A sentence: a bolt holds the spouts, and why."""
    return f"spouts rest, because {component!r} holds them: {reason}"


def assumed_end_sentence(end: AssumedEnd, asked: float) -> str:
    """A sentence: nothing came, and this was taken for the end.

    Args:
        end: Which spouts don't say their end.
        asked: How long to wait at least, in seconds, as somebody has said; 0: nobody has.
    """
    *others, last = map(repr, end.spouts)
    names = f"{', '.join(others)} and {last} don't" if others else f"{last} doesn't"
    longer = "" if asked else ". To wait longer: --wait-for-more SECONDS"
    return (
        f"{names} know the end of the input: that nothing came for {end.seconds:.1f} s was taken"
        f" for it{longer}"
    )


def still_open_sentence(totals: Totals) -> str | None:
    """What event time has not ended, after a run that others may follow; None: nothing."""
    with totals.lock:
        plan = totals.placed.plan
        timers: Counter[str] = Counter()
        for task, pending in totals.timers.by_task():
            if pending.event is not None:
                timers[plan.component_of(task)] += pending.number
        windows = {name: totals.metrics.of_component(name).get("open_windows") for name in timers}
    if not timers:
        return None
    kept = [
        f"{name!r} keeps {_number(windows[name] or n, 'window' if windows[name] else 'timer')}"
        for name, n in timers.items()
    ]
    return (
        "event time has not ended, as another run with this checkpoint may bring more:"
        f" {', '.join(kept)}. What they would emit by now was emitted as early results. If nothing"
        " more will come: --end-of-input"
    )


def _number(n: float, what: str) -> str:
    return f"{count(n)} {what}" if n == 1 else f"{count(n)} {what}s"


def lag_items(lag: Lag | None) -> Iterator[Parts]:
    """How far spouts are behind, for `line`."""
    if lag is not None and lag.messages is not None:
        yield item("lag", count(lag.messages))
    if lag is not None and lag.seconds is not None:
        yield item("lag age", age(lag.seconds))


def plain_waits(figures: WaitFigures) -> Iterator[str]:
    """The same for a line in a log."""
    lag = figures.lag
    if lag is not None and lag.messages is not None:
        yield f"lag {count(lag.messages)}"
    if lag is not None and lag.seconds is not None:
        yield f"lag age {age(lag.seconds)}"
    yield from figures.sentences
