"""Notes about a number of workers, so that another operator goes on from it. Pure."""

from datetime import datetime, timedelta
from typing import Final

from fulmen.topology.resource.spec.autoscale import ScalingReason
from fulmen.topology.resource.status import (
    AutoscaleStatus,
    Pressure,
    RememberedWorkers,
    TriedWorkers,
)
from fulmen_operator.model import seconds_since, text_of

LONGEST_SECONDS: Final = 6 * 3600
"""The most seconds for which a number of workers is remembered as a limit."""


def forgotten(before: AutoscaleStatus, now: datetime) -> AutoscaleStatus:
    """Forget limits whose time is over; how often they were found stays."""
    update = {}
    for name in ("most", "least"):
        kept: RememberedWorkers = getattr(before, name)
        left = -seconds_since(kept.until, now) if kept.workers else 0.0
        if kept.workers and not 0 < left <= LONGEST_SECONDS + 1:  # or the clock was set back
            update[name] = RememberedWorkers(times=kept.times)
    return before.model_copy(update=update) if update else before


def remembered(workers: int, seconds: float, times: int, now: datetime) -> RememberedWorkers:
    """A limit that holds for so many seconds."""
    until = text_of(now + timedelta(seconds=seconds))
    return RememberedWorkers(workers=workers, until=until, times=times)


def lasted(before: AutoscaleStatus, now: datetime) -> float:
    """Seconds for which there should have been more or fewer."""
    return seconds_since(before.pressure_since, now)


def reasoned(before: AutoscaleStatus, reason: ScalingReason, message: str) -> AutoscaleStatus:
    """Keep the number, with a new reason and message."""
    return before.model_copy(update={"reason": reason, "message": message})


def stays(before: AutoscaleStatus, reason: ScalingReason, message: str) -> AutoscaleStatus:
    """A number that is to stay, whatever was thought before."""
    update = {"pressure": "None", "pressure_since": "", "pressure_lag": 0, "enough": 0}
    return reasoned(before.model_copy(update=update), reason, message)


def changed(
    before: AutoscaleStatus, number: int, why: str, now: datetime, direction: Pressure = "None"
) -> AutoscaleStatus:
    """Another number of workers. `direction`: if it follows the load, the way it goes."""
    update = {
        "workers": number,
        "since": text_of(now),
        "last_change": f"{before.workers} to {number} workers: {why}",
        "direction": direction,
        "tried": TriedWorkers(),
    }
    return stays(
        before.model_copy(update=update), ScalingReason.CHANGED, "the number of workers changes"
    )
