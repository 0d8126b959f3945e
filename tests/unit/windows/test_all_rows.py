"""Windows of all rows, without a key: one task has them."""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.errors import ValidationFailed
from fulmen.streams import Streams, agg, tumbling
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from fulmen.windows import Aggregate
from support.windows.aggregates import (
    EVENTS,
    EXAMPLES,
    EXTRAS,
    FIELDS,
    SUMS,
    WINDOWS,
    by_duckdb,
    plain,
    within,
)

CONFIG = {"window": {"type": "tumbling", "size": "20ms"}, "aggregates": SUMS, "unit": "ms"}


def topology(items, config, tasks=1, backend="memory", grouping="global"):
    builder = TopologyBuilder()
    spout = builder.set_spout("source", ListSpout(items, fields=FIELDS))
    spout.set_event_time("at", unit="ms", lag="40ms")
    bolt = builder.set_bolt("windows", Aggregate, tasks).set_config({"time": "at", **config})
    bolt.set_keyed_state(backend)
    if grouping == "global":
        bolt.global_grouping("source")
    else:
        bolt.shuffle_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("windows")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


@given(
    kind=st.sampled_from(["tumbling", "sliding", "cumulative", "session", "global"]),
    events=EVENTS,
    partial=st.sampled_from(["auto", True, False]),
    runs=st.lists(st.integers(1, 5), max_size=2),
    extra=st.data(),
)
@settings(max_examples=max(EXAMPLES // 2, 8))
def test_a_window_of_all_rows_has_each_of_them_once(kind, events, partial, runs, extra):
    """With crashes, in several runs, with other numbers of tasks, in memory or on disk."""
    items = []
    for one in within(40, events, extra.draw):
        items += [one, *extra.draw(st.sampled_from(EXTRAS))]
    config = {**CONFIG, "window": WINDOWS[kind][0]}
    if kind != "session":
        config["partial"] = partial
    result = None
    for batches in [*runs, None]:
        tasks = extra.draw(st.integers(1, 3), label="tasks")
        on = "memory" if kind == "session" else extra.draw(st.sampled_from(["memory", "disk"]))
        how = {"batches": batches, "workers": extra.draw(st.integers(1, 2))}
        if batches is None:
            how["end_of_input"] = True
        result = run(topology(items, config, tasks, on), checkpoint=result, **how)
        assert result.errors == []
    found = [("all", *map(plain, row)) for row in result.collected("sink")]
    expected = by_duckdb(kind, [("all", amount, at) for _, amount, at in events])
    event(f"{min(len(expected), 3)} or more windows")
    assert sorted(found) == [row[:5] for row in expected]


def told(grouping, tasks, **config):
    document = to_document(topology([], {**CONFIG, **config}, tasks, grouping=grouping))
    return [(one.message, one.cure) for one in check(document).problems]


def test_windows_of_all_rows_that_several_tasks_divide_are_told():
    [(message, cure)] = told("shuffle", 2)
    assert message == (
        "bolt 'windows', input from 'source': shuffle grouping, so that each of its 2 tasks has"
        " results of its own tuples, but they should be of all of them"
    )
    assert cure == "Write grouping: {type: global}, or a key."
    assert told("shuffle", 1) == told("global", 2) == []


def test_a_stream_has_windows_of_all_of_its_rows():
    pipeline = Streams("all", workers=2)
    at = {"field": "at", "unit": "ms"}
    rows = pipeline.source("rows", ListSpout((), fields=FIELDS), event_time=at)
    minutes = rows.where("amount > 0").window(tumbling("1m"))
    minutes.aggregate(n=agg.count(), total=agg.sum("amount")).sink("out", CollectBolt)
    given = [["a", 1, 0], ["b", 2, 59_999], ["c", -1, 7], ["a", 3, 60_000]]
    outcome = pipeline.test(rows=given)
    assert [(one["n"], one["total"]) for one in outcome["out"]] == [(2, 3), (1, 3)]
    assert "rows-window" in {bolt.name for bolt in pipeline.build().spec.bolts}
    with pytest.raises(ValidationFailed, match="windows of all rows are of one task"):
        minutes.count(parallelism=2)
