"""Windows of the time of day: by when tuples come, whatever their batches, kills and runs."""

from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import ArrowSpout, TopologyBuilder
from fulmen.errors import FulmenError, ValidationFailed
from fulmen.testing import (
    PAUSE,
    BoltHarness,
    CollectBolt,
    ListSpout,
    ManualClock,
    run,
)
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from fulmen.windows import Aggregate
from support.runs.engine_runs import make_driver, state_of
from support.windows.aggregates import EXAMPLES, plain
from support.windows.by_clock import (
    FIRST,
    MARKS,
    RUNS,
    START,
    arrivals_of,
    in_runs,
    tell_arrivals,
)

TUMBLING = {"type": "tumbling", "size": "10s"}
WINDOWS = [
    TUMBLING,
    {"type": "sliding", "size": "10s", "every": "4s"},
    {"type": "cumulative", "size": "20s", "every": "5s"},
    {"type": "calendar", "unit": "hour"},
    {"type": "session", "gap": "5s"},
]
SUMS = {"n": "count", "total": "sum(amount)", "all": "list(amount)"}
FIELDS = ["user", "amount"]


def topology(items, window=TUMBLING, spout=None, backend="memory", **config):
    builder = TopologyBuilder()
    builder.set_spout("source", spout or ListSpout(items, FIELDS))
    config = {"key": ["user"], "by": "clock", "aggregates": SUMS, "window": window, **config}
    bolt = builder.set_bolt("windows", Aggregate, 2).set_config(config)
    bolt.fields_grouping("source", ["user"]).set_keyed_state(backend)
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("windows")
    tell_arrivals(builder)
    behind = builder.set_bolt("behind", Aggregate).fields_grouping("windows", ["user"])
    config = {"key": ["user"], "time": "window_last", "aggregates": {"n": "count"}}
    behind.set_config({**config, "window": {"type": "tumbling", "size": "20s"}})
    builder.set_bolt("counts", CollectBolt).shuffle_grouping("behind")
    builder.set_bolt("late", CollectBolt).shuffle_grouping("behind", "late")
    return builder


def rows_of(result):
    return [tuple(map(plain, row)) for row in result.collected("sink")]


def model(arrivals, window):
    """The windows of tuples that came at such times: key, start, end -> amounts, in order."""
    if window["type"] == "session":
        return sessions(arrivals)
    found = {}
    for user, amount, came in arrivals:
        for start, end in spans(window, came):
            found.setdefault((user, start, end), []).append(amount)
    return found


def spans(window, came):
    def part(seconds):
        return came - came % (seconds * 1000)

    if window["type"] == "tumbling":
        return [(part(10), part(10) + 10_000)]
    if window["type"] == "calendar":
        return [(part(3600), part(3600) + 3_600_000)]
    if window["type"] == "cumulative":
        begin = part(20)
        return [(begin, end) for end in range(part(5) + 5000, begin + 20_001, 5000)]
    return [(at, at + 10_000) for at in range(part(4) - 8000, came + 1, 4000) if at + 10_000 > came]


def sessions(arrivals):
    found = {}
    for user in {user for user, _, _ in arrivals}:
        start = end = None
        for came, amount in [(came, amount) for who, amount, came in arrivals if who == user]:
            if end is not None and came <= end:
                amounts = found.pop((user, start, end))
            else:
                start, amounts = came, []
            end = came + 5000
            found[user, start, end] = [*amounts, amount]
    return found


@st.composite
def inputs(draw):
    items = []
    for number in range(draw(st.integers(1, 12))):
        items += [[draw(st.sampled_from("abc")), number], *draw(st.sampled_from(MARKS))]
    return items


@given(
    items=inputs(),
    window=st.sampled_from(WINDOWS),
    backend=st.sampled_from(["memory", "disk"]),
    runs=RUNS,
    extra=st.data(),
)
@settings(max_examples=max(EXAMPLES // 2, 8))
def test_each_tuple_is_once_in_the_windows_of_when_it_came(items, window, backend, runs, extra):
    """With crashes, pauses between runs, other workers, and clocks that are behind."""
    built = topology(items, window, backend=backend)
    result = in_runs(built, runs, extra)
    arrivals = arrivals_of(result)
    times = [came for _, _, came in sorted(arrivals, key=lambda one: one[1])]
    assert times == sorted(times)
    found = rows_of(result)
    event(f"{min(len(found), 4)} or more windows")
    assert {row[:3]: row[5] for row in found} == model(arrivals, window)
    assert len({row[:3] for row in found}) == len(found)
    assert result.collected("late") == []
    ends = Counter((user, (end - 1) // 20_000 * 20_000) for user, _, end, *_ in found)
    counts = {(row[0], plain(row[1])): row[3] for row in result.collected("counts")}
    assert counts == ends


def test_time_stands_still_where_a_clock_is_behind():
    built = topology([["a", 1], PAUSE, ["a", 2], PAUSE, ["a", 3]])
    result = None
    for seconds in (0, -30, 60):
        clock = ManualClock(start=START + timedelta(seconds=seconds))
        result = run(built, checkpoint=result, clock=clock, batches=1, batch_seconds=0)
        came = [at - FIRST for *_, at in arrivals_of(result)]
    assert came == [0, 0, 60_000]
    result = run(built, checkpoint=result, clock=clock)
    assert [row[:4] for row in rows_of(result)] == [
        ("a", FIRST, FIRST + 10_000, 2),
        ("a", FIRST + 60_000, FIRST + 70_000, 1),
    ]


def test_a_window_ends_by_the_clock_while_nothing_comes():
    built = topology([["a", 1], PAUSE, ["a", 2], *[PAUSE] * 9, ["a", 3]])
    result = run(built, clock=ManualClock(start=START), batch_seconds=3, batches=7)
    assert rows_of(result) == [("a", FIRST, FIRST + 10_000, 2, 3, [1, 2])]


def test_a_window_ends_on_time_while_batches_are_rare():
    """It is not waited for longer than until its end, and people are told that it will come."""
    clock = ManualClock(start=START)
    built = topology([["a", 1]], {"type": "session", "gap": "3333ms"})
    running = make_driver(built, clock=clock, wall=clock.wall, seconds=0).start()
    while running.step() and not state_of(running, "sink"):
        told = running.totals.event_times()["windows"]
        assert told.why.endswith("UTC, and goes on with the clock")
        assert not told.is_stuck
        clock.advance(running.coordinator.idle_seconds())
    running.close()
    assert clock.now == pytest.approx(3.334, abs=0.002)


def test_windows_of_event_time_behind_those_of_the_clock_have_all_of_their_results():
    built = topology([["a", 1], *[PAUSE] * 8, ["a", 2], *[PAUSE] * 20, ["a", 3]])
    config = {"key": ["user"], "window": {"type": "tumbling", "size": "20s"}}
    config |= {"time": "window_last", "aggregates": {"windows": "count", "total": "sum(total)"}}
    second = built.set_bolt("second", Aggregate).set_config(config)
    second.fields_grouping("windows", ["user"])
    built.set_bolt("late-again", CollectBolt).shuffle_grouping("second", "late")
    problems = check(to_document(built.build()), for_kubernetes=True).problems
    assert not any("eventTime" in one.message for one in problems)
    built.set_bolt("totals", CollectBolt).shuffle_grouping("second")
    clock = ManualClock(start=START)
    result = run(built, clock=clock, batch_seconds=2, batches=20)
    assert [tuple(map(plain, row)) for row in result.collected("totals")] == [
        ("a", FIRST, FIRST + 20_000, 2, 3)
    ]
    result = run(built, clock=clock, batch_seconds=2, checkpoint=result)
    assert [row[3:] for row in result.collected("totals")] == [[2, 3], [1, 3]]
    assert result.collected("late-again") == []


class Columns(ArrowSpout):
    """The same rows several times, as columns."""

    outputs = FIELDS

    def open(self, conf, context, collector):
        self.collector, self.left = collector, 3

    def next_tuple(self):
        if self.left:
            self.left -= 1
            users, amounts = zip(*MANY, strict=True)
            batch = pa.RecordBatch.from_pydict({"user": users, "amount": amounts})
            self.collector.emit(batch)


MANY = [(f"user-{i % 3}", i) for i in range(200)]
AS_LISTS = ListSpout([*MANY, PAUSE, *MANY, PAUSE, *MANY], FIELDS)


@pytest.mark.parametrize(
    ("spout", "partial"),
    [(AS_LISTS, False), (AS_LISTS, True), (Columns, False)],
    ids=["lists", "partial", "columns"],
)
@pytest.mark.parametrize("window", [TUMBLING, WINDOWS[1]], ids=["tumbling", "sliding"])
def test_rows_that_are_added_together_are_in_the_windows_of_when_they_came(spout, partial, window):
    aggregates = {"n": "count", "total": "sum(amount)"}
    built = topology([], window, spout, aggregates=aggregates, partial=partial)
    result = run(built, workers=2, clock=ManualClock(start=START), batch_seconds=4)
    arrivals = arrivals_of(result)
    assert len({came for *_, came in arrivals}) > 1
    expected = {key: (len(one), sum(one)) for key, one in model(arrivals, window).items()}
    assert {row[:3]: row[3:] for row in rows_of(result)} == expected


def test_a_bolt_of_a_test_goes_by_the_seconds_that_pass():
    config = {"window": TUMBLING, "by": "clock", "aggregates": {"n": "count"}}
    with BoltHarness(Aggregate, fields=FIELDS, conf=config) as bolt:
        bolt.execute(["a", 1])
        bolt.advance(seconds=9)
        bolt.execute(["a", 1])
        assert bolt.emitted == []
        bolt.advance(seconds=1)
        assert [tuple(map(plain, one.values)) for one in bolt.emitted] == [(0, 10_000, 2)]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"time": "at"}, "by: clock goes by when tuples come, and has no time"),
        ({"unit": "ms"}, "by: clock goes by when tuples come, and has no unit"),
        ({"allowedLateness": "1m"}, "by: clock has no allowedLateness: nothing is late"),
        ({"window": {"type": "count", "size": 2}}, "by: clock is not for windows by count"),
    ],
)
def test_options_that_the_clock_has_no_use_for_are_refused(config, message):
    with pytest.raises(ValidationFailed, match=message):
        run(topology([["a", 1]], **config))


def test_rows_that_may_be_taken_back_are_refused():
    built = topology([], spout=ListSpout([], [*FIELDS, "is_retraction"]))
    with pytest.raises(ValidationFailed, match="may take back earlier ones"):
        run(built)


def test_open_windows_of_event_time_do_not_become_those_of_the_clock():
    of_time = topology([["a", 1]], by="time", time="amount", unit="s", aggregates={"n": "count"})
    clock = ManualClock(start=START)
    result = run(of_time, batches=2, clock=clock)
    with pytest.raises(FulmenError, match=r"Now they would be: tumbling .* of the clock"):
        run(topology([["a", 1]], aggregates={"n": "count"}), checkpoint=result, clock=clock)
