"""What is said of inputs before a tuple comes."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fulmen.api.declarer import Stream
from fulmen.api.times.event_time import NO_TIMES, TimeReader
from fulmen.connectors.formats.types import SAMPLES
from fulmen.errors import EventTimeError
from fulmen.testing import BoltHarness
from fulmen.windows import Aggregate, Deduplicate, WindowedBolt
from fulmen.windows.inputs import FEW, missing_fields, time_or_none, times_of

STREAM = Stream(("day", "at", "user"), types={"day": "date32", "at": "timestamp"})


@pytest.mark.parametrize("option", ["time", "left.time", "right.time", "timestampField"])
def test_a_field_whose_type_is_none_of_an_event_time_is_told(option):
    assert list(missing_fields({"day": option}, STREAM)) == [
        f"{option}: 'day' is a date32, but must be a timestamp, a number or ISO text"
    ]


def test_a_key_that_may_be_any_json_is_warned_of():
    stream = Stream(("tags", "user"), types={"tags": "json", "user": "string"})
    told = list(missing_fields({"tags": "left.key", "user": "key"}, stream))
    assert [type(one) for one in told] == [UserWarning]
    assert str(told[0]).startswith("left.key: 'tags' may be any JSON: a tuple fails where it is a")
    assert list(missing_fields({"tags": "aggregates.n"}, stream)) == []


@pytest.mark.parametrize(("field", "option"), [("at", "time"), ("user", "time"), ("day", "key")])
def test_any_other_type_may_be_one(field, option):
    assert list(missing_fields({field: option}, STREAM)) == []


def test_types_of_no_event_time_are_those_of_whose_values_none_can_be_read_as_a_time():
    reader = TimeReader("s")

    def is_refused(value):
        try:
            reader.read(value)
        except EventTimeError as error:
            return "must be a datetime, a number or ISO text" in str(error)
        return False

    assert {kind for kind, values in SAMPLES.items() if all(map(is_refused, values))} == NO_TIMES


class Counted(WindowedBolt):
    outputs = ("n",)

    def execute(self, window):
        """Not called."""


BEYOND = "0001-01-01T00:00:00+08:00"
HOUR = {"type": "tumbling", "size": "1h"}
GAP = {"type": "session", "gap": "1h"}
ONCE = {"time": "at", "id": ["k"], "fields": ["k"], "horizon": "1h"}
LENGTH = {"length": "1h", "slide": "1h"}


@pytest.mark.parametrize(
    ("cls", "config"),
    [
        (Aggregate, {"time": "at", "window": HOUR, "aggregates": {"n": "count"}}),
        (Aggregate, {"time": "at", "window": GAP, "aggregates": {"n": "sum(n)"}}),
        (Deduplicate, ONCE),
        (Deduplicate, {**ONCE, "keep": "last"}),
        (Counted, {"timestampField": "at", "window": LENGTH, "lateTupleStream": "late"}),
    ],
)
def test_a_tuple_is_late_whose_time_no_datetime_could_be(cls, config):
    """And does not fail again and again."""
    with BoltHarness(cls, fields=["k", "n", "at"], conf=config) as harness:
        harness.execute(["a", 1, BEYOND])
        [late] = harness.emitted
        values, *when = late.values
        assert (late.stream, values["at"], set(when)) in (
            ("late", BEYOND, {None}),
            ("late", BEYOND, set()),
        )
        assert len(harness.acked) == 1


@pytest.mark.parametrize(
    "other",
    [
        *(None, 7, "2026-01-01", datetime(2026, 1, 1)),  # noqa: DTZ001 (one without a zone)
        datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
)
def test_many_datetimes_are_read_as_each_of_them(other):
    reader = TimeReader(timezone="Asia/Tokyo")
    values = [datetime(2026, 1, 1, 0, 0, i, 1999, tzinfo=UTC) for i in range(FEW)] + [other] * 2
    times = times_of(values, reader)
    assert times == [time_or_none(value, reader) for value in values]
    assert {*map(type, times)} <= {int, type(None)}
