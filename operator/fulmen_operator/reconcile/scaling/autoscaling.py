"""The number of workers by the load. Pure.

Its memory is in the status, so that another operator goes on where this one stopped. Three rules
keep the number from going up and down again: fewer workers are taken only if batches would take
clearly less time than the target; more workers that are no faster are given back; and both kinds of
mistakes are remembered for a while.
"""

from collections.abc import Iterator
from datetime import datetime
from math import ceil
from typing import Final

from fulmen.kube.load import Load
from fulmen.topology.resource.spec import TopologySpec
from fulmen.topology.resource.spec.autoscale import LIMITED, Autoscale, ScalingReason
from fulmen.topology.resource.status import (
    AutoscaleStatus,
    Pressure,
    RememberedWorkers,
    TriedWorkers,
)
from fulmen_operator.model import Event, seconds_since, text_of
from fulmen_operator.reconcile.scaling.limits import GAIN, MOST_LEAP, limited
from fulmen_operator.reconcile.scaling.noted import (
    LONGEST_SECONDS,
    changed,
    forgotten,
    lasted,
    reasoned,
    remembered,
    stays,
)
from fulmen_operator.reconcile.scaling.scene import Scene
from fulmen_operator.reconcile.scaling.schedule import least_workers, seconds_to_change

ROOM: Final = 0.8
"""Fewer workers are enough if batches take at most that share of the target."""
LEAP: Final = 1.5
"""The least factor by which workers grow while messages wait too long: the backlog must be worked
off, too."""
CATCH_UP: Final = 2
"""A backlog needs no more workers if, at the pace so far, messages will be in time again within so
many times `upAfter`: after a start or an outage, for example."""
FULL_CATCH_UP: Final = 10
"""As `CATCH_UP`, while workers have too little processor: more workers take it from the others."""
ALMOST: Final = 1.02
"""Of numbers of workers with nearly equal speed, the smallest is taken."""
LARGEST: Final = 1000
"""The most workers that are possible."""
HELP: Final = 0.3
"""More workers have helped if they saved that share of the time that they were to save."""
EASED: Final = 2 / 3
"""If batches take at most this share of the time for each tuple that they took when more workers
did not help, the case is new: batches hold more, or a service that they waited for is faster."""
FORGET_SECONDS: Final = 1800
"""Seconds for which it is remembered that more workers did not help, the first time."""
FULL_SECONDS: Final = 300
"""Seconds for which it is remembered that more workers did not help, the first time, if workers
were starved: neighbours may have started just then."""
REMEMBERED_DOWNS: Final = 6
"""The multiple of `downAfter` for which it is remembered that fewer workers were too few, the first
time; it doubles each time, up to `LONGEST_SECONDS`."""


def autoscaled(
    spec: TopologySpec,
    before: AutoscaleStatus | None,
    load: Load | None,
    present: int,
    now: datetime,
) -> AutoscaleStatus | None:
    """Choose the number of workers, with the reason; None: as many as the spec says.

    Args:
        spec: The topology's, with the numbers of workers and executors that its author wrote.
        before: The last written choice; None: there is none.
        load: The driver's load; None: not known.
        present: The number of workers that are there.
        now: The time.
    """
    scale = spec.autoscale
    if scale is None:
        return None
    least, most = least_workers(scale, now), scale.max_workers
    if before is None or before.begun_with != spec.workers:
        return AutoscaleStatus(
            workers=min(max(spec.workers, least), most),
            since=text_of(now),
            last_change=f"spec.workers is {spec.workers}",
            reason=ScalingReason.CHANGED,
            begun_with=spec.workers,
        )
    before = forgotten(before, now)
    number = min(max(before.workers, least), most)
    if number != before.workers:
        limits = f"from {least} to {most} workers are allowed now"
        return changed(before, number, limits, now)
    if load is None or load.workers != number:
        return stays(before, ScalingReason.MEASURING, "the load is not known yet")
    if present < number:
        message = f"not all of {number} workers are there"
        return stays(before, ScalingReason.WORKERS_MISSING, message)
    return _by_load(Scene(spec, scale, load, now), before, least)


def _by_load(scene: Scene, before: AutoscaleStatus, least: int) -> AutoscaleStatus:
    target = scene.scale.target_capacity
    before = _eased(scene, before)
    if scene.forecast.now > target or scene.is_late:
        return _too_few(scene, _pressed(before, "Up", 0, scene))
    if before.tried.before:
        before = _helped(before)
    floor = max(least, before.least.workers)
    number = scene.forecast.needed(range(floor, before.workers), ROOM * target)
    if number is None:
        return stays(before, ScalingReason.ENOUGH, "batches take less time than targetCapacity")
    return _too_many(scene, _pressed(before, "Down", number, scene))


def seconds_to_decision(after: AutoscaleStatus, scale: Autoscale, now: datetime) -> float | None:
    """Seconds after which to decide again although the driver has said nothing new, if so."""
    changes = seconds_to_change(scale, now)
    waits = [] if changes is None else [changes]
    if after.pressure != "None":
        limit = scale.up_seconds if after.pressure == "Up" else scale.down_seconds
        waits.append(limit - lasted(after, now))
    return min((wait + 1 for wait in waits if wait > 0), default=None)


def scaling_events(
    before: AutoscaleStatus | None, after: AutoscaleStatus | None
) -> Iterator[Event]:
    """Events: the number of workers has changed, or why it has not although it should."""
    if before is None or after is None:
        return
    if after.reason in LIMITED and after.reason != before.reason:
        yield Event("Warning", "NotScaled", after.message)
    elif after.workers != before.workers:
        yield Event("Normal", "Scaled", after.last_change)


# ---- more


def _too_few(scene: Scene, before: AutoscaleStatus) -> AutoscaleStatus:
    after = scene.scale.up_after
    if lasted(before, scene.now) < scene.scale.up_seconds:
        message = f"{scene.why}: if that lasts for {after}, more workers are thought of"
        return reasoned(before, ScalingReason.TOO_FEW, message)
    if before.tried.before:
        if not _has_helped(scene, before):
            return _given_back(scene, before)
        before = _helped(before)
    if _catches_up(scene, before):
        message = f"{scene.why}, but what had gathered is worked off without more"
        return reasoned(before, ScalingReason.TOO_FEW, message)
    limits = limited(scene, before)
    if limits is not None:
        return reasoned(before, *limits)
    number = _wanted(scene, before)
    chosen = changed(before, number, f"{scene.why} for {after}", scene.now, "Up")
    foreseen = round(scene.cost * scene.forecast.at(number) / scene.forecast.now)
    tried = TriedWorkers(before=before.workers, nanos=scene.cost, foreseen=foreseen)
    update = {
        "tried": tried if scene.cost else TriedWorkers(),
        "least": _too_few_before(scene, before, number),
    }
    return chosen.model_copy(update=update)


def _catches_up(scene: Scene, before: AutoscaleStatus) -> bool:
    """Whether messages are late, but will soon be in time."""
    lag = scene.load.lag
    if lag is None or not scene.is_late:
        return False
    pace = (before.pressure_lag - lag) / max(lasted(before, scene.now), 1.0)
    times = FULL_CATCH_UP if scene.is_starved else CATCH_UP
    return lag - scene.scale.max_lag_seconds <= pace * times * scene.scale.up_seconds


def _too_few_before(scene: Scene, before: AutoscaleStatus, number: int) -> RememberedWorkers:
    """The limit to remember: that of before, or a new one if workers were given up recently."""
    seconds = scene.scale.down_seconds
    if before.direction != "Down" or seconds_since(before.since, scene.now) > 2 * seconds:
        return before.least if before.least.workers else RememberedWorkers()
    times = before.least.times + 1
    seconds = min(LONGEST_SECONDS, REMEMBERED_DOWNS * seconds * 2 ** min(times - 1, 20))
    return remembered(number, seconds, times, scene.now)


def _wanted(scene: Scene, before: AutoscaleStatus) -> int:
    """The larger number of workers to try."""
    forecast, number = scene.forecast, before.workers
    most = min(before.most.workers or LARGEST, scene.scale.max_workers, MOST_LEAP * number)
    step = max(1, round(number / 5))  # what less would help could not be told from chance
    if scene.waits:
        return min(most, number + step)
    target = scene.scale.target_capacity * (ROOM if scene.is_late else 1)
    numbers = range(min(most, number + step), most + 1)
    best = min(forecast.at(n) for n in numbers)
    worthwhile = min(max(target, best * ALMOST), GAIN * forecast.now)
    enough = forecast.needed(numbers, worthwhile) or most
    leap = ceil(LEAP * number) if scene.is_late else 0
    return min(most, max(enough, leap))


def _has_helped(scene: Scene, before: AutoscaleStatus) -> bool:
    """Whether a tuple takes less time than before workers were added."""
    tried = before.tried
    return scene.cost <= tried.nanos - HELP * (tried.nanos - tried.foreseen)


def _helped(before: AutoscaleStatus) -> AutoscaleStatus:
    """More workers were faster, so that more may be tried at once.

    How often they were not is known until the load falls while there is no limit. Else, where a
    worker helps hardly enough, chance would find now that it does and now that it does not, each
    time as if for the first time.
    """
    update = {"tried": TriedWorkers(), "most": RememberedWorkers(times=before.most.times)}
    return before.model_copy(update=update)


def _eased(scene: Scene, before: AutoscaleStatus) -> AutoscaleStatus:
    """Forget that more workers were no faster, if the case is new."""
    most = before.most
    if before.workers != most.workers or not 0 < scene.cost <= EASED * most.nanos:
        return before
    return before.model_copy(update={"most": RememberedWorkers(times=most.times)})


def _given_back(scene: Scene, before: AutoscaleStatus) -> AutoscaleStatus:
    """More workers were no faster: there are as many as before, and that is remembered."""
    number, times = before.tried.before, before.most.times + 1
    first = FULL_SECONDS if scene.is_starved else FORGET_SECONDS
    seconds = min(LONGEST_SECONDS, first * 2 ** min(times - 1, 20))
    why = f"{before.workers} workers were no faster than {number}"
    chosen = changed(before, number, why, scene.now)
    most = remembered(number, seconds, times, scene.now)
    most = most.model_copy(update={"nanos": before.tried.nanos})
    return chosen.model_copy(update={"most": most})


# ---- fewer


def _too_many(scene: Scene, before: AutoscaleStatus) -> AutoscaleStatus:
    number, after = before.enough, scene.scale.down_after
    if lasted(before, scene.now) >= scene.scale.down_seconds:
        why = f"{number} are enough for what there was to do for {after}"
        chosen = changed(before, number, why, scene.now, "Down")
        most = before.most if before.most.workers else RememberedWorkers()
        return chosen.model_copy(update={"most": most})
    message = f"{number} are enough: if that lasts for {after}, there will be as many"
    return reasoned(before, ScalingReason.TOO_MANY, message)


def _pressed(
    before: AutoscaleStatus, pressure: Pressure, enough: int, scene: Scene
) -> AutoscaleStatus:
    """Note that more or fewer workers are needed. `enough`: the most that was needed meanwhile.

    Batches that worked off a backlog took all the time that there was: what they need from then on
    is not known.
    """
    now = scene.now
    has_caught_up = before.pressure_lag > scene.scale.max_lag_seconds and not scene.is_late
    goes_on = before.pressure == pressure and not has_caught_up
    if goes_on and lasted(before, now) >= 0:  # else the clock was set back
        return before.model_copy(update={"enough": max(before.enough, enough)})
    update = {
        "pressure": pressure,
        "pressure_since": text_of(now),
        "pressure_lag": int(scene.load.lag or 0) if pressure == "Up" else 0,
        "enough": enough,
    }
    return before.model_copy(update=update)
