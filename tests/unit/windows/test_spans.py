"""Which windows a time is in: edges, overlaps, times before 1970, days of 23 and 25 hours."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.windows.spans import Calendar, Cumulative, Sliding, datetime_of
from support.windows.sql_events import by_sql

HOUR = 3_600_000


def at(text):
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("size", "every", "offset", "time", "spans"),
    [
        (10, 10, 0, 0, [(0, 10)]),
        (10, 10, 0, 9, [(0, 10)]),
        (10, 10, 0, 10, [(10, 20)]),
        (10, 10, 0, -1, [(-10, 0)]),
        (10, 10, 3, 2, [(-7, 3)]),
        (10, 5, 0, 12, [(5, 15), (10, 20)]),
        (10, 4, 0, 9, [(0, 10), (4, 14), (8, 18)]),  # an every that does not divide the size
        (10, 4, 0, 11, [(4, 14), (8, 18)]),
    ],
)
def test_sliding_and_tumbling_windows(size, every, offset, time, spans):
    assert Sliding(size, every, offset).of(time) == spans


@given(
    every=st.integers(1, 20),
    count=st.integers(1, 6),
    offset=st.integers(0, 100),
    time=st.integers(-500, 500),
)
@settings(max_examples=20)
def test_cumulative_windows_begin_together_and_hold_all_times_before_their_ends(
    every, count, offset, time
):
    size = every * count
    spans = Cumulative(size, every, offset)
    found = [spans.edges(span) for span in spans.of(time)]
    [start] = {start for start, _ in found}
    assert (start - offset) % size == 0
    assert start <= time < start + size
    assert [end for _, end in found] == [
        end for end in range(start + every, start + size + 1, every) if end > time
    ]
    since, until = spans.same(spans.of(time))
    alike = [t for t in range(time - size, time + size) if spans.of(t) == spans.of(time)]
    assert (alike[0], alike[-1] + 1) == (since, until)


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(
    size=st.integers(1, 50),
    every=st.integers(1, 50),
    offset=st.integers(0, 100),
    time=st.integers(-1000, 1000),
)
def test_a_time_is_in_exactly_the_windows_that_hold_it(size, every, offset, time):
    every = min(every, size)
    starts = range(-3000 + (offset + 3000) % every, 3000, every)
    starts = [start for start in starts if (start - offset) % every == 0]
    wanted = [(start, start + size) for start in starts if start <= time < start + size]
    assert list(Sliding(size, every, offset).of(time)) == wanted


CALENDARS = """
day UTC 2024-05-01T23:59+00:00 2024-05-01T00:00+00:00 2024-05-02T00:00+00:00
day Europe/Paris 2024-03-31T12:00+02:00 2024-03-31T00:00+01:00 2024-04-01T00:00+02:00
day Europe/Paris 2024-10-27T12:00+01:00 2024-10-27T00:00+02:00 2024-10-28T00:00+01:00
day America/Sao_Paulo 2018-11-04T12:00-02:00 2018-11-04T01:00-02:00 2018-11-05T00:00-02:00
week UTC 2024-05-01T10:00+00:00 2024-04-29T00:00+00:00 2024-05-06T00:00+00:00
month Asia/Tokyo 2024-01-31T23:00+09:00 2024-01-01T00:00+09:00 2024-02-01T00:00+09:00
month UTC 1969-12-31T23:00+00:00 1969-12-01T00:00+00:00 1970-01-01T00:00+00:00
year UTC 2024-12-31T23:00+00:00 2024-01-01T00:00+00:00 2025-01-01T00:00+00:00
hour Asia/Kolkata 2024-05-01T10:15+05:30 2024-05-01T10:00+05:30 2024-05-01T11:00+05:30
"""


@pytest.mark.parametrize(
    ("unit", "zone", "time", "start", "end"),
    [line.split() for line in CALENDARS.strip().splitlines()],
)
def test_windows_of_the_calendar(unit, zone, time, start, end):
    calendar = Calendar(unit, zone)
    assert calendar.of(at(time)) == [(at(start), at(end))]
    assert calendar.of(at(start)) == [(at(start), at(end))]
    assert calendar.of(at(end))[0][0] == at(end)
    assert calendar.of(at(start) - 1)[0][1] == at(start)


@pytest.mark.parametrize(("day", "hours"), [("2024-03-31", 23), ("2024-10-27", 25)])
def test_days_on_which_clocks_are_changed(day, hours):
    [(start, end)] = Calendar("day", "Europe/Berlin").of(at(f"{day}T12:00+01:00"))
    assert (end - start) / HOUR == hours


CHANGES = """
Europe/Berlin 2024-03-31
Europe/Berlin 2024-10-27
America/New_York 2024-11-03
Australia/Lord_Howe 2024-04-07
Australia/Lord_Howe 2024-10-06
Asia/Kathmandu 1986-01-01
America/Sao_Paulo 2018-11-04
America/Sao_Paulo 2018-02-18
Africa/Cairo 2023-04-28
Africa/Cairo 2023-10-27
America/Havana 2015-11-01
America/St_Johns 2009-11-01
America/St_Johns 2010-03-14
Asia/Pyongyang 2015-08-15
Pacific/Apia 2011-12-30
Pacific/Kwajalein 1993-08-21
Antarctica/Troll 2024-03-31
"""
"""Among them: half an hour, a quarter, midnights that are missing or come twice, skipped days."""
LOCAL = """
    SELECT t, max(date_trunc('UNIT', make_timestamptz(t * 1000) AT TIME ZONE 'PLACE')) OVER (
        ORDER BY t) AS s
    FROM (SELECT unnest(generate_series(SINCE, UNTIL, 900000)) t)"""
SPANS = f"""
    SELECT min(t), lead(min(t)) OVER (ORDER BY min(t)) FROM ({LOCAL}) GROUP BY s ORDER BY s"""


@pytest.mark.parametrize("unit", ["day", "week", "month"])
@pytest.mark.parametrize(("zone", "day"), [line.split() for line in CHANGES.strip().splitlines()])
def test_windows_of_the_calendar_are_those_of_duckdb_where_clocks_are_changed(zone, day, unit):
    """DuckDB has another library of time zones: what its clocks show at each quarter of an hour."""
    change, days = at(f"{day}T00:00+00:00"), {"day": 4, "week": 16, "month": 65}[unit]
    since, until = change - days * 24 * HOUR, change + days * 24 * HOUR
    query = SPANS.replace("UNIT", unit).replace("PLACE", zone)
    query = query.replace("SINCE", str(since)).replace("UNTIL", str(until))
    spans = by_sql(query)[1:-1]
    assert len(spans) >= 2
    for start, end in spans:
        middle = range(start, end, max((end - start) // 100, 1))
        for time in [start, *middle, end - 1]:
            assert Calendar(unit, zone).of(time) == [(start, end)], f"{datetime_of(time)}"


@pytest.mark.parametrize(
    ("zone", "shift", "wanted"),
    [  # clocks that are changed by half an hour
        ("Australia/Lord_Howe", "2024-04-06T15:00+00:00", ["14:00", "15:00", "15:30", "16:30"]),
        ("Australia/Lord_Howe", "2024-10-05T15:30+00:00", ["14:30", "15:30", "16:00", "17:00"]),
        ("Asia/Pyongyang", "2018-05-04T15:00+00:00", ["13:30", "14:30", "15:00", "16:00"]),
    ],
)
def test_hours_do_not_overlap_where_clocks_are_changed_by_less(zone, shift, wanted):
    minutes = [at(shift) + minute * 60_000 for minute in range(-119, 119)]
    found = {}
    for time in minutes:
        [found[time]] = Calendar("hour", zone).of(time)
    edges = sorted({edge for span in found.values() for edge in span})
    assert {f"{datetime_of(edge):%H:%M}" for edge in edges} >= set(wanted)
    for one, other in pairwise(edges):
        inside = {found[time] for time in minutes if one <= time < other}
        assert inside == {(one, other)}
    calendar = Calendar("hour", zone)  # whatever was asked before
    assert [*reversed([calendar.of(time)[0] for time in reversed(minutes)])] == [*found.values()]


def test_times_are_shown_in_utc():
    assert datetime_of(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


@given(
    size=st.integers(1, 40),
    every=st.integers(1, 40),
    offset=st.integers(-50, 50),
    time=st.integers(-200, 200),
    other=st.integers(-200, 200),
)
def test_just_the_times_that_are_said_to_be_in_the_same_windows_are(
    size, every, offset, time, other
):
    spans = Sliding(size, min(size, every), offset)
    since, until = spans.same(spans.of(time))
    assert since <= time < until
    assert (since <= other < until) is (spans.of(other) == spans.of(time))
