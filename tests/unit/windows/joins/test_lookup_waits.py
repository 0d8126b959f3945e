"""A lookup join that holds what comes until its table is there."""

import pytest

from fulmen import Stream, TopologyBuilder
from fulmen.errors import ValidationFailed
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, Message, run
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from fulmen.windows import LookupJoin

FIELDS = Stream(("who", "n", "at"))
UNTIL = {
    "left": {"from": "source", "stream": "orders", "fields": {"k": "who", "a": "n"}},
    "right": {"from": "source", "stream": "table", "fields": {"b": "n"}},
    "key": ["who"],
    "type": "left",
    "unit": "ms",
    "waitFor": 20,
}
ITEMS = [("a", "x", 1, 3), PAUSE, ABORT, ("a", "y", 2, 4), PAUSE, ("b", "x", 3, 5), PAUSE]
LATER = [("a", "x", 4, 20), PAUSE, PAUSE, ("b", "x", 5, 26), PAUSE, ("a", "x", 6, 26)]


def topology(items, cls=LookupJoin, tasks=2, **config):
    """One source, so that the order of both sides is known. Items are (side, who, n, at)."""
    streams = {"a": "orders", "b": "table"}
    items = [Message(one[1:], streams[one[0]]) if isinstance(one, tuple) else one for one in items]
    builder = TopologyBuilder()
    source = ListSpout(items, streams={"orders": FIELDS, "table": FIELDS})
    spout = builder.set_spout("source", source)
    spout.set_event_time({"orders": "at", "table": "at"}, unit="ms")
    join = builder.set_bolt("join", cls, tasks).set_config({**UNTIL, **config})
    join.fields_grouping("source", ["who"], "orders").fields_grouping("source", ["who"], "table")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("join")
    return builder


def rows(result):
    return sorted(tuple(row[:3]) for row in result.collected("sink"))


def test_left_tuples_are_held_until_the_watermark_has_come_to_a_time():
    result = run(topology([*ITEMS, *LATER]))
    assert result.errors == []
    assert rows(result) == [("x", 1, 3), ("x", 4, 3), ("x", 6, 5), ("y", 2, None)]
    assert {type(place) for place in result.state("join")} == {tuple}


def test_tuples_that_are_held_survive_a_restart():
    first = run(topology([*ITEMS, *LATER]), batches=4)
    assert rows(first) == []
    assert ("x", 0) in first.state("join")
    second = run(topology([*ITEMS, *LATER]), checkpoint=first)
    assert rows(second) == [("x", 1, 3), ("x", 4, 3), ("x", 6, 5), ("y", 2, None)]


def test_what_is_held_is_emitted_when_all_has_ended():
    assert rows(run(topology(ITEMS))) == [("x", 1, 3), ("y", 2, None)]


def test_no_more_is_held_than_is_allowed_and_the_rest_comes_again():
    result = run(topology([*ITEMS, *LATER], tasks=1, holdAtMost=1))
    assert rows(result) == [("x", 1, 3), ("x", 4, 3), ("x", 6, 5), ("y", 2, None)]
    assert result.trees["failed"] > 0


def test_a_time_that_becomes_later_loses_nothing():
    """What was held until the earlier time is emitted then; what comes afterwards is held on."""
    more = [("b", "x", 4, 20), PAUSE, PAUSE, ("a", "x", 5, 21), PAUSE, ABORT, ("a", "x", 6, 22)]
    first = run(topology([*ITEMS, *more]), batches=4)
    second = run(topology([*ITEMS, *more], waitFor=30), checkpoint=first)
    assert rows(second) == [("x", 1, 4), ("x", 5, 4), ("x", 6, 4), ("y", 2, None)]


class Forgetful(LookupJoin):
    state_ttl = "1h"


@pytest.mark.parametrize(
    ("cls", "config", "said"),
    [
        (LookupJoin, {"waitFor": "soon"}, "waitFor: its time is 'soon', which is not ISO 8601"),
        (
            LookupJoin,
            {"waitFor": 20, "unit": None},
            "waitFor: its time is 20, a number that",
        ),
        (LookupJoin, {"holdAtMost": 0}, "holdAtMost"),
        (Forgetful, {}, "state_ttl: tuples that are held would be forgotten"),
    ],
)
def test_mistakes_are_found_before_anything_runs(cls, config, said):
    with pytest.raises(ValidationFailed) as raised:
        run(topology([], cls, **config))
    assert said in str(raised.value)


def test_a_table_that_has_no_part_in_event_time_is_told_as_nothing_waits_for_it():
    def told(right_time=None, **times):
        builder = TopologyBuilder()
        for name in ("sales", "prices"):
            spout = builder.set_spout(name, ListSpout([], fields=["who", "n", "at"]))
            if name in times:
                spout.set_event_time(times[name])
        right = {"from": "prices", "fields": ["at"]} | ({"time": right_time} if right_time else {})
        config = {"key": ["who"], "left": {"from": "sales", "fields": ["n"]}, "right": right}
        join = builder.set_bolt("join", LookupJoin).set_config({**config, "waitFor": "2024-05-01"})
        join.fields_grouping("sales", ["who"]).fields_grouping("prices", ["who"])
        builder.set_bolt("sink", CollectBolt).shuffle_grouping("join")
        return [(p.severity, p.message) for p in check(to_document(builder.build())).problems]

    assert told(sales="at", prices="at") == told("at", sales="at") == []
    ((severity, message),) = told(sales="at")
    assert severity == "warning"
    assert "waitFor waits for event time, and 'prices' declares none" in message
