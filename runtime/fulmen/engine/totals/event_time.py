"""How far event time has come for each component, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fulmen.api.times.event_time import milliseconds
from fulmen.engine.protocol.figures.statistics import AHEAD, UNTIMED, UNUSABLE, CountKey
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import PendingTimers
from fulmen.engine.time.watermarks import SourceTime, Watermarks

SILENT_SECONDS = 10.0
"""A part that has had no tuple for so long is called silent."""
STUCK_SECONDS = 60.0
"""When nothing has come for so long, people are told without asking."""


class HeldBy(NamedTuple):
    """The source or part that holds a watermark back.

    Attributes:
        component: What declares the event time.
        part: Which part of it; None: all parts are idle, or it is not known yet.
        newest: The newest time of that part, in milliseconds; None: it has had none.
        silent_seconds: How long it has had no tuple with a time.
        is_unread: Whether its spout says that there is more to be read of it.
        others: How many other parts there are.
        lag: What its component declares, in milliseconds.
        idle_timeout: As the component declares it; None: a part is never idle.
        untimed: How many of its component's tuples had no usable time.
        advances: Whether event time goes on with the clock while all parts are idle.
        is_clock: Whether the component is a bolt that goes by the clock, and declares none.
    """

    component: str
    part: str | None = None
    newest: int | None = None
    silent_seconds: float = 0.0
    is_unread: bool = False
    others: int = 0
    lag: int = 0
    idle_timeout: str | None = None
    untimed: int = 0
    advances: bool = False
    is_clock: bool = False


@dataclass(frozen=True)
class ComponentTime:
    """The event time of one component.

    Attributes:
        component: Which.
        watermark: Of what it emits if it declares event times, else of what it receives, in
            milliseconds; None: it is not known.
        held_by: What the watermark waits for; None: nothing that it descends from declares event
            times, or all of that has ended.
        has_ended: Whether all that it descends from, of what declares event times, has ended.
        timers: How many it has set, by event time and by the clock.
        due: When the next one of event time is due, in milliseconds; None: there is none.
    """

    component: str
    watermark: int | None = None
    held_by: HeldBy | None = None
    has_ended: bool = False
    timers: int = 0
    due: int | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether a timer waits for what may never come."""
        if self.due is None or self.has_ended or self._is_due:
            return False
        held = self.held_by
        if held is None:
            return True
        return not held.is_unread and held.silent_seconds >= STUCK_SECONDS

    @property
    def _is_due(self) -> bool:
        return self.due is not None and self.watermark is not None and self.due <= self.watermark

    @property
    def why(self) -> str | None:
        """Why the next timer, or window, has not fired, in a sentence; None: there is none."""
        if self.due is None:
            return None
        return f"{self.component!r} has something due at {said(self.due)}: {self._reason}"

    @property
    def _reason(self) -> str:
        if self._is_due:
            return "it fires in the next batch"
        if self.has_ended:
            return "its sources are exhausted, and it fires when the topology is drained"
        if self.held_by is None:
            return (
                "there is no watermark, as nothing that it descends from declares eventTime;"
                " declare it of the source"
            )
        return _waits_for(self.held_by, self.watermark, self.due or 0)


def _waits_for(held: HeldBy, watermark: int | None, due: int) -> str:
    mark = "the watermark is not known yet"
    if watermark is not None:
        mark = f"the watermark is {said(watermark)}"
    if held.is_clock:
        return f"{mark}, and goes on with the clock"
    source, needed = repr(held.component), f"a time of {said(due + held.lag)} or later"
    if held.part is None:
        if watermark is None:
            return f"{mark}, as no tuple of {source} has had a time yet{_untimed(held)}"
        if held.advances:
            return f"{mark}, and goes on with the clock, as all parts of {source} are idle"
        return f"{mark}, and all parts of {source} are idle; it needs a tuple of it with {needed}"
    if held.is_unread:
        return f"{mark}, as {held.part} of {source} is not read to its end yet"
    if held.newest is None:
        who = f"{held.part} of {source}" if held.others else source
        return f"{mark}, as no tuple of {who} has had a time yet{_untimed(held)}{_cure(held)}"
    who = f"{held.part} of {source}" if held.others else source
    if held.silent_seconds < SILENT_SECONDS:
        return f"{mark}, and it needs a tuple of {who} with {needed}"
    silent = f"{who}, which has had no tuple for {_duration(held.silent_seconds)}"
    if held.others:
        return f"{mark}, held by {silent}{_cure(held)}"
    return f"{mark}, held by {silent}; it needs one with {needed}"


def _untimed(held: HeldBy) -> str:
    if not held.untimed:
        return ""
    tuples = "1 tuple" if held.untimed == 1 else f"{held.untimed:,} tuples"
    return f" ({tuples} had no usable one: see its stream '__late')"


def _cure(held: HeldBy) -> str:
    if not held.others:
        return ""
    if held.idle_timeout is not None:
        return f"; it is left out after its idleTimeout, {held.idle_timeout}"
    return "; set eventTime.idleTimeout, so that what is silent holds up nothing"


def said(at: int) -> str:
    """A time for people: milliseconds since 1970."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    except OverflowError:  # no calendar has it
        return f"{at:,} ms after 1970"
    text = f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{at % 1000:03} UTC" if at % 1000 else f"{text} UTC"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def times_of(
    placed: PlacedTopology,
    watermarks: Watermarks,
    timers: Mapping[int, PendingTimers],
    counts: Mapping[CountKey, int],
    clock: float,
) -> dict[str, ComponentTime]:
    """The event times of components that have one, or timers, in the order of their declaration.

    Args:
        placed: The topology.
        watermarks: After the last batch.
        timers: Of tasks.
        counts: Of statistics.
        clock: The batch clock of the last batch.
    """
    held = {name: _held_by(placed, watermarks, counts, name, clock) for name in placed.event_times}
    clocks = {name: HeldBy(name, is_clock=True) for name in placed.by_clock if name not in held}
    declaring, times = _declaring(placed), {}
    for component in placed.topology.spec.components:
        name = component.name
        own = [timers[task] for task in placed.plan.tasks(name) if task in timers]
        due = min((one.event for one in own if one.event is not None), default=None)
        number = sum(one.number for one in own)
        if name in held:
            at = watermarks.sources.get(name, SourceTime()).watermark
            has_ended = name in watermarks.ended
            by = None if has_ended else held[name]
            times[name] = ComponentTime(name, at, by, has_ended, number)
            continue
        froms = declaring.get(name, frozenset())
        if not froms and not number:
            continue
        live = sorted(froms - watermarks.ended, key=lambda n: (_order(watermarks, n), n))
        by = (held | clocks)[live[0]] if live else None
        has_ended = bool(froms) and not live
        at = watermarks.passed.get(name)
        times[name] = ComponentTime(name, at, by, has_ended, number, due)
    return times


def _order(watermarks: Watermarks, source: str) -> tuple[bool, int]:
    """Sort unknown watermarks first, then the one furthest behind."""
    of_source = watermarks.sources.get(source)
    at = watermarks.passed.get(source) if of_source is None else of_source.watermark
    return at is not None, at or 0


def _declaring(placed: PlacedTopology) -> Mapping[str, frozenset[str]]:
    """Bolt -> the components that its watermark is of: they declare event times, or are clocks."""
    declaring: dict[str, frozenset[str]] = {}
    for bolt, froms in placed.inputs.items():
        if bolt in placed.by_clock:
            declaring[bolt] = frozenset((bolt,))
            continue
        own = frozenset(name for name in froms if name in placed.event_times)
        others = [declaring[n] for n in froms if n in declaring and n not in own]
        declaring[bolt] = own.union(*others)
    return declaring


def _held_by(
    placed: PlacedTopology,
    watermarks: Watermarks,
    counts: Mapping[CountKey, int],
    component: str,
    clock: float,
) -> HeldBy:
    declared = placed.event_times[component]
    source = watermarks.sources.get(component, SourceTime())
    name = source.held_by
    part = None if name is None else source.parts[name]
    return HeldBy(
        component,
        name,
        None if part is None else part.newest,
        0.0 if part is None else max(0.0, clock - part.since),
        is_unread=part is not None and bool(part.reader),
        others=max(0, len(source.parts) - 1),
        lag=milliseconds(declared.lag),
        idle_timeout=declared.idle_timeout,
        advances=declared.advance,
        untimed=sum(counts.get((component, UNTIMED, reason), 0) for reason in (UNUSABLE, AHEAD)),
    )
