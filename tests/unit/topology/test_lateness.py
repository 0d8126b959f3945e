"""Warnings of windows and sinks about what operators in front of them leave out, or emit."""

import pytest

from fulmen import TopologyBuilder
from fulmen.connectors.sqlite import SqliteSink
from fulmen.testing import ListSpout
from fulmen.topology.validation.check import check
from fulmen.windows import (
    Aggregate,
    Deduplicate,
    IntervalJoin,
    RegularJoin,
    TableJoin,
    TemporalJoin,
)

WINDOW = {"key": ["k"], "window": {"type": "tumbling", "size": "1h"}, "aggregates": {"n": "count"}}
ONCE = {"id": ["k"], "fields": ["k", "at"], "time": "at", "horizon": "1d"}
SIDES = {
    "left": {"from": "orders", "fields": ["k", "at"]},
    "right": {"from": "prices", "fields": {"price": "v"}},
    "key": ["k"],
}


def joined(cls, **more):
    builder = TopologyBuilder()
    for name in ("orders", "prices"):
        builder.set_spout(name, ListSpout([], fields=["k", "v", "at"])).set_event_time("at")
    join = builder.set_bolt("join", cls).set_config({**SIDES, **more})
    join.fields_grouping("orders", ["k"]).fields_grouping("prices", ["k"])
    return builder


def warnings(builder):
    checked = check(builder.build())
    assert checked.errors == []
    return [f"{one.path}: {one.message}" for one in checked.warnings]


@pytest.mark.parametrize(
    ("cls", "more", "allowed", "late"),
    [
        (TemporalJoin, {}, "30m", "0 s"),
        (TemporalJoin, {"allowedLateness": "10m"}, "30m", "600 s"),
        (TemporalJoin, {"allowedLateness": "30m"}, "30m", None),
        (IntervalJoin, {"upper": "1h"}, "1h", None),
        (IntervalJoin, {"upper": "1h"}, "2h", "3600 s"),
    ],
)
def test_a_join_that_leaves_out_what_a_window_behind_it_allows_is_told(cls, more, allowed, late):
    """Also if another bolt is between them; but not if what is late for the join is led on."""
    builder = joined(cls, **more)
    once = builder.set_bolt("once", Deduplicate).fields_grouping("join", ["k"])
    once.set_config({**ONCE, "allowedLateness": allowed})
    window = builder.set_bolt("w", Aggregate).fields_grouping("once", ["k"])
    window.set_config({**WINDOW, "time": "at", "allowedLateness": allowed})
    said = [
        f"spec.bolts[{i}].config.allowedLateness: bolt '{name}': allowedLateness is"
        f" {1800 if allowed == '30m' else 3600 if allowed == '1h' else 7200} s, but 'join' in"
        f" front of it leaves out what is more than {late} late"
        for i, name in enumerate(("once", "w"), 1)
    ]
    assert warnings(builder) == (said if late else [])
    once.fields_grouping("join", ["k"], "late_left")
    assert warnings(builder) == []


@pytest.mark.parametrize(
    ("cls", "more", "key", "said"),
    [
        (IntervalJoin, {"upper": "1h", "type": "left"}, "price", "None where 'prices' has no m"),
        (IntervalJoin, {"upper": "1h"}, "price", None),
        (IntervalJoin, {"upper": "1h", "type": "left"}, "k", None),
        (TableJoin, {}, "at", "one row of 'orders' alone. If there are several, as of a foreign"),
        (TableJoin, {"left": {**SIDES["left"], "id": ["at"]}}, "at", None),
        (TableJoin, {}, "k", None),
        (RegularJoin, {}, "k", "Write deletedField: is_retraction, and what is taken back is"),
    ],
)
def test_a_sink_that_replaces_rows_by_a_field_that_does_not_tell_them_apart_warns(
    cls, more, key, said, tmp_path
):
    builder = joined(cls, **more)
    table = {"table": "t", "mode": "upsert", "key": [key], "path": str(tmp_path / "t.db")}
    builder.set_bolt("sink", SqliteSink).set_config(table).shuffle_grouping("join")
    found = warnings(builder)
    assert [said in one for one in found] == ([True] if said else [])


@pytest.mark.parametrize(
    ("key", "select", "tasks", "said"),
    [
        pytest.param(["at"], None, 2, "tasks divide rows by 'k'", id="other-field"),
        pytest.param(["at", "k"], None, 2, None, id="with-the-key"),
        pytest.param(["at"], None, 1, None, id="one-task"),
        pytest.param(["at", "of"], {"at": "at", "of": "k"}, 2, None, id="renamed"),
        pytest.param(["at"], {"at": "at"}, 2, "by a field that is not received", id="left-out"),
        pytest.param(["id"], {"id": "concat(at, k)"}, 2, None, id="made-of-both"),
    ],
)
def test_deletions_that_may_overtake_what_replaces_their_rows_warn(
    key, select, tasks, said, tmp_path
):
    builder = joined(RegularJoin)
    builder.set_bolt("wide", RegularJoin, tasks).set_config(
        {**SIDES, "right": {"from": "join", "fields": {"price": "price"}}}
    ).fields_grouping("orders", ["k"]).fields_grouping("join", ["k"])
    table = {"table": "t", "mode": "upsert", "key": key, "path": str(tmp_path / "t.db")}
    sink = builder.set_bolt("sink", SqliteSink)
    sink.set_config({**table, "deletedField": "is_retraction"})
    sink.shuffle_grouping("wide")
    if select is not None:
        sink.select({**select, "is_retraction": "is_retraction"})
    found = [one for one in warnings(builder) if "bolt 'sink'" in one]
    assert [said in one for one in found] == ([True] if said else [])
