"""Joins by the time of day when tuples come, whatever their batches, kills and runs."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.errors import FulmenError, ValidationFailed
from fulmen.testing import PAUSE, CollectBolt, ListSpout, ManualClock, run
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from fulmen.windows import Aggregate, IntervalJoin, TemporalJoin, WindowJoin
from support.windows.aggregates import EXAMPLES, plain
from support.windows.by_clock import MARKS, RUNS, START, arrivals_of, in_runs, tell_arrivals
from support.windows.joins import Split

LEFT = {"from": "split", "stream": "orders", "fields": {"k": "who", "a": "n"}}
RIGHT = {"from": "split", "stream": "payments", "fields": {"b": "n"}}
CONFIG = {"left": LEFT, "right": RIGHT, "key": ["who"], "by": "clock"}
TUMBLING = {**CONFIG, "window": {"type": "tumbling", "size": "10s"}}
SESSIONS = {**CONFIG, "window": {"type": "session", "gap": "5s"}}
INTERVAL = {**CONFIG, "lower": "-4s", "upper": "10s"}
FIELDS = ["side", "who", "n", "at"]
KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def topology(cls, items, config, backend="memory"):
    builder = TopologyBuilder()
    spout = builder.set_spout("source", ListSpout(items, FIELDS))
    if config["by"] == "time":
        spout.set_event_time("at", unit="s", lag="0s")
    builder.set_bolt("split", Split).shuffle_grouping("source")
    join = builder.set_bolt("join", cls, 2).set_config(config).set_keyed_state(backend)
    join.fields_grouping("split", ["who"], "orders")
    join.fields_grouping("split", ["who"], "payments")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("join")
    tell_arrivals(builder)
    return builder


def are_together(window, arrivals):
    """Whether two tuples of a key are in one window, by the times of all tuples of the key."""
    if window["type"] == "tumbling":
        return lambda one, other: one[-1] // 10_000 == other[-1] // 10_000
    times = sorted(arrival[-1] for arrival in arrivals)
    session = dict(zip(times, [0] * len(times), strict=True))
    for before, at in pairwise(times):
        session[at] = session[before] + (at - before > 5000)
    return lambda one, other: session[one[-1]] == session[other[-1]]


def model(config, kind, arrivals):
    """The rows of a join, each as often as it is emitted: key, left and right number."""
    found = Counter()
    for who in {one[1] for one in arrivals}:
        left, right = ([o for o in arrivals if o[:2] == [side, who]] for side in "ab")
        if "window" in config:
            are_pair = are_together(config["window"], [*left, *right])
        else:
            are_pair = lambda one, other: -4000 <= other[-1] - one[-1] <= 10_000  # noqa: E731
        pairs = [(one, other) for one in left for other in right if are_pair(one, other)]
        alone = [one for one in left if not any(one is pair[0] for pair in pairs)]
        others = [one for one in right if not any(one is pair[1] for pair in pairs)]
        if kind == "semi":
            found.update((who, one[2]) for one in left if one not in alone)
        elif kind == "anti":
            found.update((who, one[2]) for one in alone)
        else:
            found.update((who, one[2], other[2]) for one, other in pairs)
        if kind in ("left", "full"):
            found.update((who, one[2], None) for one in alone)
        if kind in ("right", "full"):
            found.update((None, None, one[2]) for one in others)
    return found


@st.composite
def inputs(draw):
    items = []
    for number in range(draw(st.integers(1, 12))):
        one = (draw(st.sampled_from("ab")), draw(st.sampled_from("xy")), number, 0)
        items += [one, *draw(st.sampled_from(MARKS))]
    return items


@given(
    items=inputs(),
    config=st.sampled_from([TUMBLING, SESSIONS, INTERVAL]),
    kind=st.sampled_from(KINDS),
    backend=st.sampled_from(["memory", "disk"]),
    runs=RUNS,
    extra=st.data(),
)
@settings(max_examples=max(EXAMPLES // 2, 8))
def test_rows_are_joined_by_when_they_came(items, config, kind, backend, runs, extra):
    """With crashes, pauses between runs, other workers, and clocks that are behind."""
    cls = WindowJoin if "window" in config else IntervalJoin
    built = topology(cls, items, {**config, "type": kind}, backend)
    result = in_runs(built, runs, extra)
    width = 2 if kind in ("semi", "anti") else 3
    expected = model(config, kind, arrivals_of(result))
    event(f"{min(len(expected), 4)} or more rows")
    assert Counter(tuple(row[:width]) for row in result.collected("sink")) == expected
    kept = [*result.state("join")]
    assert kept == [], "when the input has ended, nothing waits any more"


def test_a_row_has_no_match_when_the_clock_says_so_while_nothing_comes():
    items = [("a", "x", 1, 0), *[PAUSE] * 9, ("b", "x", 2, 0)]
    built = topology(IntervalJoin, items, {**INTERVAL, "type": "left"})
    result = run(built, clock=ManualClock(start=START), batch_seconds=3, batches=7)
    assert [row[:3] for row in result.collected("sink")] == [["x", 1, None]]


def test_the_window_of_a_join_is_that_of_the_time_of_day():
    built = topology(WindowJoin, [("a", "x", 1, 0), ("b", "x", 2, 0)], TUMBLING)
    [[*_, start, end]] = run(built, clock=ManualClock(start=START)).collected("sink")
    assert (start, plain(end) - plain(start)) == (START, 10_000)


def test_a_row_is_matched_until_the_time_of_day_that_it_names():
    first = int(START.timestamp() * 1000)
    left = {**LEFT, "fields": {"k": "who", "a": "n", "open": "at"}}
    config = {**INTERVAL, "left": left, "until": "open", "unit": "ms"}
    items = [("a", "x", 1, first + 3000), ("b", "x", 2, 0), PAUSE, ("b", "x", 3, 0)]
    result = run(
        topology(IntervalJoin, [*items, PAUSE, ("b", "x", 4, 0)], config),
        clock=ManualClock(start=START),
        batch_seconds=2.5,
    )
    assert sorted(row[3] for row in result.collected("sink")) == [2, 3]


def of_time(config):
    sides = {name: {**config[name], "time": "at"} for name in ("left", "right")}
    return {**config, **sides, "by": "time", "unit": "s"}


@pytest.mark.parametrize(
    ("cls", "config"),
    [(WindowJoin, TUMBLING), (IntervalJoin, INTERVAL)],
    ids=["window", "interval"],
)
def test_rows_that_wait_by_event_time_do_not_become_those_of_the_clock(cls, config):
    items = [("a", "x", 1, 5)]
    before, after = topology(cls, items, of_time(config)), topology(cls, items, config)
    clock = ManualClock(start=START)
    result = run(before, batches=2, clock=clock)
    with pytest.raises(FulmenError, match=r"kept with .*by time; now it is clock"):
        run(after, checkpoint=result, clock=clock)


def test_event_time_behind_a_join_by_the_clock_is_the_time_of_day():
    def warned(time):
        builder = topology(WindowJoin, [], {**TUMBLING, "left": {**LEFT, "fields": ["who", "at"]}})
        config = {"key": ["who"], "time": time, "aggregates": {"n": "count"}}
        config["window"] = {"type": "tumbling", "size": "1m"}
        windows = builder.set_bolt("windows", Aggregate).set_config(config)
        windows.fields_grouping("join", ["who"])
        found = check(to_document(builder.build()), for_kubernetes=True).problems
        return [one for one in found if "before the time of day is late" in one.message]

    assert [one.severity for one in warned("at")] == ["warning"]
    assert warned("window_last") == warned("window_end") == []


MISTAKES = [
    (IntervalJoin, {**INTERVAL, "left": {**LEFT, "time": "at"}}, "has no left.time"),
    (WindowJoin, {**TUMBLING, "unit": "ms"}, "has no unit"),
    (WindowJoin, {**TUMBLING, "allowedLateness": "1m"}, "nothing is late by the clock"),
    (TemporalJoin, CONFIG, "A LookupJoin finds the row that is there when a tuple comes"),
    (IntervalJoin, {**INTERVAL, "by": "time"}, "To join by the clock: by: clock"),
]


@pytest.mark.parametrize(("cls", "config", "said"), MISTAKES)
def test_what_a_join_by_the_clock_has_no_use_for_is_refused(cls, config, said):
    with pytest.raises(ValidationFailed, match=said):
        run(topology(cls, [("a", "x", 1, 0)], config))
