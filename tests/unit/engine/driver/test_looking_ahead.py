"""The end of a run that others may follow: early results, and bolts that are as they were."""

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import datetime
from itertools import cycle

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.api.components.sinks import Sink
from fulmen.connectors.sqlite import SqliteSink
from fulmen.errors import CheckpointMismatch
from fulmen.testing import PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import Aggregate, Deduplicate, ExpiringState, IntervalJoin, WindowedBolt
from support.windows.aggregates import plain

FIELDS = ["user", "at"]
WRITTEN = Counter()


class Rows(Sink):
    """Notes what it writes: each row is one more."""

    appends = True
    refusals = 0

    def write(self, rows, mark):
        for i, row in enumerate(rows):
            if Rows.refusals:
                Rows.refusals -= 1
                rows.fail(i, "not now")
            else:
                WRITTEN[tuple(map(plain, row))] += 1


class Visits(BasicBolt):
    """How many clicks a visit had, and which one of the user's it was, by a timer."""

    outputs = ("user", "clicks", "visit")

    def prepare(self, conf, context):
        self.timers = context.timers

    def execute(self, tup, collector):
        self.state[tup["user"]] = self.state.get(tup["user"], 0) + 1
        self.timers.set(tup["user"], tup["at"] + 10)

    def on_timer(self, key, at, collector):
        visit = self.state.get(("visit", key), 1)
        collector.emit([key, self.state.pop(key), visit])
        self.state["visit", key] = visit + 1


class Greeter(BasicBolt):
    """Emits each user who was not there for a while."""

    outputs = ("user", "at")

    def prepare(self, conf, context):
        self.seen = ExpiringState(self.state, context, "10ms", by="event")

    def execute(self, tup, collector):
        if tup["user"] not in self.seen:
            collector.emit(list(tup.values))
        self.seen.put(tup["user"], True, at=tup["at"])

    def on_timer(self, key, at, collector):
        self.seen.expired(key)


class Tuples(WindowedBolt):
    """Emits how many tuples there are in each window."""

    outputs = ("end", "count")

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        self.collector.emit([window.end, len(window.tuples)])


class Total(BasicBolt):
    """Adds up what windows have, and emits the sum each time."""

    outputs = ("user", "total")

    def execute(self, tup, collector):
        user = tup["user"]
        self.state[user] = self.state.get(user, 0) + tup["n"]
        collector.emit([user, self.state[user]])


class Last(BasicBolt):
    """Says at its end how many rows have come."""

    outputs = ("rows",)

    def execute(self, tup, collector):
        self.state["rows"] = self.state.get("rows", 0) + 1

    def drain(self, collector):
        collector.emit([self.state.get("rows", 0)])


TEN = {"type": "tumbling", "size": "10ms"}
COUNTS = {"key": ["user"], "window": TEN, "aggregates": {"n": "count"}}
LAST = {"id": ["user"], "fields": FIELDS, "time": "at", "unit": "ms", "horizon": "10ms"}
BOLTS = {
    "timers": (Visits, {}),
    "expiring": (Greeter, {}),
    "windowed": (Tuples().with_tumbling_window("10ms").with_timestamp_field("at"), {"unit": "ms"}),
    "first": (Deduplicate, LAST),
    "last": (Deduplicate, {**LAST, "keep": "last"}),
    "counts": (Aggregate, COUNTS),
    "finals": (Aggregate, {**COUNTS, "emit": "final", "allowedLateness": "5ms"}),
    "updates": (Aggregate, {**COUNTS, "retract": True, "emitEvery": "1s"}),
}
EVENTS = [["a", 1], ["b", 2], ["a", 8], ["a", 15], ["b", 31], ["a", 33], ["a", 33], ["b", 47]]


def topology(cls, config, events, sinks=None):
    """`sinks`: the number of tasks of a sink that is grouped by users; None: one has all rows."""
    b = TopologyBuilder()
    apart = [item for event in events for item in (event, PAUSE, PAUSE, PAUSE)]
    b.set_spout("clicks", ListSpout(apart, fields=FIELDS)).set_event_time("at", unit="ms")
    b.set_bolt("bolt", cls).set_config(config).fields_grouping("clicks", ["user"])
    b.set_bolt("seen", CollectBolt).global_grouping("bolt")
    sink = b.set_bolt("sink", Rows)
    if sinks is None:
        sink.global_grouping("bolt")
    else:
        sink.set_num_tasks(sinks).fields_grouping("bolt", ["user"])
    return b


def cut(cls, config, *ends, sinks=None):
    """What came in time after runs over the first events each; and what each has written."""
    tasks = [None] * len(ends) if sinks is None else sinks
    result, written = None, []
    WRITTEN.clear()
    for end, number in zip(ends, tasks, strict=True):
        before = Counter(WRITTEN)
        b = topology(cls, config, EVENTS[:end], number)
        result = run(b, checkpoint=result, end_of_input=end is None)
        assert result.errors == []
        written.append(sorted((WRITTEN - before).elements(), key=str))
    return sorted(tuple(map(plain, row)) for row in result.collected("seen")), written


@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize("name", BOLTS)
def test_what_comes_in_time_is_the_same_however_events_are_cut_into_runs(name):
    whole, _ = cut(*BOLTS[name], None)
    assert whole
    assert cut(*BOLTS[name], 1, 3, 3, 6, None)[0] == whole


@pytest.mark.parametrize("sinks", [None, (1, 4, 2, 5)], ids=["one sink", "other numbers"])
def test_each_run_writes_what_there_would_be_if_nothing_more_came_and_nothing_twice(sinks):
    assert cut(*BOLTS["timers"], 2, 2, 3, None, sinks=sinks)[1] == [
        [("a", 1, 1), ("b", 1, 1)],
        [],  # nothing has come
        [("a", 2, 1)],
        [("a", 2, 2), ("a", 3, 1), ("b", 2, 2)],  # the first visit of b is written
    ]


def test_what_bolts_count_while_they_look_ahead_does_not_count():
    result = None
    for end, duplicates in ((1, 0), (3, 0), (7, 1)):
        result = run(topology(*BOLTS["last"], EVENTS[:end]), checkpoint=result, end_of_input=False)
        assert result.metrics["bolt"].get("duplicates", 0) == duplicates


def test_windows_that_are_emitted_once_all_is_final_are_not_emitted_early():
    assert cut(*BOLTS["finals"], 3, 7)[1] == [
        [],
        [("a", 0, 10, 2), ("a", 10, 20, 1), ("b", 0, 10, 1)],
    ]


@pytest.mark.parametrize("sinks", [[None] * 6, (2, 5, 1, 3, 4, 2)], ids=["one", "other numbers"])
def test_results_that_may_be_taken_back_add_up_to_the_windows_there_are_after_each_run(sinks):
    result = None
    WRITTEN.clear()
    for end, number in zip((1, 3, 3, 5, 8, 8), sinks, strict=True):
        b = topology(*BOLTS["updates"], EVENTS[:end], number)
        result = run(b, checkpoint=result, end_of_input=False)
        sums = Counter()
        for (user, since, _, n, *_, is_retraction), times in WRITTEN.items():
            sums[user, since, n] += -times if is_retraction else times
        wanted = Counter((user, at // 10 * 10) for user, at in EVENTS[:end])
        assert {key: n for key, n in sums.items() if n} == {(*w, n): 1 for w, n in wanted.items()}


def test_early_results_say_that_they_are():
    cut(*BOLTS["updates"], 2)
    assert {row[4] for row in WRITTEN} == {"early"}


def test_early_results_that_a_sink_refuses_are_given_again_a_few_times():
    Rows.refusals = 1
    assert cut(*BOLTS["timers"], 2)[1] == [[("a", 1, 1), ("b", 1, 1)]]
    Rows.refusals = 2 * 3
    assert cut(*BOLTS["timers"], 2, 2)[1] == [[], [("a", 1, 1), ("b", 1, 1)]]


def test_a_bolt_that_adds_up_what_windows_emit_adds_each_window_once():
    totals = []
    result = None
    for end in (1, 3, 4, None):
        b = topology(Aggregate, COUNTS, EVENTS[:end])
        b.set_bolt("total", Total).fields_grouping("bolt", ["user"])
        result = run(b, checkpoint=result, end_of_input=end is None)
        totals.append(result.state("total"))
    assert totals == [{}, {}, {"a": 2, "b": 1}, {"a": 5, "b": 3}]


def test_the_end_of_all_input_is_told_to_bolts_once_though_sinks_have_early_rows():
    WRITTEN.clear()
    result = None
    for end in (2, None):
        b = topology(*BOLTS["updates"], EVENTS[:end])
        b.set_bolt("last", Last).global_grouping("clicks")
        b.set_bolt("told", Rows).global_grouping("last")
        b.set_bolt("all", CollectBolt).global_grouping("last")
        before = Counter(WRITTEN)
        result = run(b, checkpoint=result, end_of_input=end is None)
    assert [row for row in (WRITTEN - before).elements() if len(row) == 1] == [(8,)]


def test_a_join_that_a_source_has_left_behind_takes_what_comes_of_it_in_the_next_run():
    """The payments of the first run are ahead of the orders that are still to come."""
    result, sources = None, {"orders": [["a", 1], ["b", 12]], "payments": [["a", 3], ["b", 15]]}
    for orders in (1, 2):
        b = TopologyBuilder()
        for name, events in sources.items():
            some = events[:orders] if name == "orders" else events
            spout = b.set_spout(name, ListSpout(some, fields=FIELDS))
            spout.set_event_time("at", unit="ms")
        sides = {
            side: {"from": name, "fields": {side: "at"}}
            for side, name in zip(("left", "right"), sources, strict=True)
        }
        join = b.set_bolt("join", IntervalJoin)
        join.set_config({"key": ["user"], "upper": "5ms", "type": "left", **sides})
        for name in sources:
            join.fields_grouping(name, ["user"])
        b.set_bolt("seen", CollectBolt).global_grouping("join")
        b.set_bolt("late", CollectBolt).global_grouping("join", "late")
        result = run(b, checkpoint=result, end_of_input=False)
    assert result.collected("late") == []
    assert sorted(map(tuple, result.collected("seen"))) == [(1, 3), (12, 15)]


SESSIONS = {
    "key": ["user"],
    "window": {"type": "session", "gap": "10ms"},
    "aggregates": {"n": "count"},
}


@pytest.mark.parametrize(
    ("tasks", "grouping"), [([1], "shuffle"), ([1, 3, 2, 5], "fields"), ([2], "shuffle")]
)
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_table_loses_the_row_of_a_session_that_begins_earlier(
    tmp_path, guarantee, tasks, grouping
):
    """Unless any task may write any key: then another one may have written it meanwhile."""
    path, result, found = str(tmp_path / "sessions.db"), None, []
    events = [["a", 20], ["b", 20], ["a", 15], ["b", 40], ["a", 41], ["b", 60], ["a", 60]]
    for end, number in zip((2, 3, 5, None), cycle(tasks)):
        b = TopologyBuilder()
        spout = b.set_spout("clicks", ListSpout(events[:end], fields=FIELDS))
        spout.set_event_time("at", unit="ms", lag="10ms")
        b.set_bolt("bolt", Aggregate).set_config(SESSIONS).fields_grouping("clicks", ["user"])
        sink = b.set_bolt("sink", SqliteSink).set_num_tasks(number)
        columns = {"user": "TEXT", "window_start": "TEXT", "n": "INTEGER"}
        sink.set_config(
            {
                "path": path,
                "table": "t",
                "mode": "upsert",
                "key": ["user", "window_start"],
                "create": columns,
                "columns": {name: name for name in columns},
                "guarantee": guarantee,
            }
        )
        if grouping == "fields":
            sink.fields_grouping("bolt", ["user"])
        else:
            sink.shuffle_grouping("bolt")
        result = run(b, checkpoint=result, end_of_input=end is None)
        assert result.errors == []
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute("SELECT user, window_start, n FROM t").fetchall()
        found.append(sorted((user, plain(datetime.fromisoformat(at)), n) for user, at, n in rows))
    stays = [("a", 20, 1)] if (tasks, grouping) == ([2], "shuffle") else []
    ends = [
        [("a", 20, 1), ("b", 20, 1)],
        [("a", 15, 2), ("b", 20, 1), *stays],
        [("a", 15, 2), ("a", 41, 1), ("b", 20, 1), ("b", 40, 1), *stays],
        [("a", start, 1 + (start == 15)) for start in (15, 41, 60)]
        + [("b", start, 1) for start in (20, 40, 60)]
        + stays,
    ]
    assert found == [*map(sorted, ends)]


def test_early_results_that_no_task_is_told_for_keep_the_number_of_tasks():
    def sink(number):
        b = topology(*BOLTS["counts"], EVENTS[:3])
        b.set_bolt("any", Rows).set_num_tasks(number).shuffle_grouping("bolt")
        return b

    result = run(sink(1), end_of_input=False)
    with pytest.raises(CheckpointMismatch, match="task 0 has written early results, and no task"):
        run(sink(2), checkpoint=result)
    run(sink(1), checkpoint=result, end_of_input=True)
