"""The time that decisions are made by is the API server's, whatever the operator's node says."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from fulmen_operator.cluster.server_clock import ServerClock

TRUE = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def answered(clock, at, seconds=0.0):
    """What an answer says that the server made at that time, on its way for so long."""
    sent = clock.now()
    at(seconds)
    clock.hear(format_datetime(at.true.replace(microsecond=0), usegmt=True), sent)
    return clock.now() - at.true


class Time:
    """The true time, which passes when it is called, and a local clock that is off."""

    def __init__(self, off):
        self.true, self.off = TRUE, timedelta(seconds=off)

    def __call__(self, seconds):
        self.true += timedelta(seconds=seconds)

    def local(self):
        return self.true + self.off


@pytest.mark.parametrize("off", [-420, 0, 1, 300])
def test_a_local_clock_that_is_minutes_off_does_not_matter(off):
    time = Time(off)
    clock = ServerClock(time.local)
    for seconds in (0, 1, 600):
        assert abs(answered(clock, time, seconds)) <= timedelta(seconds=2)


def test_a_local_clock_that_is_set_anew_is_noticed_by_the_next_answer():
    time = Time(0)
    clock = ServerClock(time.local)
    answered(clock, time)
    time.off = timedelta(hours=1)
    assert abs(answered(clock, time)) <= timedelta(seconds=2)


def test_an_answer_that_was_on_its_way_for_a_minute_says_nothing_of_now():
    time = Time(300)
    clock = ServerClock(time.local)
    answered(clock, time)
    sent, made = clock.now(), format_datetime(time.true, usegmt=True)
    time(60)
    clock.hear(made, sent)
    assert abs(clock.now() - time.true) <= timedelta(seconds=2)


@pytest.mark.parametrize("said", [None, "", "noon", "Thu, 01 Jan 2026 12:00:00"])
def test_an_answer_without_a_time_that_can_be_read_changes_nothing(said):
    clock = ServerClock(lambda: TRUE)
    clock.hear(said, TRUE)
    assert clock.now() == TRUE
