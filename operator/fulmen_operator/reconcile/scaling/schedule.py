"""The hours in which a topology has a larger least number of workers. Pure."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from fulmen.topology.resource.spec.autoscale import Autoscale, ScheduledWorkers

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def least_workers(scale: Autoscale, now: datetime) -> int:
    """The least number of workers at that time."""
    held = (hours.min_workers for hours in scale.schedule if _holds(hours, now))
    return min(scale.max_workers, max([scale.min_workers, *held]))


def seconds_to_change(scale: Autoscale, now: datetime) -> float | None:
    """Seconds until that may be another number; None: it never is."""
    edges = (edge for hours in scale.schedule for of in _near(hours, now) for edge in of)
    return min(((edge - now).total_seconds() for edge in edges if edge > now), default=None)


def _holds(hours: ScheduledWorkers, now: datetime) -> bool:
    return any(start <= now < end for start, end in _near(hours, now))


def _near(hours: ScheduledWorkers, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The beginnings and ends of the hours, yesterday and in the coming week."""
    zone = ZoneInfo(hours.timezone)
    start, end = time.fromisoformat(hours.start), time.fromisoformat(hours.end)
    for days in range(-1, 8):
        day = now.astimezone(zone).date() + timedelta(days=days)
        if not hours.days or DAYS[day.weekday()] in hours.days:
            last = day if end > start else day + timedelta(days=1)
            yield (
                datetime.combine(day, start, zone),
                datetime.combine(last, end, zone),
            )
