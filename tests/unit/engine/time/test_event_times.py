"""The event times of what a task emits at once, whatever it is emitted as."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from fulmen.api.times.event_time import TimeReader
from fulmen.engine.time.event_times import StreamTimes, newest_by_part
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.topology.resource.spec.event_time import EventTime


class Unreadable:
    """As NumPy's scalars are."""

    def item(self):
        raise RuntimeError("no item")


def of_rows(values):
    return TupleRows([("a", value) for value in values])


def of_arrow(values):
    return TupleRows.of_arrow(pa.record_batch({"name": ["a"] * len(values), "at": values}))


def find(emitted, wall=0.0, unit="ms"):
    declared = EventTime(field="at", unit=unit, max_ahead="1s")
    found = StreamTimes(declared, 1).find(emitted, wall)
    usable = {i: at for i, at in enumerate(found.times.tolist()) if i not in found.wrong}
    return usable, found.wrong, found.ahead


AHEAD = "more than 1s ahead of the clock here"


@pytest.mark.parametrize("form", [of_rows, of_arrow])
@pytest.mark.parametrize(
    ("values", "wall", "usable", "wrong", "ahead"),
    [
        pytest.param([2000, -5, 1000], 0.0, {0: 2000, 1: -5, 2: 1000}, {}, set(), id="usable"),
        pytest.param([2000, 1], 1.0, {0: 2000, 1: 1}, {}, set(), id="not-too-far-ahead"),
        pytest.param(
            [2001, 1], 1.0, {1: 1}, {0: f"its time is 2001, {AHEAD}"}, {0}, id="too-far-ahead"
        ),
        pytest.param([2001, 1], 0.0, {0: 2001, 1: 1}, {}, set(), id="clock-not-known"),
        pytest.param([7, None], 1.0, {0: 7}, {1: "it has no time"}, set(), id="no-time"),
        pytest.param(
            [None, 9, 2001],
            1.0,
            {1: 9},
            {0: "it has no time", 2: f"its time is 2001, {AHEAD}"},
            {2},
            id="both",
        ),
    ],
)
def test_times_are_usable_unless_they_are_none_or_too_far_ahead(
    form, values, wall, usable, wrong, ahead
):
    assert find(form(values), wall) == (usable, wrong, ahead)


@pytest.mark.parametrize("number", [10**15, -(10**15), 10**18, 10**30])
def test_numbers_that_are_no_times_do_not_make_others_unusable(number):
    usable, wrong, ahead = find(of_rows([5, number, 6]), wall=1.0)
    assert (usable, set(wrong), ahead) == ({0: 5, 2: 6}, {1}, set())


@pytest.mark.parametrize(
    ("unit", "values", "times"),
    [
        ("s", [5, 6], [5000, 6000]),
        ("ms", [True, 6], [None, 6]),
        ("ms", [5.5, 6], [5, 6]),
        (None, [datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)], [5000]),
    ],
)
def test_what_is_no_whole_number_of_milliseconds_is_read_one_by_one(unit, values, times):
    usable, wrong, _ = find(of_rows(values), unit=unit)
    assert [usable.get(i) for i in range(len(values))] == times
    assert set(wrong) == {i for i, at in enumerate(times) if at is None}


BERLIN = datetime(2026, 3, 29, 3, 30, tzinfo=ZoneInfo("Europe/Berlin"))
EDGES = [
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    *(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize("other", [None, BERLIN, datetime(2026, 1, 1), 7, "2026-01-01"])  # noqa: DTZ001 (one without a zone)
def test_datetimes_are_the_same_together_and_one_by_one(other):
    values = EDGES if other is None else [*EDGES, other]
    usable, wrong, _ = find(of_rows(values))
    read = TimeReader("ms").read
    assert (usable, wrong) == (dict(enumerate(map(read, values))), {})


def test_a_time_whose_class_raises_is_not_usable():
    usable, wrong, _ = find(of_rows([Unreadable(), datetime(1970, 1, 1, tzinfo=UTC)]))
    assert (usable, wrong) == ({1: 0}, {0: "its time can't be read: RuntimeError"})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_arrow_are_usable_in_each_unit(unit):
    times = pa.array([5000, None], pa.timestamp("ms", "UTC")).cast(pa.timestamp(unit, "UTC"))
    assert find(of_arrow(times)) == ({0: 5000}, {1: "it has no time"}, set())


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_nanoseconds_of_arrow_need_not_be_whole_microseconds(zone):
    times = pa.array([5_000_000_001, 5_000_999_999], pa.timestamp("ns")).cast(
        pa.timestamp("ns", zone)
    )
    assert find(of_arrow(times)) == ({0: 5000, 1: 5000}, {}, set())


def test_the_newest_time_is_that_of_each_part_or_of_all():
    times = pa.array([3, 9, -4, -6, 9]).to_numpy()
    assert newest_by_part(times, None) == {"": 9}
    assert newest_by_part(times, ["a", "b", "c", "c", "a"]) == {"a": 9, "b": 9, "c": -4}
