"""What is a time, in which unit and zone, and what is none."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.api.times.event_time import TimeReader, milliseconds
from fulmen.errors import EventTimeError

NOON = 1_714_564_800_000
"""2024-05-01T12:00:00Z."""


def at(*parts):
    """A datetime that says no zone."""
    return datetime(*parts)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("value", "options", "time"),
    [
        pytest.param(datetime(2024, 5, 1, 12, tzinfo=UTC), {}, NOON, id="datetime"),
        pytest.param(at(2024, 5, 1, 12), {}, NOON, id="datetime-without-zone"),
        pytest.param(
            at(2024, 5, 1, 14), {"timezone": "Europe/Berlin"}, NOON, id="datetime-in-summer"
        ),
        pytest.param(
            at(2024, 1, 1, 1), {"timezone": "Europe/Berlin"}, 1704067200000, id="in-winter"
        ),
        pytest.param(
            datetime(2024, 5, 1, 8, tzinfo=timezone(timedelta(hours=-4))),
            {"timezone": "Europe/Berlin"},
            NOON,
            id="its-own-zone-counts",
        ),
        pytest.param("2024-05-01T12:00:00Z", {}, NOON, id="text"),
        pytest.param("2024-05-01 14:00:00.5+02:00", {}, NOON + 500, id="text-with-offset"),
        pytest.param("2024-05-01", {}, NOON - 12 * 3_600_000, id="a-day"),
        pytest.param(1_714_564_800, {}, NOON, id="seconds-guessed"),
        pytest.param(1_714_564_800.123, {}, NOON + 123, id="fractions-of-seconds"),
        pytest.param(NOON, {}, NOON, id="milliseconds-guessed"),
        pytest.param(NOON * 1000 + 999, {}, NOON, id="microseconds-guessed"),
        pytest.param(NOON * 1_000_000, {}, NOON, id="nanoseconds-guessed"),
        pytest.param(5, {"unit": "s"}, 5000, id="small-with-unit"),
        pytest.param(-1, {"unit": "us"}, -1, id="before-1970-is-rounded-down"),
        pytest.param(0, {"unit": "ms"}, 0, id="zero"),
        pytest.param(np.int64(7), {"unit": "ms"}, 7, id="numpy-number"),
        pytest.param(np.datetime64("2024-05-01T12:00", "ms"), {}, NOON, id="numpy-time"),
        pytest.param(Decimal("1714564800.5"), {}, NOON + 500, id="decimal"),
    ],
)
def test_a_value_is_a_time(value, options, time):
    assert TimeReader(**options).read(value) == time


@pytest.mark.parametrize(
    ("value", "options", "says"),
    [
        pytest.param(None, {}, "it has no time", id="none"),
        pytest.param(True, {}, "its time is True, a bool", id="bool"),
        pytest.param(date(2024, 5, 1), {}, "a date, but must be a datetime", id="date"),
        pytest.param(float("nan"), {"unit": "s"}, "its time is nan, which is no time", id="nan"),
        pytest.param(float("inf"), {}, "its time is inf, which is no time", id="infinite"),
        pytest.param("yesterday", {}, "which is not ISO 8601", id="text"),
        pytest.param("1714564800", {}, "as in fields: {at: int64}", id="text-that-is-a-number"),
        pytest.param(5, {}, "Say which: unit: s, ms, us or ns", id="a-unit-is-not-safe-to-guess"),
        pytest.param(10**18, {"unit": "s"}, "beyond the year 9999", id="wrong-unit"),
        pytest.param(-62_135_596_800_001, {"unit": "ms"}, "before the year 1", id="no-year"),
        pytest.param(
            "0001-01-01T00:00:00+08:00", {}, "before the year 1", id="no-year-in-its-zone"
        ),
        pytest.param("9999-12-31T23:00:00-08:00", {}, "beyond the year 9999", id="zone-of-the-end"),
        pytest.param([1], {}, "its time is [1], a list", id="list"),
    ],
)
def test_a_value_is_no_time(value, options, says):
    with pytest.raises(EventTimeError) as caught:
        TimeReader(**options).read(value)
    assert says in str(caught.value)


@given(st.datetimes(at(1974, 1, 1), at(5000, 1, 1)), st.sampled_from(["s", "ms"]))
@example(at(3059, 1, 1).replace(microsecond=32000), "s")  # a float of it is 0.004 ms below
def test_all_ways_to_say_a_time_are_equal(when, unit):
    when = when.replace(microsecond=when.microsecond // 1000 * 1000, tzinfo=UTC)
    expected = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    number = expected / 1000 if unit == "s" else expected
    for value in (when, when.isoformat(), number):
        assert TimeReader().read(value) == expected
    assert TimeReader(unit).read(number) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10s", 10_000), ("1.5m", 90_000), ("2h", 7_200_000), ("7d", 604_800_000), ("250ms", 250)],
)
def test_durations(text, expected):
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["", "10", "-1s", "1 s", "1w", "s", "0.0.1s", "1e3s"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is no duration"):
        milliseconds(text)
