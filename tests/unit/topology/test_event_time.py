"""What is wrong with an `eventTime`, and what is not."""

import pytest

from fulmen import Spout, Stream, TopologyBuilder
from fulmen.testing import CollectBolt, ListSpout
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check


def problems(**declared):
    builder = TopologyBuilder()
    builder.set_spout("clicks", ListSpout([], fields=["user", "at"])).set_event_time("at")
    builder.set_bolt("keep", CollectBolt).shuffle_grouping("clicks")
    builder.set_bolt("late", CollectBolt).shuffle_grouping("clicks", "__late")
    document = to_document(builder.build())
    document["spec"]["spouts"][0]["eventTime"] = declared
    return [f"{p.path}: {p.message}" for p in check(document).problems]


WHERE = "spec.spouts[0].eventTime"
WHO = "spout 'clicks'"


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        pytest.param({"field": "at"}, [], id="the-field-alone"),
        pytest.param(
            {
                "field": "at",
                "lag": "1.5m",
                "idleTimeout": "30s",
                "advance": True,
                "maxAhead": "2d",
                "unit": "us",
                "timezone": "America/New_York",
            },
            [],
            id="all",
        ),
        pytest.param(
            {"field": "att", "timezone": "Europe/Berlinn", "idleTimeout": "0s"},
            [
                f"{WHERE}.timezone: {WHO}: there is no time zone 'Europe/Berlinn'",
                f"{WHERE}.idleTimeout: {WHO}: an idleTimeout of 0 would make every part idle at"
                " once",
                f"{WHERE}.field: {WHO}: eventTime is field 'att', but stream 'default' declares"
                " ['user', 'at']",
            ],
            id="several-mistakes-at-once",
        ),
        pytest.param(
            {"field": "at", "advance": True},
            [
                f"{WHERE}.advance: {WHO}: advance needs an idleTimeout, as nothing is ever idle"
                " without"
            ],
            id="advance-of-what-is-never-idle",
        ),
        pytest.param(
            {"field": "at", "stream": "other"},
            [f"{WHERE}.stream: {WHO}: eventTime is of stream 'other', but it declares ['default']"],
            id="stream",
        ),
        pytest.param(
            {"field": "at", "timezone": "../../etc/passwd"},
            [f"{WHERE}.timezone: {WHO}: there is no time zone '../../etc/passwd'"],
            id="zone-out-of-the-database",
        ),
        pytest.param({"streams": {"default": "at"}}, [], id="one-of-several-streams"),
        pytest.param(
            {"streams": {"default": "att", "visits": "at"}},
            [
                f"{WHERE}.streams.default: {WHO}: eventTime is field 'att', but stream 'default'"
                " declares ['user', 'at']",
                f"{WHERE}.streams.visits: {WHO}: eventTime is of stream 'visits', but it declares"
                " ['default']",
            ],
            id="streams",
        ),
        pytest.param(
            {"field": "at", "streams": {"default": "at"}},
            [f"{WHERE}.streams: {WHO}: eventTime has field and streams"],
            id="a-field-and-streams",
        ),
        pytest.param(
            {"stream": "default", "streams": {"default": "at"}},
            [f"{WHERE}.streams: {WHO}: eventTime has stream and streams"],
            id="a-stream-and-streams",
        ),
        pytest.param(
            {"lag": "1s", "streams": {}},
            [f"{WHERE}.field: {WHO}: eventTime names no field with the time"],
            id="no-field",
        ),
    ],
)
def test_mistakes_in_an_event_time_are_told_together(declared, wrong):
    assert problems(**declared) == wrong


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (
            {"field": "at", "lag": "ten"},
            "lag is 'ten', but must be a number of at most 9 digits and",
        ),
        (
            {"field": "at", "lag": "1000000000ms"},
            "lag is '1000000000ms', but must be a number of at most 9 digits",
        ),
        ({"field": "at", "lag": "-1s"}, "lag is '-1s'"),
        ({"field": "at", "unit": "h"}, "unit is 'h'"),
        ({"streams": {"default": 3}}, "default is 3, but must be text"),
    ],
)
def test_a_field_of_an_event_time_that_is_wrong_by_itself_is_told(declared, says):
    told = [text for text in problems(**declared) if WHERE in text]
    assert says in told[0]


class Days(Spout):
    outputs = Stream(
        ("day", "at", "millis"), types={"day": "date32", "at": "timestamp", "millis": "int64"}
    )

    def next_tuple(self):
        pass


@pytest.mark.parametrize(
    ("declared", "where"), [({"field": "day"}, "field"), ({"streams": {"default": "day"}}, "")]
)
def test_a_field_whose_type_is_none_of_a_time_is_told(declared, where):
    builder = TopologyBuilder()
    builder.set_spout("clicks", Days).set_event_time("at")
    builder.set_bolt("keep", CollectBolt).shuffle_grouping("clicks")
    document = to_document(builder.build())
    assert check(document).problems == ()
    document["spec"]["spouts"][0]["eventTime"] = declared
    (found,) = check(document).problems
    assert found.path == f"{WHERE}.{where or 'streams.default'}"
    assert found.message == (
        "spout 'clicks': eventTime is field 'day', a date32, but must be a timestamp, a number or"
        " ISO text"
    )


def test_that_the_unit_of_numbers_is_guessed_is_said():
    builder = TopologyBuilder()
    builder.set_spout("clicks", Days).set_event_time("millis")
    builder.set_bolt("keep", CollectBolt).shuffle_grouping("clicks")
    document = to_document(builder.build())
    (found,) = check(document).problems
    assert (found.severity, found.path) == ("warning", f"{WHERE}.unit")
    assert "'millis', of type int64 without a unit, which is guessed" in found.message
    document["spec"]["spouts"][0]["eventTime"]["unit"] = "ms"
    assert check(document).problems == ()
