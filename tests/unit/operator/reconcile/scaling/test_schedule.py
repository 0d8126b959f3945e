"""In which hours there are more workers, and when that changes."""

from datetime import UTC, datetime, timedelta

import pytest

from fulmen.topology.resource.spec.autoscale import Autoscale
from fulmen_operator.reconcile.scaling.schedule import least_workers, seconds_to_change


def scale(*hours, **more):
    return Autoscale.model_validate({"maxWorkers": 8, "schedule": hours, **more})


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


DAY = {"start": "07:30", "end": "18:00", "minWorkers": 3}
NIGHT = {"start": "22:00", "end": "06:00", "minWorkers": 2, "days": ["Fri"]}
ZURICH = {**DAY, "timezone": "Europe/Zurich"}


@pytest.mark.parametrize(
    ("hours", "now", "least"),
    [
        ([DAY], "2026-01-05T07:29:59", 1),
        ([DAY], "2026-01-05T07:30:00", 3),
        ([DAY], "2026-01-05T17:59:59", 3),
        ([DAY], "2026-01-05T18:00:00", 1),
        ([{**DAY, "days": ["Tue"]}], "2026-01-05T12:00:00", 1),
        ([NIGHT], "2026-01-09T23:00:00", 2),
        ([NIGHT], "2026-01-10T05:59:00", 2),  # a Saturday, of a night that begins on Friday
        ([NIGHT], "2026-01-09T05:00:00", 1),
        ([ZURICH], "2026-01-05T06:45:00", 3),  # 07:45 there
        ([ZURICH], "2026-07-06T05:45:00", 3),  # the same in summer
        ([ZURICH], "2026-07-06T16:00:00", 1),
        ([DAY, {**DAY, "minWorkers": 5}, NIGHT], "2026-01-05T12:00:00", 5),
    ],
)
def test_the_least_number_of_workers(hours, now, least):
    assert least_workers(scale(*hours), at(now)) == least


def test_no_hours_ask_for_more_than_the_maximum_or_less_than_the_minimum():
    noon = at("2026-01-05T12:00:00")
    assert least_workers(scale(DAY, maxWorkers=2), noon) == 2
    assert least_workers(scale(DAY, minWorkers=4), noon) == 4


@pytest.mark.parametrize(
    ("hours", "now", "then"),
    [
        ([DAY], "2026-01-05T07:00:00", "2026-01-05T07:30:00"),
        ([DAY], "2026-01-05T07:30:00", "2026-01-05T18:00:00"),
        ([NIGHT], "2026-01-05T07:00:00", "2026-01-09T22:00:00"),
        ([NIGHT], "2026-01-10T01:00:00", "2026-01-10T06:00:00"),
        ([NIGHT], "2026-01-10T06:00:00", "2026-01-16T22:00:00"),
    ],
)
def test_the_next_change(hours, now, then):
    assert seconds_to_change(scale(*hours), at(now)) == (at(then) - at(now)).total_seconds()


def test_without_hours_nothing_changes():
    assert seconds_to_change(scale(), at("2026-01-05T12:00:00")) is None


@pytest.mark.parametrize("first", ["2026-03-28T00:00:00", "2026-10-24T00:00:00"])
def test_whoever_looks_when_it_changes_misses_nothing_when_clocks_are_put_on(first):
    given = scale({**ZURICH, "start": "02:30", "end": "03:00"}, ZURICH)
    now, end, seen = at(first), at(first) + timedelta(days=3), []
    while now < end:
        seen.append((now, least_workers(given, now)))
        now += timedelta(seconds=seconds_to_change(given, now))
    looked = iter([*seen[1:], (end, 0)])
    for now, least in seen:
        until = next(looked)[0]
        minutes = int((until - now).total_seconds() // 60)
        held = {least_workers(given, now + timedelta(minutes=m)) for m in range(minutes)}
        assert held <= {least}
