"""What is said of inputs before a tuple comes."""

import pytest

from fulmen.api.declarer import Stream
from fulmen.api.event_time import NO_TIMES, TimeReader
from fulmen.connectors.formats.types import SAMPLES
from fulmen.errors import EventTimeError
from fulmen.windows.inputs import missing_fields

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
