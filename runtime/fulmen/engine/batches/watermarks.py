"""Event time after a batch, from its summaries. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from fulmen.api.times.event_time import milliseconds
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.time.event_times import WHOLE_TASK
from fulmen.engine.time.watermarks import PART, TASK, SourceTime, WatermarkRule, Watermarks
from fulmen.topology.resource.spec.event_time import EventTime


class BoltTimes(NamedTuple):
    """What a batch tells of the event times of bolts.

    Attributes:
        by_clock: The watermarks that it had of bolts that go by the clock.
        due: Bolt that may have too many results for one batch -> when the next ones are due.
    """

    by_clock: Mapping[str, int] = MappingProxyType({})
    due: Mapping[str, int] = MappingProxyType({})


NO_BOLT_TIMES = BoltTimes()


def watermarks_of(
    watermarks: Watermarks, placed: PlacedTopology, wall: float = 0.0
) -> Mapping[str, tuple[int, int | None]]:
    """The watermarks of a header: of each bolt, the watermark and the one before.

    Args:
        watermarks: After the last batch.
        placed: The topology.
        wall: The time of day, in seconds, when the batch begins. If it is behind that of a batch
            before, as of a machine whose clock is, that one counts.
    """
    passed, closed = watermarks.passed, watermarks.closed
    found: dict[str, tuple[int, int | None]] = {}
    if placed.event_times or placed.by_clock:
        found = {name: (at, closed.get(name)) for name, at in passed.items()}
    for name in placed.by_clock:
        before = passed.get(name)
        now = int(wall * 1000)
        if before is not None and (now < before or name in watermarks.told):
            now = before  # it stands until all that was due by then has come
        found[name] = now, before
    return found


def watermarks_after(
    watermarks: Watermarks,
    placed: PlacedTopology,
    summaries: Sequence[Summary],
    exhausted: Mapping[int, bool | None],
    clock: float,
    bolts: BoltTimes = NO_BOLT_TIMES,
    *,
    more_may_come: bool = False,
) -> Watermarks:
    """How far event time has come after a batch.

    Args:
        watermarks: Before it.
        placed: The topology.
        summaries: Of all parts of the batch.
        exhausted: Spout task -> whether it has said, in batches before, that nothing will come.
        clock: The batch clock.
        bolts: What is known of bolts.
        more_may_come: Whether more of a source that has ended may come in another run: then it
            holds event time, for what is behind the others would be late in that.
    """
    if not (placed.event_times or bolts.by_clock):
        return watermarks
    newest: dict[str, dict[str, int]] = {name: {} for name in placed.event_times}
    unread: dict[str, dict[str, list[str] | None]] = {name: {} for name in placed.event_times}
    to_read: dict[str, dict[str, list[str]]] = {name: {} for name in placed.event_times}
    for summary in summaries:
        exhausted = {**exhausted, **summary.exhausted}
        for (task, part), at in summary.event_times.items():
            of = newest[placed.plan.component_of(task)]
            name = _named(part) if part != WHOLE_TASK else task_part(placed, task)
            of[name] = max(at, of.get(name, at))
        for task, names in summary.unread.items():
            if (component := placed.plan.component_of(task)) in unread:
                said = None if names is None else [*map(_named, names)]
                unread[component][task_part(placed, task)] = said
        for task, parts in summary.to_read.items():
            if (component := placed.plan.component_of(task)) in to_read:
                to_read[component][task_part(placed, task)] = [*map(_named, parts)]
    sources = dict(watermarks.sources)
    over = []
    for component, declared in placed.event_times.items():
        before = sources.get(component, SourceTime())
        tasks = placed.plan.tasks(component) if component in placed.spouts else range(0)
        over_now = () if more_may_come else tasks
        ended = {task_part(placed, task) for task in over_now if exhausted.get(task)}
        waited = {task_part(placed, task) for task in tasks} - ended
        if tasks and not waited:
            over.append(component)
        sources[component] = before.after(
            rule_of(declared),
            newest[component],
            waited,
            ended,
            clock,
            unread[component],
            to_read[component],
        )
    kept = {name: sources[name] for name in placed.event_times}
    return replace(watermarks, sources=kept).with_passed(placed.inputs, over, *bolts)


def _named(part: str) -> str:
    return f"{PART}{part}"


def task_part(placed: PlacedTopology, task: int) -> str:
    """The name of the part that stands for a whole task."""
    component = placed.plan.component_of(task)
    return f"{TASK}{task - placed.plan.tasks(component).start}"


def rule_of(declared: EventTime) -> WatermarkRule:
    """How its watermark is made."""
    idle = declared.idle_timeout
    idle_seconds = None if idle is None else milliseconds(idle) / 1000
    return WatermarkRule(milliseconds(declared.lag), idle_seconds, declared.advance)
