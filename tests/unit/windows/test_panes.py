"""Windows that are emitted once and for all, and rows that take back those before them."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.api.tuples import Held, Tuple
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import PAUSE, BoltHarness, run
from fulmen.windows import Aggregate, Aggregation
from support.windows.aggregates import (
    COUNT,
    EVENTS,
    EXAMPLES,
    EXTRAS,
    FIELDS,
    SESSION,
    SUMS,
    TUMBLING,
    WINDOWS,
    by_duckdb,
    plain,
    results,
    topology,
)

LATE = [("a", 1, 0), ("n", 1, 16), PAUSE, ("n", 1, 16), PAUSE, ("a", 1, 5), PAUSE]
"""A tuple, and one that comes when its window has ended."""


def test_each_key_to_which_something_has_come_is_emitted_early_once_more():
    """Also one whose window is at hand, as another key's tuple has come before it."""
    options = {"time": "at", "unit": "ms", "key": ["user"], "emitEvery": "1s"}
    conf = {**options, "window": TUMBLING, "aggregates": SUMS}
    bolt = BoltHarness(Aggregate, fields=FIELDS, conf=conf)
    for _ in range(2):
        for user in "abc":
            bolt.execute([user, 1, 5])
        bolt.advance(seconds=2)
    assert [row.values[-1] for row in bolt.emitted] == [0, 0, 0, 1, 1, 1]


# What comes just at the end of a session belongs to it.
@pytest.mark.parametrize(("window", "end", "past"), [(TUMBLING, 10, 10), (SESSION, 15, 16)])
@pytest.mark.parametrize("aggregates", [SUMS, {"n": "count"}])
def test_a_final_window_is_emitted_when_nothing_more_can_come(window, end, past, aggregates):
    options = {"time": "at", "unit": "ms", "key": ["user"], "emit": "final"}
    conf = {**options, "allowedLateness": "20ms", "window": window, "aggregates": aggregates}
    bolt = BoltHarness(Aggregate, fields=FIELDS, conf=conf)
    bolt.execute(["a", 1, 0])
    bolt.advance(watermark=10)
    bolt.execute(["a", 1, 5])
    bolt.advance(watermark=past + 19)
    bolt.end_batch()
    assert bolt.emitted == []
    bolt.advance(watermark=past + 20)
    bolt.end_batch()
    assert [list(map(plain, one.values))[:4] for one in bolt.emitted] == [["a", 0, end, 2]]
    assert bolt.state == {}
    bolt.execute(["a", 1, 0])
    assert [one.stream for one in bolt.emitted] == ["default", "late"]


def test_a_final_session_waits_also_if_an_earlier_one_of_its_key_is_emitted():
    options = {"time": "at", "unit": "ms", "key": ["user"], "emit": "final", "aggregates": SUMS}
    conf = {**options, "allowedLateness": "20ms", "window": SESSION}
    bolt = BoltHarness(Aggregate, fields=FIELDS, conf=conf)
    bolt.execute(["a", 1, 0])
    bolt.execute(["a", 1, 14])
    bolt.advance(watermark=31)
    bolt.end_batch()
    assert [plain(one.values[1]) for one in bolt.emitted] == [0]


@pytest.mark.parametrize(("window", "end"), [(TUMBLING, 10), (SESSION, 15)])
def test_a_row_that_has_changed_is_taken_back_before_it_comes_again(window, end):
    first = end if window is TUMBLING else 10
    found, _ = results(LATE, window, allowedLateness="20ms", retract=True)
    assert [row for row in found if row[0] == "a"] == [
        ("a", 0, first, 1, 1, "on_time", 0, False),
        ("a", 0, first, 1, 1, "on_time", 0, True),
        ("a", 0, end, 2, 2, "late", 1, False),
    ]


def test_sessions_that_have_become_one_are_all_taken_back():
    items = [("a", 1, 0), ("a", 2, 25), ("n", 1, 40), PAUSE, ("n", 1, 40), PAUSE, ("a", 4, 12)]
    window = {"type": "session", "gap": "14ms"}
    found, _ = results(items, window, allowedLateness="50ms", retract=True)
    assert sorted(row for row in found[:-1] if row[0] == "a") == [
        ("a", 0, 14, 1, 1, "on_time", 0, False),
        ("a", 0, 14, 1, 1, "on_time", 0, True),
        ("a", 0, 39, 3, 7, "late", 1, False),
        ("a", 25, 39, 1, 2, "on_time", 0, False),
        ("a", 25, 39, 1, 2, "on_time", 0, True),
    ]


class Seen(Aggregation):
    """Gives the list that it goes on with."""

    in_place = True

    def init(self):
        return []

    def add(self, kept, value, time):
        kept.append(value)
        return kept

    def merge(self, kept, other):
        return kept + other


class WithSeen(Aggregate):
    own = {"seen": Seen}  # noqa: RUF012 (as authors write it)


@pytest.mark.parametrize("window", [TUMBLING, SESSION])
def test_what_is_taken_back_is_as_it_was_whatever_has_come_since(window):
    options = {"time": "at", "unit": "ms", "key": ["user"], "emitEvery": "1s", "retract": True}
    conf = {**options, "window": window, "aggregates": {"all": "seen(amount)"}}
    bolt = BoltHarness(WithSeen, fields=FIELDS, conf=conf)
    bolt.execute(["a", 1, 0])
    bolt.advance(seconds=2)
    bolt.execute(["a", 2, 1])
    bolt.advance(seconds=2)
    rows = [(one.values[3], one.values[-1]) for one in bolt.emitted]
    assert rows[1:] == [([1], True), ([1, 2], False)]


def test_what_comes_as_arrow_takes_back_what_was_emitted_before_it():
    options = {"time": "at", "unit": "ms", "key": ["user"], "emitEvery": "1s", "retract": True}
    conf = {**options, "window": TUMBLING, "aggregates": {"sum": "sum(amount)"}}
    bolt = BoltHarness(Aggregate, fields=FIELDS, conf=conf)
    source = Held("source", "default", FIELDS, 1)
    for amount in (1, 2):
        batch = pa.RecordBatch.from_pylist([dict(zip(FIELDS, ("a", amount, 0), strict=True))])
        assert bolt.bolt.execute_batch(Tuple((), source, 0), batch) == []
        bolt.end_batch()
        bolt.advance(seconds=2)
    rows = [(one.values[3], one.values[-1]) for one in bolt.emitted]
    assert rows == [(1, False), (1, True), (3, False)]


OPEN = [("a", 1, 0), PAUSE, PAUSE, PAUSE]
OVER = [("a", 2, 1), PAUSE, ("n", 1, 15), PAUSE, ("n", 1, 16), PAUSE, ("n", 1, 60), PAUSE]
"""What comes to a window before and after a restart, until long after its end."""


@pytest.mark.parametrize(
    ("window", "aggregates"), [(TUMBLING, SUMS), (TUMBLING, COUNT), (SESSION, SUMS)]
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"emit": "final"}, {"emit": "final", "allowedLateness": "20ms"}),
        ({}, {"emit": "final", "allowedLateness": "20ms"}),
        ({"emitEvery": "100ms"}, {}),
        ({"emitEvery": "100ms"}, {"emit": "final"}),
        ({"emit": "final", "allowedLateness": "20ms"}, {"emit": "final"}),
    ],
)
def test_a_window_is_emitted_once_if_that_is_wanted_from_a_restart_on(
    window, aggregates, before, after
):
    items, more = [*OPEN, *OVER], {"aggregates": aggregates}
    first = run(topology(items, window, **more, **before), batches=2)
    second = run(topology(items, window, **more, **after), checkpoint=first, batch_seconds=0.3)
    assert second.errors == []
    assert [row[3:] for row in second.collected("sink") if row[0] == "a"] == [
        [2, 3][: len(aggregates)]
    ]


@pytest.mark.parametrize("lateness", ["0", "0s", "0.0ms"])
def test_without_any_lateness_that_is_allowed_a_window_has_one_row(lateness):
    found, _ = results([("a", 1, 0), PAUSE], TUMBLING, allowedLateness=lateness)
    assert found == [("a", 0, 10, 1, 1)]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"emit": "final", "emitEvery": "1s"}, "emit: final is not for emitEvery"),
        ({"retract": True}, "retract is for windows that are emitted several times"),
        ({"retract": True, "emit": "final", "allowedLateness": "1s"}, "retract is for windows"),
        (
            {"retract": True, "emitEvery": "1s", "aggregates": {"is_retraction": "count"}},
            "several output fields are called is_retraction",
        ),
    ],
)
def test_mistakes_are_found_before_anything_runs(config, said):
    with pytest.raises(ValidationFailed) as raised:
        run(topology([("a", 1, 1)], TUMBLING, **config))
    assert said in str(raised.value)


HOW = [{"emit": "final"}, {"retract": True}, {"retract": True, "emitEvery": "1s"}]


@pytest.mark.parametrize("kind", ["sliding", "session"])
@given(events=EVENTS, extra=st.data())
@settings(max_examples=EXAMPLES)
def test_with_all_that_is_late_windows_are_those_of_sql(kind, events, extra):
    """Rows that are added up, less those that are taken back, are all windows, and each once."""
    how = extra.draw(st.sampled_from(HOW))
    items = []
    for event in events:
        items.append(event)
        items += extra.draw(st.sampled_from(EXTRAS))
    how = {**how, "allowedLateness": "400ms", "batch_seconds": 0.5, "workers": 2}
    found, late = results(items, WINDOWS[kind][0], **how)
    assert late == []
    rows = Counter()
    for row in found:
        rows[row[:5]] += -1 if row[-1] is True else 1
        assert rows[row[:5]] in (0, 1)
    assert sorted(rows.elements()) == [row[:5] for row in by_duckdb(kind, events)]


OTHER = {
    "size": ({"type": "tumbling", "size": "20ms"}, {}),
    "type": ({"type": "session", "gap": "10ms"}, {}),
    "key": (TUMBLING, {"key": ["user", "amount"]}),
    "aggregates": (TUMBLING, {"aggregates": {"n": "count", "total": "max(amount)"}}),
    "time": (TUMBLING, {"time": "amount"}),
}


@pytest.mark.parametrize("change", OTHER)
def test_open_windows_of_another_kind_are_refused(change):
    """They would never end, or be added to what something else has kept."""
    window, more = OTHER[change]
    first = run(topology([("a", 1, 0), PAUSE, ("a", 1, 90), PAUSE], TUMBLING), batches=2)
    with pytest.raises(
        TopologyFailed, match=r"tumbling \(size 10 ms, offset 0 ms\) by user of count"
    ):
        run(topology([("a", 1, 0), ("a", 1, 90)], window, **more), checkpoint=first, batches=3)


@pytest.mark.parametrize("window", [TUMBLING, SESSION])
@pytest.mark.parametrize("aggregates", [SUMS, COUNT])
@pytest.mark.parametrize("before", [{}, {"allowedLateness": "20ms"}])
def test_what_was_forgotten_stays_so_when_more_is_allowed_to_be_late(window, aggregates, before):
    """A window that began anew then would take the place of the whole one in a table."""
    items = [("a", 1, 0), ("a", 2, 1), PAUSE, ("a", 1, 90), PAUSE, ("a", 1, 91), PAUSE]
    first = run(topology(items, window, aggregates=aggregates, **before), batches=4)
    items += [("a", 1, 2), PAUSE, ("a", 1, 200), PAUSE, PAUSE, ("a", 1, 95), PAUSE]
    second = topology(items, window, aggregates=aggregates, allowedLateness="1s")
    found = run(second, checkpoint=first)
    assert found.errors == []
    counts = {plain(row[1]): row[3] for row in found.collected("sink")}
    assert counts == {0: 2, 90: 3, 200: 1}
    assert [row[0]["at"] for row in found.collected("late")] == [2]


def test_rows_that_were_emitted_without_retract_can_not_be_taken_back():
    items = [("a", 1, 0), PAUSE, ("a", 1, 90), PAUSE]
    first = run(topology(items, TUMBLING, allowedLateness="1s"), batches=4)
    again = topology(items, TUMBLING, allowedLateness="1s", retract=True)
    with pytest.raises(TopologyFailed, match="emitted without retract: their rows can't be taken"):
        run(again, checkpoint=first)


def test_the_same_windows_in_other_words_go_on():
    items = [("a", 1, 0), PAUSE, ("a", 1, 90), PAUSE]
    first = run(topology(items, {"type": "tumbling", "size": "1s"}), batches=2)
    same = {"type": "tumbling", "size": "1000ms"}
    assert run(topology(items, same), checkpoint=first, batches=3).errors == []
