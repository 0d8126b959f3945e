"""What goes by event time, though nothing that it descends from declares any."""

import pytest

from fulmen import TopologyBuilder
from fulmen.testing import CollectBolt, ListSpout
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from fulmen.windows import (
    Aggregate,
    Deduplicate,
    IntervalJoin,
    TemporalJoin,
    WindowedBolt,
    WindowJoin,
)

TUMBLING = {"type": "tumbling", "size": "1h"}
COUNTED = {"key": ["k"], "aggregates": {"n": "count"}}
ONCE = {"id": ["k"], "fields": ["k", "at"], "horizon": "1d"}
SIDES = {
    "left": {"from": "orders", "fields": ["k", "at"], "time": "at"},
    "right": {"from": "parsed", "fields": {"price": "v"}, "time": "at"},
    "key": ["k"],
}
INTERVAL = {**SIDES, "upper": "1h"}
FIELDS = ["k", "v", "at"]
CURE = "Declare it of 'orders' and 'lines', such as eventTime: {field: at, lag: 10s}."


class Parsed(CollectBolt):
    """Emits what it gets."""

    outputs = FIELDS


class Windows(WindowedBolt):
    """Takes windows."""

    def execute(self, window):
        """Does nothing with them."""


def document(cls, config, timed=()):
    """Two sources, one of them behind a bolt, with event times of those that are named."""
    builder = TopologyBuilder()
    spouts = [builder.set_spout(name, ListSpout([], fields=FIELDS)) for name in ("orders", "lines")]
    parsed = builder.set_bolt("parsed", Parsed).shuffle_grouping("lines")
    goes = builder.set_bolt("goes", cls).set_config(config)
    goes.fields_grouping("orders", ["k"]).fields_grouping("parsed", ["k"])
    for name, one in zip(
        ("orders", "lines", "parsed", "goes"), (*spouts, parsed, goes), strict=True
    ):
        if name in timed:
            one.set_event_time("at", unit="ms")
    return to_document(builder.build())


def told(found, **where):
    problems = check(found, **where).problems
    return [(one.severity, one.path, one.message, one.cure) for one in problems]


BY_TIME = [
    pytest.param(
        Aggregate, {**COUNTED, "window": TUMBLING, "time": "at"}, "no window ends", id="aggregate"
    ),
    pytest.param(
        Windows,
        {"window": {"length": "1h"}, "timestampField": "at", "key": ["k"]},
        "no window ends",
        id="windowed-bolt",
    ),
    pytest.param(
        Deduplicate,
        {**ONCE, "time": "at", "keep": "last"},
        "nothing is passed on",
        id="the-last-of-each-id",
    ),
    pytest.param(WindowJoin, {**SIDES, "window": TUMBLING}, "nothing is joined", id="window-join"),
    pytest.param(TemporalJoin, SIDES, "nothing is joined", id="temporal-join"),
    pytest.param(
        IntervalJoin,
        {**INTERVAL, "type": "left"},
        "no row without a match is emitted",
        id="outer-interval-join",
    ),
]


@pytest.mark.parametrize(("for_kubernetes", "severity"), [(False, "warning"), (True, "error")])
@pytest.mark.parametrize(("cls", "config", "what"), BY_TIME)
def test_what_never_has_a_watermark_is_told(cls, config, what, for_kubernetes, severity):
    """A run until the sources are drained ends all windows; a topology in pods has no end."""
    message = (
        f"bolt 'goes': {what} while the topology runs, as nothing that it descends from declares"
        " eventTime"
    )
    found = told(document(cls, config), for_kubernetes=for_kubernetes)
    assert [one for one in found if one[1].startswith("spec.bolts[1]")] == [
        (severity, "spec.bolts[1].inputs", message, CURE)
    ]


@pytest.mark.parametrize("timed", ["orders", "lines", "parsed"])
@pytest.mark.parametrize(("cls", "config", "what"), BY_TIME)
def test_one_source_with_event_time_is_enough(cls, config, what, timed):
    """Also a bolt in between."""
    assert told(document(cls, config, timed)) == []


def test_event_time_of_the_bolt_itself_is_only_of_what_it_emits():
    config = {**COUNTED, "window": TUMBLING, "time": "at"}
    found = document(Aggregate, config)
    found["spec"]["bolts"][1]["eventTime"] = {"field": "window_start"}
    assert [what for _, _, what, _ in told(found)] == [
        "bolt 'goes': no window ends while the topology runs, as nothing that it descends from"
        " declares eventTime"
    ]


@pytest.mark.parametrize(
    ("cls", "config", "what"),
    [
        pytest.param(Deduplicate, {**ONCE, "time": "at"}, "no id is forgotten", id="first-of-id"),
        pytest.param(IntervalJoin, INTERVAL, "no row is forgotten", id="inner-interval-join"),
    ],
)
def test_what_gives_all_results_all_the_same_is_no_error(cls, config, what):
    found = check(document(cls, config), for_kubernetes=True)
    assert [one.message for one in found.warnings] == [
        f"bolt 'goes': {what} while the topology runs, as nothing that it descends from declares"
        " eventTime"
    ]


@pytest.mark.parametrize(
    ("cls", "config"),
    [
        pytest.param(
            Aggregate, {**COUNTED, "window": {"type": "count", "size": 9}}, id="windows-by-count"
        ),
        pytest.param(Windows, {"window": {"length": "1h"}, "key": ["k"]}, id="by-arrival"),
        pytest.param(Deduplicate, ONCE, id="by-the-clock"),
    ],
)
def test_what_goes_by_the_clock_needs_no_event_time(cls, config):
    assert told(document(cls, config)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(("spouts", 1, "eventTime", {"lag": 3}), id="a-mistake-in-event-time"),
        pytest.param(("spouts", 1, "class", 5), id="a-source-that-can-not-be-read"),
        pytest.param(("bolts", 0, "inputs", [{"from": "nobody"}]), id="an-unknown-source"),
        pytest.param(("bolts", 0, "inputs", "lines"), id="inputs-that-are-none"),
    ],
)
def test_what_is_not_known_is_not_told(wrong):
    """What descends from a mistake may have event time when that is mended."""
    section, place, name, value = wrong
    found = document(Aggregate, {**COUNTED, "window": TUMBLING, "time": "at"})
    found["spec"][section][place][name] = value
    problems = told(found)
    assert problems
    assert not [what for _, _, what, _ in problems if "descends from" in what]


class Raising(Parsed):
    """An author's class with a mistake."""

    def needs_event_time(self, options):
        """Raises."""
        raise ZeroDivisionError("nothing")


def test_what_the_method_of_an_author_raises_is_told():
    assert [what for _, _, what, _ in told(document(Raising, {}))] == [
        "bolt 'goes': needs_event_time raised ZeroDivisionError: nothing"
    ]
